"""Checkpoints that are missing or damaged, and inspect."""

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_command import Command

Header = dict[str, dict[str, Any]]

GENERATE = ["generate", "-p", "a", "-n", "1"]


def edit_config(folder: Path, change: Callable[[dict[str, object]], None]) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def rewrite_header(path: Path, change: Callable[[Header], None]) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def refuse(deepinfer: Command, folder: Path, *fragments: str) -> None:
    result = deepinfer(*GENERATE, "-m", folder, code=3)
    assert result.out == ""
    for fragment in fragments:
        assert fragment in result.err, result.err


def first_tensor(header: Header) -> str:
    return next(name for name in header if name.startswith("layers."))


def test_truncated_weights(deepinfer: Command, broken_model: Path) -> None:
    path = broken_model / "model.safetensors"
    data = path.read_bytes()
    for length in (0, 4, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        refuse(deepinfer, broken_model, "model.safetensors")


def test_header_that_lies(deepinfer: Command, broken_model: Path) -> None:
    path = broken_model / "model.safetensors"
    original = path.read_bytes()

    def overlap(header: Header) -> None:
        begin, end = header[first_tensor(header)]["data_offsets"]
        header[first_tensor(header)]["data_offsets"] = [begin + 1, end + 1]

    rewrite_header(path, overlap)
    refuse(deepinfer, broken_model, "model.safetensors")
    path.write_bytes(struct.pack("<Q", 1 << 60) + original[8:])
    refuse(deepinfer, broken_model, "model.safetensors")


def test_tensor_missing_extra_and_of_wrong_shape(deepinfer: Command, broken_model: Path) -> None:
    (broken_model / "model.safetensors.index.json").unlink()  # it would be the first to complain
    path = broken_model / "model.safetensors"
    original = path.read_bytes()
    name = ""

    def rename(header: Header) -> None:
        nonlocal name
        name = first_tensor(header)
        header["layers.99.extra"] = header.pop(name)

    rewrite_header(path, rename)
    refuse(deepinfer, broken_model, name)
    shown = deepinfer("inspect", broken_model, code=3)
    assert name in shown.out
    assert "layers.99.extra" in shown.out

    path.write_bytes(original)

    def add(header: Header) -> None:
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key[0] != "_"]
        place = [max(ends), max(ends)]
        header["layers.99.extra"] = {"dtype": "F32", "shape": [0], "data_offsets": place}

    rewrite_header(path, add)
    refuse(deepinfer, broken_model, "layers.99.extra")

    path.write_bytes(original)

    def reshape(header: Header) -> None:
        shape = header[name]["shape"]
        assert isinstance(shape, list)
        header[name]["shape"] = [1, *shape] if len(shape) < 3 else [shape[0] * shape[1], *shape[2:]]

    rewrite_header(path, reshape)
    refuse(deepinfer, broken_model, name)


def test_unknown_model_type(deepinfer: Command, broken_model: Path) -> None:
    edit_config(broken_model, lambda config: config.update(model_type="gpt2"))
    refuse(deepinfer, broken_model, "config.json", "gpt2", "deepseek_v41")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model_type": 3}'])
def test_corrupt_config(deepinfer: Command, broken_model: Path, text: str) -> None:
    (broken_model / "config.json").write_text(text)
    refuse(deepinfer, broken_model, "config.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {"type": "WordPiece"}}'])
def test_corrupt_tokenizer(deepinfer: Command, broken_model: Path, text: str) -> None:
    (broken_model / "tokenizer.json").write_text(text)
    refuse(deepinfer, broken_model, "tokenizer.json")
    result = deepinfer("tokenize", "-m", broken_model, "a", code=3)
    assert "tokenizer.json" in result.err
    assert deepinfer("inspect", "--verify", broken_model, code=3).err


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_file(deepinfer: Command, broken_model: Path, name: str) -> None:
    (broken_model / name).unlink()
    refuse(deepinfer, broken_model, name)


def test_no_such_model(deepinfer: Command) -> None:
    for name in ("/nowhere", "no-such-model", "a/b/c"):
        result = deepinfer(*GENERATE, "-m", name, code=3)
        assert name in result.err


def test_a_hub_name_is_not_downloaded_when_forbidden(deepinfer: Command) -> None:
    name = "deepseek-ai/DeepSeek-V4.1-Flash-1017"
    for words, env in ((["--no-download"], {}), ([], {"HF_HUB_OFFLINE": "1"})):
        result = deepinfer(*GENERATE, "-m", f"{name}@abc", *words, env=env, code=3)
        assert f"hf download {name} --revision abc" in result.err


def test_a_download_that_fails_says_how_to_do_it(deepinfer: Command, tmp_path: Path) -> None:
    def python_that_exits(code: int) -> str:
        script = tmp_path / f"python{code}"
        script.write_text(f'#!/bin/sh\necho "$@" >&2\nexit {code}\n')
        script.chmod(0o755)
        return str(script)

    for code in (1, 3):
        env = {"DEEPINFER_PYTHON": python_that_exits(code)}
        result = deepinfer(*GENERATE, "-m", "some/model@v2", env=env, code=code)
        assert "download some/model --revision v2" in result.err
        assert "hf download some/model --revision v2" in result.err
    result = deepinfer(
        *GENERATE, "-m", "some/model", env={"DEEPINFER_PYTHON": "/nowhere/python"}, code=1
    )
    assert "/nowhere/python" in result.err


def test_hub_cache_is_used(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--some--model"
    snapshot = repository / "snapshots" / "0123"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(random_model)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123")
    result = deepinfer(
        "tokenize", "-m", "some/model", "a", env={"HF_HUB_CACHE": str(tmp_path / "hub")}
    )
    assert "some/model" in result.err


def test_without_a_name_the_bundled_checkpoint_answers(
    deepinfer: Command, random_model: Path, trained_model: Path
) -> None:
    result = deepinfer("tokenize", "a")
    assert "bundled checkpoint 'tiny'" in result.err
    by_variable = deepinfer("tokenize", "a", env={"DEEPINFER_HF_MODEL_DIR": str(random_model)})
    assert "DEEPINFER_HF_MODEL_DIR" in by_variable.err
    assert str(random_model) in by_variable.err


def test_inspect(deepinfer: Command, random_model: Path) -> None:
    text = deepinfer("inspect", random_model).out
    assert "every tensor is there" in text
    report = json.loads(
        deepinfer("inspect", "-m", random_model, "--json", "--hash", "--verify").out
    )
    assert report["complete"] is True
    assert report["fault"] is None
    digest = hashlib.sha256((random_model / "model.safetensors").read_bytes()).hexdigest()
    assert report["sha256"] == {"model.safetensors": digest}
    assert digest in deepinfer("inspect", random_model, "--hash").out
    deepinfer("inspect", random_model, "-m", random_model, code=2)
