"""The DEEPINFER_* variables as Python values."""

import pytest

from deepinfer import envs


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEEPINFER_BATCH_INVARIANT", "DEEPINFER_LOGGING_INTERVAL_STEP"):
        monkeypatch.delenv(name, raising=False)
    assert envs.DEEPINFER_BATCH_INVARIANT is False
    assert envs.DEEPINFER_LOGGING_INTERVAL_STEP == 100


def test_set_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPINFER_BATCH_INVARIANT", "1")
    monkeypatch.setenv("DEEPINFER_LOGGING_INTERVAL_STEP", "7")
    assert envs.DEEPINFER_BATCH_INVARIANT is True
    assert envs.DEEPINFER_LOGGING_INTERVAL_STEP == 7


def test_bad_value_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPINFER_LOGGING_INTERVAL_STEP", "often")
    with pytest.raises(ValueError, match=r"^DEEPINFER_LOGGING_INTERVAL_STEP"):
        _ = envs.DEEPINFER_LOGGING_INTERVAL_STEP


def test_names_are_listed_and_explained() -> None:
    assert "DEEPINFER_ACCELERATOR" in dir(envs)
    assert "DEEPINFER_ACCELERATOR" in envs.describe("DEEPINFER_ACCELERATOR")
    with pytest.raises(AttributeError, match="DEEPINFER_NO_SUCH"):
        _ = envs.DEEPINFER_NO_SUCH
