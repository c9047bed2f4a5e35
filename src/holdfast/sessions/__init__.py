"""Sessions as a user sees them: list, search, fork, rewind, compact, export and delete conversations.

A session is computed from the records of its journal, so this room must never store anything else.
It must never change a record: a change of a session is a new record. Only `delete` removes records.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.sessions.overview import SessionInfo as SessionInfo
    from holdfast.sessions.pruning import PruneResult as PruneResult
    from holdfast.sessions.search import SearchHit as SearchHit
    from holdfast.sessions.session_history import History as History
    from holdfast.sessions.session_history import Point as Point
    from holdfast.sessions.session_history import list_surviving_turns as list_surviving_turns
    from holdfast.sessions.sessions import Sessions as Sessions

_HOME: dict[str, str] = {
    "History": "holdfast.sessions.session_history",
    "Point": "holdfast.sessions.session_history",
    "PruneResult": "holdfast.sessions.pruning",
    "SearchHit": "holdfast.sessions.search",
    "SessionInfo": "holdfast.sessions.overview",
    "Sessions": "holdfast.sessions.sessions",
    "list_surviving_turns": "holdfast.sessions.session_history",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
