"""Runs the built command."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Result:
    """What a run of the command left."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Command:
    """The command `deepinfer`, run without any setting of the caller's environment."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self.home = home

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DEEPINFER_", "HF_", "XDG_")) and name != "OMP_NUM_THREADS"
        }
        # An empty home: nothing of the machine's Hugging Face cache can slip in.
        return {**kept, "HOME": str(self.home), "DEEPINFER_NUM_THREADS": "2", **(extra or {})}

    def raw(
        self,
        *words: str | bytes | Path,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.path, *words],
            input=stdin,
            capture_output=True,
            env=self.environment(env),
            cwd=cwd,
            timeout=300,
            check=False,
        )

    def __call__(
        self,
        *words: str | bytes | Path,
        stdin: str | bytes = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        code: int | None = 0,
    ) -> Result:
        """Runs the command and checks its exit code; `code=None` takes any."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = self.raw(*words, stdin=data, env=env, cwd=cwd)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        if code is not None:
            assert result.code == code, f"exit {result.code}: {result.err}"
        return result
