"""eval: what counts as right, choosing tasks, and the bundled checkpoint's own tasks."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_command import Command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    item = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 4, "distance": 70}
    wrong = {**item, "expected": "never this"}
    (folder / "letters.jsonl").write_text("".join(json.dumps(wrong) + "\n" for _ in range(5)))
    (folder / "words.jsonl").write_text(json.dumps(wrong) + "\n\n")
    (folder / "prose.jsonl").write_text(json.dumps({"text": "Some text to score."}) + "\n")
    return folder


def report(deepinfer: Command, *words: str | Path) -> dict[str, Any]:
    return json.loads(deepinfer("eval", "--json", *words).out)


def test_tasks_and_limits(deepinfer: Command, random_model: Path, data: Path) -> None:
    words = ["-m", random_model, "--data", data]
    full = report(deepinfer, *words)
    assert [(task["task"], task["items"]) for task in full["tasks"]] == [
        ("letters", 5),
        ("words", 1),
    ]
    assert full["prose"][0]["documents"] == 1
    assert [task["items"] for task in report(deepinfer, *words, "--limit", "2")["tasks"]] == [2, 1]
    assert full["tasks"][0]["distances"] == [{"low": 64, "high": 128, "items": 5, "correct": 0}]
    one = report(deepinfer, *words, "--task", "words")
    assert [task["task"] for task in one["tasks"]] == ["words"]
    assert one["prose"] == []
    unknown = deepinfer("eval", *words, "--task", "sums", code=2)
    assert "letters, prose, words" in unknown.err
    table = deepinfer("eval", *words, "--show-wrong")
    assert "letters" in table.out
    assert "nats/token" in table.out
    assert "words 1: expected" in table.err


def test_prose_loss_is_that_of_score(deepinfer: Command, random_model: Path, data: Path) -> None:
    prose = report(deepinfer, "-m", random_model, "--data", data, "--task", "prose")["prose"][0]
    scored = deepinfer("score", "-m", random_model, "--json", "-p", "Some text to score.")
    logprobs = json.loads(scored.out)["token_logprobs"][1:]
    assert prose["tokens"] == len(logprobs)
    assert prose["loss"] == pytest.approx(-sum(logprobs) / len(logprobs), abs=1e-6)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"messages": []}',
        '{"text": 3}',
        '{"messages": [], "expected": "", "check": "x"}',
        '{"messages": [], "expected": 3}',
        '{"messages": [], "expected": "f", "check": "tool_call"}',
        '{"text": 3, "token_ids": [5]}',
        '{"token_ids": {}}',
        '{"token_ids": ["a"]}',
        '{"token_ids": [1.5]}',
        '{"token_ids": [[5]]}',
        '{"token_ids": [18446744073709551615]}',
        '{"text": "a", "token_ids": [null]}',
    ],
)
def test_bad_data(deepinfer: Command, random_model: Path, data: Path, line: str) -> None:
    (data / "letters.jsonl").write_text(line + "\n")
    result = deepinfer("eval", "-m", random_model, "--data", data, code=2)
    assert "letters.jsonl:1" in result.err


def test_missing_data(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    result = deepinfer("eval", "-m", random_model, code=2)
    assert "--data" in result.err
    deepinfer("eval", "-m", random_model, "--data", tmp_path / "home", code=2)


def test_bundled_checkpoint_solves_its_tasks(deepinfer: Command, trained_model: Path) -> None:
    found = report(deepinfer, "-m", trained_model, "--limit", "20")
    assert found["tasks"]
    accuracies = {task["task"]: task["accuracy"] for task in found["tasks"]}
    assert sum(accuracies.values()) / len(accuracies) >= 0.9, accuracies
    assert min(accuracies.values()) >= 0.7, accuracies
    assert found["prose"]
    assert all(prose["loss"] < 3.5 for prose in found["prose"])
