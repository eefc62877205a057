"""tokenize, detokenize, render, parse."""

import gzip
import json
from pathlib import Path

import pytest
from cli_command import Command


@pytest.fixture(scope="module")
def official(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official tokenizer's folder."""
    folder = tmp_path_factory.mktemp("official")
    packed = (golden / "tokenizer" / "tokenizer.json.gz").read_bytes()
    (folder / "tokenizer.json").write_bytes(gzip.decompress(packed))
    config = (golden / "tokenizer" / "tokenizer_config.json").read_bytes()
    (folder / "tokenizer_config.json").write_bytes(config)
    return folder


def test_golden_pairs(deepinfer: Command, official: Path, golden: Path, tmp_path: Path) -> None:
    cases = json.loads((golden / "tokenizer" / "pairs.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) == 92
    words: list[str | Path] = []
    for number, case in enumerate(cases):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(case["text"].encode())
        words += ["-f", path]
    result = deepinfer("tokenize", "--tokenizer", official, "--json", *words)
    for case, line in zip(cases, result.lines, strict=True):
        assert json.loads(line)["token_ids"] == case["ids"]


def test_tokenize_forms(deepinfer: Command, official: Path, tmp_path: Path) -> None:
    plain = deepinfer("tokenize", "--tokenizer", official, "Hello world")
    assert plain.out == "19923 2058\n"
    piped = deepinfer("tokenize", "--tokenizer", official, stdin="Hello world")
    assert piped.out == plain.out
    begin = deepinfer("tokenize", "--tokenizer", official, "--bos", "Hello world")
    assert begin.out == "0 19923 2058\n"
    special = "<｜User｜>"
    assert deepinfer("tokenize", "--tokenizer", official, special).out == "128803\n"
    spelled = deepinfer("tokenize", "--tokenizer", official, "--no-special", special)
    assert len(spelled.out.split()) > 1
    escaped = deepinfer("tokenize", "--tokenizer", official, "--escape", r"a\nb\\n")
    assert escaped.out == deepinfer("tokenize", "--tokenizer", official, "a\nb\\n").out
    lines = deepinfer("tokenize", "--tokenizer", official, "a", "-p", "b").lines
    assert len(lines) == 2


def test_detokenize_forms(deepinfer: Command, official: Path, tmp_path: Path) -> None:
    def text(*words: str | Path, stdin: str = "") -> str:
        return deepinfer("detokenize", "--tokenizer", official, *words, stdin=stdin).out

    assert text("19923", "2058") == "Hello world\n"
    assert text("[19923, 2058]") == "Hello world\n"
    assert text(stdin="19923,2058\n") == "Hello world\n"
    path = tmp_path / "ids.json"
    path.write_text("[0, 19923, 2058, 1]")
    assert text("-f", path) == "<｜begin▁of▁sentence｜>Hello world<｜end▁of▁sentence｜>\n"
    assert text("-f", path, "--no-special") == "Hello world\n"
    assert text("28927") == "�\n"
    assert json.loads(text("--json", "28927", "225"))["text"] == "😀"


@pytest.mark.parametrize("ids", ["-1", "129301", "99999999999", "one", "1.5"])
def test_detokenize_refuses_what_is_no_id(deepinfer: Command, official: Path, ids: str) -> None:
    result = deepinfer("detokenize", "--tokenizer", official, "--", ids, code=2)
    assert result.out == ""
    assert ids in result.err


@pytest.mark.parametrize("text", ["[1,", "[1", "1]", "[1] x", "[1, a]", "[[1], 2]", "[1.5]"])
def test_detokenize_refuses_broken_json(
    deepinfer: Command, official: Path, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "ids.json"
    path.write_text(text)
    result = deepinfer("detokenize", "--tokenizer", official, "-f", path, code=2)
    assert result.out == ""
    assert str(path) in result.err


def test_invalid_utf8_is_refused_with_its_place(deepinfer: Command, official: Path) -> None:
    result = deepinfer("tokenize", "--tokenizer", official, stdin=b"ab\xff", code=2)
    assert result.out == ""
    assert "2" in result.err
    deepinfer("parse", stdin=b"\xc3", code=2)


def test_render_golden_requests(deepinfer: Command, golden: Path) -> None:
    cases = json.loads((golden / "chat" / "requests.json").read_text(encoding="utf-8"))["cases"]
    rendered = 0
    for case in cases:
        if "result" in case:
            request = json.dumps(case["request"], ensure_ascii=False)
            result = deepinfer("render", stdin=request)
            assert result.out == case["result"]["prompt"] + "\n", case["name"]
            rendered += 1
    assert rendered >= 20


def test_render_ids(deepinfer: Command, official: Path, golden: Path, tmp_path: Path) -> None:
    cases = json.loads((golden / "chat" / "encode.json").read_text(encoding="utf-8"))["cases"]
    case = next(case for case in cases if case["name"] == "special_text_in_user_is_plain")
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(case["input"]["messages"], ensure_ascii=False), encoding="utf-8")
    thinking = "on" if case["input"].get("thinking_mode") else "off"
    words = ["render", "--tokenizer", official, "--thinking", thinking]
    result = deepinfer(*words, "--json", path)
    shown = json.loads(result.out)
    assert shown["prompt"] == case["prompt"]
    assert shown["token_ids"] == case["ids"]
    assert deepinfer(*words, "--ids", path).out.split() == [str(number) for number in case["ids"]]


@pytest.mark.parametrize(
    "messages",
    [
        "",
        "{",
        "[]",
        "7",
        '[{"role": "wizard", "content": "x"}]',
        '[{"role": "user", "content": 5}]',
        '[{"role": "tool", "content": "x", "tool_call_id": "a"}]',
    ],
)
def test_render_refuses_bad_messages(deepinfer: Command, messages: str) -> None:
    result = deepinfer("render", stdin=messages, code=2)
    assert result.out == ""
    assert "error:" in result.err


def test_images_are_refused_clearly(deepinfer: Command) -> None:
    result = deepinfer("render", "--image", "a.png", stdin="[]", code=1)
    assert "vision tower" in result.err


def test_parse_golden_texts(deepinfer: Command, golden: Path) -> None:
    cases = json.loads((golden / "chat" / "parse.json").read_text(encoding="utf-8"))["cases"]
    starts = {
        "reasoning_start": "reasoning",
        "reasoning_continuation": "reasoning-continuation",
        "content_continuation": "content-continuation",
        "none": "content",
    }
    parsed = 0
    for case in cases:
        given = case["input"]
        if given["backend_finish"] != "stop" or given["parse_json_output"]:
            continue
        start = "calls" if given["starts_in_tool_calls"] else starts[given["start"]]
        words = ["parse", "--start", start]
        if not given["parse_tool_calls"]:
            words.append("--no-tool-calls")
        for stop in given["stop_sequences"]:
            words += ["--stop", stop]
        message = json.loads(deepinfer(*words, stdin=given["text"]).out)
        wanted = case["expected"]
        assert message["content"] == wanted["content"], case["name"]
        assert message["reasoning_content"] == wanted["reasoning_content"], case["name"]
        assert message["finish_reason"] == wanted["finish_reason"], case["name"]
        assert len(message["tool_calls"]) == len(wanted["tool_calls"]), case["name"]
        parsed += 1
    assert parsed >= 25
