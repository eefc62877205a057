"""Downloads, against a stand-in for huggingface_hub: nothing here touches a network."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from deepinfer import LLM, CheckpointError, hub

_REPO = "some-org/some-model"


def _file(name: str, size: int) -> SimpleNamespace:
    return SimpleNamespace(rfilename=name, size=size, lfs=None, blob_id="blob-" + name)


class RepositoryNotFoundError(Exception):
    """Named like the library's."""


class FakeHub(ModuleType):
    """What hub.py uses of the library."""

    def __init__(self, cache: Path) -> None:
        super().__init__("huggingface_hub")
        self.cache = cache
        self.files = [_file("config.json", 1000), _file("model.safetensors", 2000)]
        self.downloads: list[dict[str, Any]] = []
        self.failure: Exception | None = None

    def HfApi(self) -> "FakeHub":  # noqa: N802
        return self

    def model_info(self, repo: str, revision: str | None, files_metadata: bool) -> Any:
        assert files_metadata
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(siblings=self.files)

    def snapshot_download(self, repo: str, **options: Any) -> str:
        self.downloads.append({"repo": repo, **options})
        return str(self.cache / "snapshot")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    module = FakeHub(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return module


def test_size_and_free_space_come_before_the_download(
    fake: FakeHub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert hub.main(["download", _REPO, "--revision", "v2"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path}/snapshot\n"
    assert "GiB free" in captured.err
    assert fake.downloads[0]["revision"] == "v2"


def test_too_little_space_stops_before_the_first_byte(
    fake: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.files.append(_file("model-2.safetensors", 1 << 60))
    assert hub.main(["download", _REPO]) == 1
    assert "free" in capsys.readouterr().err
    assert fake.downloads == []


def test_what_the_cache_holds_is_not_counted_again(fake: FakeHub, tmp_path: Path) -> None:
    huge = _file("model-2.safetensors", 1 << 60)
    fake.files.append(huge)
    blobs = tmp_path / "models--some-org--some-model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / huge.blob_id).touch()
    assert hub.main(["download", _REPO]) == 0


def test_offline_names_the_command(
    fake: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert hub.main(["download", _REPO, "--revision", "v2"]) == 3
    assert f"hf download {_REPO} --revision v2" in capsys.readouterr().err
    assert fake.downloads == []


def test_missing_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # type: ignore[arg-type]
    assert hub.main(["download", _REPO]) == 3
    assert "deepinfer-cpp[hub]" in capsys.readouterr().err


def test_unknown_repository_and_no_connection_differ(fake: FakeHub) -> None:
    fake.failure = RepositoryNotFoundError("404")
    assert hub.main(["download", _REPO]) == 3
    fake.failure = ConnectionError("no route")
    assert hub.main(["download", _REPO]) == 1


def test_interrupt_is_130(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "snapshot_download", interrupt)
    assert hub.main(["download", _REPO]) == 130


def test_cache_folder_follows_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/h")
    assert hub.cache_folder() == Path("/h/.cache/huggingface/hub")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert hub.cache_folder() == Path("/x/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "/f")
    assert hub.cache_folder() == Path("/f/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/c")
    assert hub.cache_folder() == Path("/c")


def test_llm_offline_refuses_a_hub_name(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError, match=f"hf download {_REPO}"):
        LLM(_REPO)


def test_llm_downloads_a_named_checkpoint(
    fake: FakeHub, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "models--some-org--some-model"

    def snapshot_download(repo: str, **options: Any) -> str:
        snapshot = root / "snapshots" / "0123456789abcdef"
        snapshot.mkdir(parents=True)
        for file in (golden / "tiny-random").iterdir():
            (snapshot / file.name).symlink_to(file)
        (root / "refs").mkdir()
        (root / "refs" / "main").write_text("0123456789abcdef")
        return str(snapshot)

    monkeypatch.setattr(fake, "snapshot_download", snapshot_download)
    with LLM(_REPO) as llm:
        assert llm.info.model_path.endswith("0123456789abcdef")


def test_hub_runs_as_a_file_of_its_own() -> None:
    """The command runs hub.py by path, so it imports nothing of the package."""
    source = Path(hub.__file__).read_text(encoding="utf-8")
    assert "deepinfer import" not in source
    assert "import deepinfer" not in source
