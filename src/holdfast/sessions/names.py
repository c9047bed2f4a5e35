"""Distinguishes the sessions of a journal from the runs that belong to a session.

Two kinds of run belong to the session `ada`: `ada/:title` holds its titles, and `ada/t1.i0.tool.0`
is the run of an agent that one of its turns called as a tool. A session such as `ada/notes` does
not belong to `ada`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonEmptyText
from holdfast.core.effects import TITLES, is_nested_run
from holdfast.core.errors import ConfigurationError
from holdfast.core.run_fold import LONGEST_TITLE

LONGEST_NAME = 1000
"""The largest number of characters of the name of a session; lists show it."""

_OF_TOOLS = re.compile(r"(/t\d+\.i\d+\.tool\.\d+(\.again\.\d+)?)+")
_OF_TURN = re.compile(r"/t(\d{1,18})\.i\d+\.tool\.")
_OF_TOOLS_AT_END = re.compile(_OF_TOOLS.pattern + r"\Z")


def title_run(session: str) -> str:
    """Return the name of the run that holds the titles of a session.

    >>> title_run("ada")
    'ada/:title'
    """
    return session + TITLES


def is_session(run: str) -> bool:
    """Whether a run is a session.

    >>> [is_session(run) for run in ("ada", "ada/notes", "ada/:title", "ada/t1.i0.tool.0")]
    [True, True, False, False]
    """
    return not run.endswith(TITLES) and not is_nested_run(run)


def owner_of(run: str) -> str:
    """Return the session to which a run belongs; the run itself, if it is a session.

    >>> [owner_of(run) for run in ("ada", "ada/notes", "ada/:title", "ada/t1.i0.tool.0")]
    ['ada', 'ada/notes', 'ada', 'ada']
    """
    if run.endswith(TITLES):
        return run.removesuffix(TITLES)
    of_tools = _OF_TOOLS_AT_END.search(run)
    return run if of_tools is None else run[: of_tools.start()]


def find_related_runs(session: str, runs: Iterable[str]) -> list[str]:
    """Return the names of the runs that belong to a session, without the session, sorted.

    >>> find_related_runs("ada", ["ada", "ada/notes", "ada/:title", "ada/t1.i0.tool.0", "adam/:title"])
    ['ada/:title', 'ada/t1.i0.tool.0']
    """
    length = len(session)
    return sorted(
        run
        for run in runs
        if run.startswith(session)
        and (run[length:] == TITLES or _OF_TOOLS.fullmatch(run, length) is not None)
    )


def find_turn_number(session: str, run: str) -> int:
    """Return the number of the turn of a session that a run of an agent belongs to; 0 for any other run.

    A number that no turn can reach is 0 too.

    >>> [find_turn_number("ada", run) for run in ("ada", "ada/:title", "ada/t2.i0.tool.0/t9.i0.tool.1")]
    [0, 0, 2]
    """
    found = _OF_TURN.match(run, len(session))
    return 0 if found is None else int(found[1])


def tool_run_range(session: str) -> tuple[str, str]:
    """Return two names; the runs of agents that a session called as tools are between them.

    >>> first, last = tool_run_range("ada")
    >>> [first < run < last for run in ("ada/t1.i0.tool.0", "ada/tea", "ada/:title")]
    [True, False, False]
    """
    return f"{session}/t0", f"{session}/t:"  # the character after "9"


def new_name() -> str:
    """Return a random name, unique for all practical purposes."""
    return f"{random.getrandbits(128):032x}"


def check_session_name(session: str, argument: str = "session") -> str:
    """Return the name. Raises ConfigurationError if a session cannot have it."""
    _check_length(argument, session, LONGEST_NAME)
    if not is_session(session):
        raise ConfigurationError(
            argument,
            f"{session!r} is reserved for the titles or the tool runs of a session",
            fix="Choose another name",
        )
    return session


def check_title(title: str) -> str:
    """Return the title. Raises ConfigurationError if it is empty or too long."""
    return _check_length("title", title, LONGEST_TITLE)


def _check_length(argument: str, text: str, longest: int) -> str:
    check_value(argument, text, NonEmptyText)
    if len(text) > longest:
        raise ConfigurationError(
            argument,
            f"has {len(text):,} characters of at most {longest:,}",
            fix="Choose a shorter one",
        )
    return text
