"""chat: one turn, files of messages, the loop on a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_command import Command

GREEDY = ["--temperature", "0", "-n", "48"]


@pytest.fixture
def chat(trained_model: Path) -> list[str | Path]:
    return ["chat", "-m", trained_model, *GREEDY]


def test_one_turn(deepinfer: Command, chat: list[str | Path], tmp_path: Path) -> None:
    words = [*chat, "--thinking", "off"]
    answer = deepinfer(*words, "-p", "What is 17 + 25?")
    assert "42" in answer.out
    assert "<" not in answer.out
    assert deepinfer(*words, stdin="What is 17 + 25?").out == answer.out
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps([{"role": "user", "content": "What is 17 + 25?"}]))
    assert deepinfer(*words, "--messages", messages).out == answer.out
    result = json.loads(deepinfer(*words, "--messages", messages, "--json").out)
    assert result["content"].rstrip("\n") == answer.out.rstrip("\n")
    assert result["finish_reason"] == "stop"
    usage = result["usage"]
    assert usage["completion_tokens"] == len(result["token_ids"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_thinking_is_shown_on_request(deepinfer: Command, chat: list[str | Path]) -> None:
    words = [*chat, "-n", "200", "-p", "What is 17 + 25?"]
    result = json.loads(deepinfer(*words, "--json").out)
    assert result["reasoning_content"]
    assert "42" in result["content"]
    hidden = deepinfer(*words).out
    assert result["reasoning_content"].strip() not in hidden
    shown = deepinfer(*words, "--show-thinking").out
    assert shown.startswith("<think>\n")
    assert shown.rstrip().endswith(f"</think>\n{hidden}".rstrip())


def test_official_policy_replaces_the_temperature(deepinfer: Command, trained_model: Path) -> None:
    words = ["chat", "-m", trained_model, "-p", "a", "-n", "8", "--json", "--seed", "3"]
    honoured = json.loads(deepinfer(*words, "--temperature", "0").out)
    assert honoured["warnings"]
    official = json.loads(
        deepinfer(*words, "--temperature", "0", "--sampling-policy", "official").out
    )
    default = json.loads(deepinfer(*words).out)
    assert official["token_ids"] == default["token_ids"]


def test_bad_requests(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    words = ["chat", "-m", random_model, "-n", "4", "--thinking", "off"]
    image = deepinfer(*words, "-p", "a", "--image", "cat.png", code=1)
    assert "vision tower" in image.err
    messages = tmp_path / "messages.json"
    messages.write_text("{")
    assert str(messages) in deepinfer(*words, "--messages", messages, code=2).err
    messages.write_text('{"prompt": "x"}')
    assert "messages" in deepinfer(*words, "--messages", messages, code=2).err
    messages.write_text('[{"role": "wizard", "content": "x"}]')
    failed = deepinfer(*words, "--messages", messages, "--json", code=4)
    assert json.loads(failed.out)["error"]["message"]
    assert "wizard" in failed.err
    deepinfer(*words, "--messages", messages, "--allow-failures")
    deepinfer(*words, stdin=b"\xff", code=2)
    tools = tmp_path / "tools.json"
    tools.write_text("[")
    deepinfer(*words, "-p", "a", "--tools", tools, code=2)


BAD_OPTIONS = {
    "seed": ["--seed", "-1"],
    "temperature": ["--temperature", "3"],
    "n": ["--num-samples", "17"],
    "top_logprobs": ["--logprobs", "21"],
    "stop": ["--stop", ""],
    "max_tokens": ["-n", "99999999"],
    "tools": ["--tools", "tools.json"],
}


@pytest.mark.parametrize("field", BAD_OPTIONS)
@pytest.mark.parametrize("source", [["-p", "a"], ["--messages", "messages.json"]])
def test_bad_options_are_refused_before_the_model_loads(
    deepinfer: Command, broken_model: Path, tmp_path: Path, source: list[str], field: str
) -> None:
    (tmp_path / "tools.json").write_text("{}")
    (tmp_path / "messages.json").write_text('[{"role": "user", "content": "a"}]')
    # Loading this model would end with 3.
    (broken_model / "model.safetensors").write_bytes(b"")
    words = ["chat", "-m", broken_model, *source]
    deepinfer(*words, cwd=tmp_path, code=3)
    result = deepinfer(*words, *BAD_OPTIONS[field], cwd=tmp_path, code=2)
    assert field in result.err


@pytest.mark.parametrize("option", ["--system", "--stop"])
def test_texts_of_options_must_be_utf8(deepinfer: Command, random_model: Path, option: str) -> None:
    result = deepinfer("chat", "-m", random_model, "-p", "a", option, b"\xff", code=2)
    assert option in result.err


@contextmanager
def on_terminal(
    deepinfer: Command, words: list[str | Path]
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    terminal, device = pty.openpty()
    process = subprocess.Popen(
        [deepinfer.path, *words],
        stdin=device,
        stdout=device,
        stderr=subprocess.DEVNULL,
        env=deepinfer.environment(),
        start_new_session=True,
    )
    os.close(device)
    try:
        yield terminal, process
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def read_until(terminal: int, mark: bytes, seconds: float = 60) -> bytes:
    """What the terminal shows up to `mark` at the end."""
    shown = b""
    end = time.monotonic() + seconds
    while not shown.endswith(mark):
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        assert ready, shown
        shown += os.read(terminal, 4096)
    return shown


def test_loop_on_a_terminal(deepinfer: Command, chat: list[str | Path]) -> None:
    with on_terminal(deepinfer, [*chat, "--thinking", "off"]) as (terminal, process):
        read_until(terminal, b"> ")
        os.write(terminal, b"What is 17 + 25?\n")
        assert b"42" in read_until(terminal, b"> ").split(b"\n", 1)[1]
        for line in (b"/system You are brief.\n", b"/reset\n", b"/nonsense\n", b"\n"):
            os.write(terminal, line)
            read_until(terminal, b"> ")
        os.write(terminal, b"What is 17 + 25?\n")
        assert b"42" in read_until(terminal, b"> ").split(b"\n", 1)[1]
        os.write(terminal, b"/exit\n")
        assert process.wait(timeout=30) == 0


def test_interrupt_ends_the_answer_then_the_loop(deepinfer: Command, random_model: Path) -> None:
    words = ["chat", "-m", random_model, "-n", "1500", "--ignore-eos", "--thinking", "off"]
    with on_terminal(deepinfer, words) as (terminal, process):
        read_until(terminal, b"> ")
        os.write(terminal, b"a\n")
        read_until(terminal, b"\n")  # the echo of what was typed
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready
        process.send_signal(signal.SIGINT)
        read_until(terminal, b"\n> ")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130


def test_end_of_input_ends_the_loop(deepinfer: Command, random_model: Path) -> None:
    with on_terminal(deepinfer, ["chat", "-m", random_model]) as (terminal, process):
        read_until(terminal, b"> ")
        os.write(terminal, b"\x04")
        assert process.wait(timeout=30) == 0
