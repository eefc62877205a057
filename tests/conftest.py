"""Rules for every Python test."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Nothing is skipped silently: what can't run here is a failure."""
    if terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("a test was skipped; every test must run", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden data; missing data fails the test that asks for it."""
    folder = Path(os.environ.get("DEEPINFER_GOLDEN_DIR", REPOSITORY / "tests" / "golden"))
    assert folder.is_dir(), f"golden data is missing: {folder}"
    return folder
