"""Engines that several tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deepinfer import LLM


@pytest.fixture(scope="session")
def llm(golden: Path) -> Iterator[LLM]:
    """The golden checkpoint of random weights, without drafts."""
    with LLM(golden / "tiny-random", num_threads=2) as engine:
        yield engine


@pytest.fixture(scope="session")
def tiny() -> Iterator[LLM]:
    """The bundled checkpoint."""
    with LLM("tiny", num_threads=2) as engine:
        yield engine
