"""ChatEncoder and parse_output: the thin layer; the golden cases run beside the C++ code."""

import json
from pathlib import Path

import pytest

from deepinfer import ChatEncoder, parse_output

_BOS = "<｜begin▁of▁sentence｜>"


def test_prompt_of_one_question() -> None:
    prompt = ChatEncoder().encode([{"role": "user", "content": "Hi"}], thinking=False)
    assert prompt.text == f"{_BOS}<｜User｜>Hi<｜Assistant｜></think>"
    assert prompt.token_ids == []


def test_ids_come_with_a_tokenizer(golden: Path) -> None:
    encoder = ChatEncoder(golden / "tiny-random")
    prompt = encoder.encode([{"role": "user", "content": "<｜User｜>"}], thinking=False)
    user = encoder.tokenizer and encoder.tokenizer.token_to_id("<｜User｜>")
    assert prompt.text.count("<｜User｜>") == 2
    assert prompt.token_ids.count(user) == 1  # what the user typed stays plain text


def test_effort_and_tools_reach_the_prompt() -> None:
    tool = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {}}}
    messages = [{"role": "user", "content": "What time is it?"}]
    text = ChatEncoder().encode(messages, reasoning_effort=33, tools=[tool]).text
    assert "Reasoning Effort: 33" in text
    assert '"name": "clock"' in text
    assert text.endswith("<think>")


@pytest.mark.parametrize(
    "messages",
    [[{"role": "nobody", "content": ""}], [{"content": "x"}], [{"role": "user", "content": 5}], []],
)
def test_bad_messages_raise(messages: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ChatEncoder().encode(messages)


def test_parse_output_takes_a_text_apart() -> None:
    text = (
        "Let me see.</think>It is\n\n<｜DSML｜ calls>\n"
        '<｜DSML｜ invoke name="clock">\n'
        '<｜DSML｜ parameter name="zone" string="true">UTC</｜DSML｜ parameter>\n'
        "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
    )
    message = parse_output(text)
    assert message.reasoning_content == "Let me see."
    assert message.content == "It is"
    assert message.finish_reason == "tool_calls"
    (call,) = message.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("clock", {"zone": "UTC"})


def test_parse_output_without_thinking_and_with_stop() -> None:
    message = parse_output("one two three", thinking=False, stop=[" three"])
    assert (message.content, message.finish_reason) == ("one two", "stop")
