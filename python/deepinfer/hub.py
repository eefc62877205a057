"""Downloads a checkpoint into the Hugging Face cache.

    python -m deepinfer.hub download REPO [--revision REVISION]

The size and the free space are printed before the first byte. Progress and messages go to stderr;
stdout carries the folder of the snapshot. Exit codes are those of the command `deepinfer`: 0 done,
1 failed (too little space, network), 2 wrong usage, 3 not to be had (offline, unknown repository,
or `huggingface-hub` is not installed), 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_GIB = 1 << 30
# What a checkpoint needs (docs/cli.md): no other weights formats, no pictures.
_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.md", "LICENSE*"]


class HubError(RuntimeError):
    """A download that can't be done; `exit_code` as in the module's description."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def cache_folder() -> Path:
    """Where snapshots are kept: the same order as the engine's own lookup."""
    if path := os.environ.get("HF_HUB_CACHE"):
        return Path(path).expanduser()
    if path := os.environ.get("HF_HOME"):
        return Path(path).expanduser() / "hub"
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "huggingface" / "hub"


def is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def download_command(repo: str, revision: str | None) -> str:
    """What a person types elsewhere to fetch the same snapshot."""
    return f"hf download {repo}" + (f" --revision {revision}" if revision else "")


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            "downloading needs the package huggingface-hub: pip install 'deepinfer-cpp[hub]' "
            "(or pip install huggingface-hub)",
            3,
        ) from error
    return huggingface_hub


def _free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _wanted(name: str) -> bool:
    return any(Path(name).match(pattern) for pattern in _PATTERNS)


def _missing_bytes(files: Sequence[Any], repo: str, cache: Path) -> tuple[int, int]:
    """Bytes of the wanted files, and how many of them no earlier download left in the cache."""
    blobs = cache / ("models--" + repo.replace("/", "--")) / "blobs"
    total = missing = 0
    for file in files:
        if not _wanted(file.rfilename):
            continue
        size = file.size or 0
        total += size
        etag = getattr(file.lfs, "sha256", None) if file.lfs else file.blob_id
        blob = blobs / str(etag)
        part = blobs / f"{etag}.incomplete"
        if blob.exists():
            continue
        missing += max(0, size - (part.stat().st_size if part.exists() else 0))
    return total, missing


def download(repo: str, revision: str | None = None) -> Path:
    """Fetches `repo` into the Hugging Face cache and returns the snapshot's folder.

    An interrupted download goes on where it stopped. Raises HubError with a message for a person.
    """
    if is_offline():
        raise HubError(
            f"HF_HUB_OFFLINE is set, so {repo} is not downloaded. On a machine with a network: "
            f"{download_command(repo, revision)}",
            3,
        )
    hub = _hub()
    cache = cache_folder()
    try:
        info = hub.HfApi().model_info(repo, revision=revision, files_metadata=True)
    except Exception as error:  # the library's errors have no common base class
        raise HubError(f"{repo}: {error}", 3 if _is_unknown(error) else 1) from error
    total, missing = _missing_bytes(info.siblings or [], repo, cache)
    free = _free_bytes(cache)
    print(
        f"{repo}{'@' + revision if revision else ''}: {total / _GIB:.1f} GiB, "
        f"{missing / _GIB:.1f} GiB of it to download; {free / _GIB:.1f} GiB free in {cache}",
        file=sys.stderr,
    )
    if missing > free:
        raise HubError(
            f"{repo} needs {missing - free} bytes more than are free in {cache}; "
            "HF_HUB_CACHE names another folder",
            1,
        )
    try:
        folder = hub.snapshot_download(
            repo, revision=revision, cache_dir=str(cache), allow_patterns=_PATTERNS
        )
    except Exception as error:
        raise HubError(f"{repo}: {error}; run the same command again to go on", 1) from error
    return Path(folder)


def _is_unknown(error: Exception) -> bool:
    """Whether the hub said that there's no such repository or revision (not: no connection)."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(
        names
        & {
            "RepositoryNotFoundError",
            "RevisionNotFoundError",
            "GatedRepoError",
            "HFValidationError",
        }
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deepinfer.hub", description="Fetch a checkpoint from the Hugging Face hub."
    )
    words = parser.add_subparsers(dest="word", required=True, metavar="COMMAND")
    word = words.add_parser("download", help="fetch a checkpoint into the Hugging Face cache")
    word.add_argument("repo", help="ORG/NAME")
    word.add_argument("--revision", help="branch, tag or commit (default: main)")
    options = parser.parse_args(arguments)
    try:
        print(download(options.repo, options.revision))
    except HubError as error:
        print(f"deepinfer.hub: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("deepinfer.hub: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
