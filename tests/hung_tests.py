"""A plugin of pytest: ends the process of a test that hung, when its teardown hangs too.

The limit of a test counts once. What a test leaves is closed after it, with no limit: a task that ignores its
cancellation would hold the whole run. Whoever runs the process, such as xdist, says that it crashed and goes on.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Generator

import pytest

_HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting for `pyproject.toml`."""
    parser.addini("teardown_timeout", "Seconds for the teardown of a failed test.", default="60")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note that a test failed: one that passed has ended by itself."""
    report = yield
    item.stash[_HAS_FAILED] = report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Limit the teardown of a failed test."""
    if not item.stash.get(_HAS_FAILED, False):
        return (yield)
    seconds = float(item.config.getini("teardown_timeout"))
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
