"""Help, version, and what is wrong with a command line."""

import time
from pathlib import Path

import pytest
from cli_command import Command

COMMANDS = [
    "generate",
    "chat",
    "tokenize",
    "detokenize",
    "render",
    "parse",
    "score",
    "inspect",
    "bench",
    "eval",
    "env",
]


def test_main_help_lists_every_command(deepinfer: Command) -> None:
    result = deepinfer("--help")
    assert result.err == ""
    for name in COMMANDS:
        assert f"\n  {name} " in result.out


@pytest.mark.parametrize("name", COMMANDS)
def test_command_help_goes_to_stdout_with_groups_and_defaults(
    deepinfer: Command, name: str
) -> None:
    result = deepinfer(name, "--help")
    assert result.err == ""
    assert result.out.startswith(f"Usage: deepinfer {name}")
    assert "\nGeneral:\n" in result.out
    assert "[default: warn]" in result.out
    assert max(map(len, result.lines)) <= 100
    assert deepinfer(name, "-h").out == result.out


@pytest.mark.parametrize("words", [["--help"], ["generate", "--help"], ["chat", "--help"]])
def test_help_takes_less_than_a_fifth_of_a_second(deepinfer: Command, words: list[str]) -> None:
    def once() -> float:
        start = time.perf_counter()
        deepinfer(*words, "-h")
        return time.perf_counter() - start

    assert min(once() for _ in range(10)) < 0.2


def test_help_needs_no_model(deepinfer: Command) -> None:
    deepinfer("generate", "-m", "/nowhere", "--help")


def test_version(deepinfer: Command) -> None:
    assert deepinfer("--version").out == "deepinfer 0.1.0\n"


def test_no_command_is_wrong_usage(deepinfer: Command) -> None:
    result = deepinfer(code=2)
    assert result.out == ""
    assert "Usage:" in result.err


def test_unknown_command_names_the_nearest(deepinfer: Command) -> None:
    result = deepinfer("generat", code=2)
    assert result.out == ""
    assert "did you mean generate?" in result.err


@pytest.mark.parametrize(
    ("name", "word", "nearest"),
    [
        ("generate", "--max-token", "--max-tokens"),
        ("generate", "--temprature=1", "--temperature"),
        ("generate", "--top_p", "--top-p"),
        ("score", "--top-logprob", "--top-logprobs"),
        ("chat", "--thiking", "--thinking"),
        ("env", "--explian", "--explain"),
    ],
)
def test_unknown_option_names_the_nearest(
    deepinfer: Command, name: str, word: str, nearest: str
) -> None:
    result = deepinfer(name, word, code=2)
    assert result.out == ""
    assert f"unknown option {word.split('=')[0]}; did you mean {nearest}?" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", "-p", "a", "--top-k"], "--top-k needs a value"),
        (["generate", "-p", "a", "--top-k", "many"], "--top-k: found 'many', expected an integer"),
        (["generate", "-p", "a", "--temp", "hot"], "--temperature: found 'hot'"),
        (["generate", "-p", "a", "-n", "0"], "--max-tokens: found '0'"),
        (["generate", "-p", "a", "-t", "0"], "--threads: found '0'"),
        (["generate", "-p", "a", "--device", "tpu"], "--device: found 'tpu', expected cpu"),
        (["generate", "-p", "a", "-c", "long"], "--max-model-len: found 'long'"),
        (["generate", "-p", "a", "--json", "--stream"], "exclude each other"),
        (["generate", "-f", "/nowhere/file"], "No such file"),
        (["chat", "-p", "a", "--effort", "0"], "--effort: found '0'"),
        (["chat", "-p", "a", "--thinking", "maybe"], "--thinking: found 'maybe'"),
        (["inspect", "a", "b"], "unexpected argument 'b'"),
        (["bench", "moon"], "expected model or kernels"),
        (["score", "--ids", "/nowhere/file"], "No such file"),
    ],
)
def test_wrong_usage(deepinfer: Command, words: list[str], message: str) -> None:
    result = deepinfer(words[0], "-m", "tiny", *words[1:], code=2)
    assert result.out == ""
    assert message in result.err


def test_sampling_values_out_of_range_name_the_field(
    deepinfer: Command, random_model: Path
) -> None:
    for option, value, field in [
        ("--top-p", "0", "top_p"),
        ("--top-p", "1.5", "top_p"),
        ("--top-k", "0", "top_k"),
        ("--temperature", "-1", "temperature"),
        ("--min-p", "2", "min_p"),
    ]:
        result = deepinfer("generate", "-m", random_model, "-p", "a", option, value, code=2)
        assert field in result.err


def test_double_dash_ends_options(deepinfer: Command, random_model: Path) -> None:
    plain = deepinfer("tokenize", "-m", random_model, "-p", "--json")
    assert deepinfer("tokenize", "-m", random_model, "--", "--json").out == plain.out


def test_values_may_be_joined_empty_or_begin_with_a_dash(
    deepinfer: Command, random_model: Path
) -> None:
    joined = deepinfer("tokenize", f"--model={random_model}", "--prompt=-x")
    assert deepinfer("tokenize", "-m", random_model, "-p", "-x").out == joined.out
    assert deepinfer("tokenize", "-m", random_model, "--prompt=", "--json").lines == [
        '{"schema_version":1,"count":0,"token_ids":[],"tokens":[]}'
    ]


def test_words_that_name_commands_are_ordinary_arguments(
    deepinfer: Command, random_model: Path
) -> None:
    assert deepinfer("tokenize", "env", "-m", random_model).out
    assert deepinfer("tokenize", "[1,2]", "-m", random_model).out
