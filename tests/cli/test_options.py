"""Where option values come from: command line, environment, config file, checkpoint, built in."""

import json
import shutil
from pathlib import Path

import pytest
from cli_command import Command


def explain(deepinfer: Command, option: str, *words: str | Path, **env: str) -> dict[str, object]:
    result = deepinfer("env", "--explain", option, "--json", "-m", "tiny", *words, env=env)
    return json.loads(result.out)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text("top_p: 0.5\nnumerics: exact\ntop-k: 40\nstop: [one, two]\n")
    return path


def test_precedence(deepinfer: Command, config: Path, random_model: Path, tmp_path: Path) -> None:
    assert explain(deepinfer, "numerics")["value"] is None
    assert explain(deepinfer, "top-p")["origin"] == "built-in default"
    from_file = explain(deepinfer, "numerics", "--config", config)
    assert (from_file["value"], from_file["origin"]) == ("exact", "config file")
    assert from_file["place"] == f"{config}:2: numerics"
    by_environment = explain(
        deepinfer, "numerics", "--config", config, DEEPINFER_NUMERICS="exact+cache"
    )
    assert (by_environment["value"], by_environment["origin"]) == ("exact+cache", "environment")
    by_words = explain(
        deepinfer,
        "numerics",
        "--config",
        config,
        "--numerics",
        "exact",
        DEEPINFER_NUMERICS="exact+cache",
    )
    assert (by_words["value"], by_words["origin"]) == ("exact", "command line")

    model = tmp_path / "model"
    shutil.copytree(random_model, model)
    (model / "generation_config.json").write_text('{"top_p": 0.9, "temperature": 0.6, "top_k": 0}')

    def with_model(option: str, *words: str | Path) -> dict[str, object]:
        return json.loads(deepinfer("env", "--explain", option, "--json", "-m", model, *words).out)

    assert with_model("temperature")["value"] == "0.6"
    assert with_model("temperature")["origin"] == "generation_config.json"
    assert with_model("top-k")["value"] == "-1"
    assert with_model("top-p", "--config", config)["value"] == "0.5"
    assert with_model("top-p", "--generation-config", "none")["value"] == "1"


def test_config_by_environment_and_as_json(deepinfer: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{\n\t"max_tokens": 7,\n\t"ignore-eos": true, "chunked_prefill": false\n}\n')
    result = explain(deepinfer, "max_tokens", DEEPINFER_CONFIG=str(path))
    assert (result["option"], result["value"]) == ("max-tokens", "7")
    assert explain(deepinfer, "--ignore-eos", "--config", path)["value"] == "true"
    assert explain(deepinfer, "chunked-prefill", "--config", path)["value"] == "false"


def test_lists_and_switches_of_a_config(deepinfer: Command, config: Path, tmp_path: Path) -> None:
    assert explain(deepinfer, "stop", "--config", config)["value"] == ["one", "two"]
    switch = tmp_path / "switch.yaml"
    switch.write_text("thinking: off\nprogress: on\n")
    assert explain(deepinfer, "thinking", "--config", switch)["value"] == "off"
    assert explain(deepinfer, "progress", "--config", switch)["value"] == "on"


def test_one_config_serves_several_commands(
    deepinfer: Command, tmp_path: Path, random_model: Path
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"model: {random_model}\nprompt-len: 4\nmax-tokens: 3\n")
    assert deepinfer("tokenize", "--config", path, "x").out
    result = deepinfer("generate", "--config", path, "-p", "ab", "--json", "--ignore-eos")
    assert len(json.loads(result.out)["outputs"][0]["token_ids"]) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_token: 3\n", "max_token: unknown key; did you mean max-tokens?"),
        ("max_tokens: 3\nmax-tokens: 4\n", "stands twice"),
        ("max_tokens: few\n", "max_tokens: found 'few', expected an integer"),
        ("max_tokens: [1, 2]\n", "expected one value"),
        ("max_tokens: {a: 1}\n", "expected a plain value"),
        ("prompt: hello\n", "prompt: unknown key"),
        ("- a\n- b\n", "expected a mapping"),
        ("a: [1\n", "run.yaml:"),
    ],
)
def test_bad_config(deepinfer: Command, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    result = deepinfer("generate", "-p", "a", "--config", path, code=2)
    assert result.out == ""
    assert message in result.err
    assert str(path) in result.err


def test_missing_config(deepinfer: Command) -> None:
    result = deepinfer("generate", "-p", "a", "--config", "/nowhere/run.yaml", code=2)
    assert "/nowhere/run.yaml" in result.err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DEEPINFER_NUM_THREADS", "none"),
        ("DEEPINFER_NUMERICS", "rough"),
        ("DEEPINFER_ACCELERATOR", "abacus"),
        ("DEEPINFER_LOG_LEVEL", "loud"),
        ("DEEPINFER_CONFIG", "/nowhere/run.yaml"),
        ("DEEPINFER_MAX_MEMORY", "a lot"),
        ("DEEPINFER_DECODE_TOKEN_BLACKLIST", "7,3"),
    ],
)
def test_bad_variable(deepinfer: Command, random_model: Path, variable: str, value: str) -> None:
    result = deepinfer(
        "generate", "-m", random_model, "-p", "a", "-n", "1", env={variable: value}, code=2
    )
    assert result.out == ""
    if variable != "DEEPINFER_CONFIG":
        assert variable in result.err


def test_unavailable_device(deepinfer: Command, random_model: Path) -> None:
    result = deepinfer("generate", "-m", random_model, "-p", "a", "--device", "nvidia", code=1)
    assert "nvidia" in result.err


def test_env_lists_variables_with_value_and_origin(deepinfer: Command) -> None:
    result = deepinfer("env", "--json", env={"DEEPINFER_BATCH_INVARIANT": "1"})
    variables = {entry["name"]: entry for entry in json.loads(result.out)["variables"]}
    assert variables["DEEPINFER_BATCH_INVARIANT"]["value"] == "1"
    assert variables["DEEPINFER_BATCH_INVARIANT"]["origin"] == "environment"
    assert variables["DEEPINFER_NUMERICS"]["origin"] == "default"
    assert len(variables) > 60
    text = deepinfer("env").out
    for name in variables:
        assert name in text


def test_env_with_a_bad_variable_prints_and_fails(deepinfer: Command) -> None:
    result = deepinfer("env", env={"DEEPINFER_LOGGING_INTERVAL_STEP": "often"}, code=2)
    assert "DEEPINFER_LOGGING_INTERVAL_STEP" in result.err
    assert "Variables" in result.out


def test_explain_in_words(deepinfer: Command, config: Path) -> None:
    result = deepinfer("env", "--explain", "--top-p", "--config", config, "-m", "tiny")
    assert result.out == f"top-p = 0.5 (config file, {config}:1: top_p)\n"
    result = deepinfer("env", "--explain", "seed", "-m", "tiny")
    assert result.out == "seed is not set; default: random\n"
    result = deepinfer("env", "--explain", "seeds", "-m", "tiny", code=2)
    assert "did you mean seed?" in result.err
