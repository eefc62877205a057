"""JSON nested deep enough to exhaust the stack is refused as bad input wherever JSON is read."""

from pathlib import Path

import pytest
from cli_command import Command

LEVELS = 100_000
DEEP = {
    "array": "[" * LEVELS + "]" * LEVELS,
    "object": '{"a":' * LEVELS + "1" + "}" * LEVELS,
    "open": "[" * LEVELS,
    "inside": '[{"role": "user", "content": ' + "[" * 300 + "]" * 300 + "}]",
}

WAYS = {
    "messages": ["chat", "--messages", "deep.json"],
    "messages of stdin": ["chat", "--messages", "-"],
    "tools": ["chat", "-p", "a", "--tools", "deep.json"],
    "render": ["render", "deep.json"],
    "render tools": ["render", "messages.json", "--tools", "deep.json"],
    "ids": ["score", "--ids", "deep.json"],
    "ids to text": ["detokenize", "-f", "deep.json"],
    "evaluation": ["eval", "--data", "."],
    "config": ["env", "--config", "deep.json"],
}


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize("way", WAYS)
def test_deep_input(
    deepinfer: Command, random_model: Path, tmp_path: Path, way: str, text: str
) -> None:
    (tmp_path / "deep.json").write_text(DEEP[text])
    (tmp_path / "deep.jsonl").write_text(DEEP[text] + "\n")
    (tmp_path / "messages.json").write_text('[{"role": "user", "content": "a"}]')
    model = [] if way == "config" else ["-m", random_model]
    result = deepinfer(*WAYS[way], *model, cwd=tmp_path, stdin=DEEP[text], code=2)
    assert result.out == ""
    assert "error:" in result.err
    assert len(result.err) < 1000


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize("command", ["generate", "chat"])
def test_deep_generation_config(
    deepinfer: Command, broken_model: Path, command: str, text: str
) -> None:
    (broken_model / "generation_config.json").write_text(DEEP[text])
    result = deepinfer(command, "-m", broken_model, "-p", "a", "-n", "1", code=3)
    assert "generation_config.json" in result.err


def test_a_number_out_of_range_is_no_json(
    deepinfer: Command, random_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "messages.json"
    path.write_text('{"messages": [], "temperature": 1e999}')
    result = deepinfer("chat", "-m", random_model, "--messages", path, code=2)
    assert "out of range" in result.err
