"""The built command and checkpoints to run it on."""

import os
import shutil
from pathlib import Path

import pytest
from cli_command import Command

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def command_path() -> Path:
    named = os.environ.get("DEEPINFER_BIN") or os.environ.get("DEEPINFER_COMMAND")
    assert named, "DEEPINFER_BIN must name the built command"
    path = Path(named).resolve()
    assert path.is_file(), f"{path} doesn't exist"
    return path


@pytest.fixture
def deepinfer(command_path: Path, tmp_path: Path) -> Command:
    home = tmp_path / "home"
    home.mkdir()
    return Command(command_path, home)


@pytest.fixture(scope="session")
def random_model(golden: Path) -> Path:
    """The golden checkpoint of random weights: 512 ids, context 2048."""
    folder = golden / "tiny-random"
    assert (folder / "model.safetensors").is_file(), f"golden data is missing: {folder}"
    return folder


@pytest.fixture
def broken_model(random_model: Path, tmp_path: Path) -> Path:
    """A copy of the golden checkpoint for a test to damage."""
    folder = tmp_path / "model"
    shutil.copytree(random_model, folder)
    return folder


@pytest.fixture(scope="session")
def trained_model() -> Path:
    """The bundled checkpoint."""
    folder = REPOSITORY / "models" / "tiny"
    assert (folder / "config.json").is_file(), f"the bundled checkpoint is missing: {folder}"
    return folder
