"""`pip install .` into a clean environment: package, command, bundled checkpoint."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def _run(words: list[str | Path], folder: Path, **variables: str) -> str:
    # Nothing of the build tree may help: only what pip installed is seen.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DEEP"))
    }
    environment.update(variables)
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with the package and nothing else."""
    folder = tmp_path_factory.mktemp("install")
    # sys.executable is the build's own environment; its base interpreter makes the clean one.
    venv.EnvBuilder(with_pip=True).create(folder / "venv")
    _run(
        [
            folder / "venv/bin/python",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            f"--config-settings=build-dir={folder}/build",
            REPOSITORY,
        ],
        folder,
        # The names that the build tree's compilers have: ccache then knows most objects already.
        CC="/usr/bin/cc",
        CXX="/usr/bin/c++",
        CMAKE_BUILD_PARALLEL_LEVEL=os.environ.get("DEEPINFER_BUILD_JOBS", str(os.cpu_count())),
    )
    return folder


def test_python_package(installed: Path) -> None:
    script = (
        "import deepinfer, sys\n"
        "from deepinfer import LLM, SamplingParams\n"
        "assert 'site-packages' in deepinfer.__file__\n"
        "with LLM('tiny') as llm:\n"
        "    print(llm.info.model_path)\n"
        "    p = SamplingParams(temperature=0, max_tokens=8)\n"
        "    print(llm.generate('A file is', p, use_tqdm=False)[0])\n"
    )
    lines = _run([installed / "venv/bin/python", "-c", script], installed).splitlines()
    assert "site-packages/deepinfer/models/tiny" in lines[0]
    assert "".join(lines[1:]).strip()


def test_command(installed: Path) -> None:
    command = installed / "venv/bin/deepinfer"
    assert "0.1.0" in _run([command, "--version"], installed)
    text = _run(
        [command, "generate", "-m", "tiny", "--temperature", "0", "-n", "8", "-p", "A file is"],
        installed,
    )
    assert text.strip()


def test_types_are_shipped(installed: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    package = installed / "venv/lib" / version / "site-packages/deepinfer"
    assert (package / "py.typed").exists()
    assert "class Engine" in (package / "_core.pyi").read_text()
