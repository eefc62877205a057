"""JSON results have the shape that docs/json.md shows: the page is the frozen schema."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_command import Command

PAGE = Path(__file__).parents[2] / "docs" / "json.md"


def example(name: str) -> Any:
    """The first JSON block below the heading `## NAME`."""
    section = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (text,) = [part for part in section if part.split("\n", 1)[0].strip("` ") == name]
    block = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert block, f"docs/json.md has no example of {name}"
    return json.loads(block.group(1))


def check(documented: Any, found: Any, place: str) -> None:
    """Same keys in the same order, same kinds of values; null goes with anything."""
    if documented is None or found is None:
        return
    if isinstance(documented, dict):
        assert isinstance(found, dict), place
        if place.rsplit(".", 1)[-1] in {"sha256", "parts", "problems"}:  # keys are data
            for value in found.values():
                check(next(iter(documented.values()), None), value, f"{place}.*")
            return
        assert list(found) == list(documented), place
        for key, value in documented.items():
            check(value, found[key], f"{place}.{key}")
    elif isinstance(documented, list):
        assert isinstance(found, list), place
        if documented and found:
            known = [value for value in documented if value is not None]
            for number, value in enumerate(found):
                if known:
                    check(known[0], value, f"{place}[{number}]")
    elif isinstance(documented, bool | str):
        assert type(found) is type(documented), place
    else:
        assert isinstance(found, int | float), place
        assert not isinstance(found, bool), place


def run(deepinfer: Command, *words: str | Path, stdin: str = "", code: int = 0) -> Any:
    return json.loads(deepinfer(*words, stdin=stdin, code=code).lines[0])


def verify(name: str, found: Any) -> None:
    assert found["schema_version"] == 1
    check(example(name), found, name)


def test_generate(deepinfer: Command, random_model: Path) -> None:
    words = ["generate", "-m", random_model, "-p", "a", "-n", "3", "--json", "--logprobs", "2"]
    found = run(deepinfer, *words, "--ignore-eos")
    verify("generate", found)
    assert found["outputs"][0]["logprobs"][0]["top"]
    verify("generate, failed", run(deepinfer, *words[:3], "-p", "x " * 3000, "--json", code=4))


def test_chat(deepinfer: Command, random_model: Path) -> None:
    words = ["chat", "-m", random_model, "-p", "a", "-n", "3", "--json", "--logprobs", "2"]
    found = run(deepinfer, *words, "--thinking", "off")
    verify("chat", found)
    assert found["logprobs"]


def test_text(deepinfer: Command, random_model: Path) -> None:
    verify("tokenize", run(deepinfer, "tokenize", "-m", random_model, "--json", "a"))
    verify("detokenize", run(deepinfer, "detokenize", "-m", random_model, "--json", "3"))
    messages = '[{"role": "user", "content": "Hi"}]'
    words = ["render", "-m", random_model, "--json", "--thinking", "off"]
    verify("render", run(deepinfer, *words, stdin=messages))
    text = 'x<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    found = run(deepinfer, "parse", stdin=text)
    verify("parse", found)
    assert found["tool_calls"]


def test_score(deepinfer: Command, random_model: Path) -> None:
    words = ["score", "-m", random_model, "--ids", "-", "--json", "--top-logprobs", "2"]
    found = run(deepinfer, *words, stdin="[3, 4, 5]")
    verify("score", found)
    assert found["top_logprobs"][1]
    verify("score", run(deepinfer, *words, stdin="[3, -1]", code=4))


def test_inspect(deepinfer: Command, random_model: Path) -> None:
    verify("inspect", run(deepinfer, "inspect", random_model, "--json", "--verify", "--hash"))


def test_bench(deepinfer: Command, random_model: Path) -> None:
    words = ["bench", "-m", random_model, "--prompt-len", "8", "--output-len", "4", "--json"]
    verify("bench", run(deepinfer, *words, "--batch", "2", "--repeat", "1"))


def test_eval(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    item = {"messages": [{"role": "user", "content": "a"}], "expected": "b", "max_tokens": 4}
    (tmp_path / "letters.jsonl").write_text(json.dumps(item) + "\n")
    (tmp_path / "prose.jsonl").write_text(json.dumps({"text": "Some text to score."}) + "\n")
    found = run(deepinfer, "eval", "-m", random_model, "--data", tmp_path, "--json")
    verify("eval", found)
    assert found["tasks"]
    assert found["prose"]


def test_env(deepinfer: Command) -> None:
    verify("env", run(deepinfer, "env", "--json"))
    found = run(deepinfer, "env", "--json", "--explain", "top-p", "-m", "tiny")
    verify("env --explain", found)


def test_stats(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    deepinfer("generate", "-m", random_model, "-p", "a", "-n", "2", "--stats-json", path)
    verify("--stats-json", json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("documented", "found"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": [1]}, {"a": ["x"]}),
        ({"a": True}, {"a": 1}),
        ({"a": 1}, {"a": True}),
    ],
)
def test_the_check_sees_differences(documented: Any, found: Any) -> None:
    with pytest.raises(AssertionError):
        check(documented, found, "test")
