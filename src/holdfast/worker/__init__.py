"""Workers: processes that drive the turns of an inbox, on any number of machines.

What is to be done is in the inbox, what was done in the journal. This room must never keep a truth of
its own, and must never say that a turn has ended which the journal does not show as ended.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.worker.worker import Worker as Worker

_HOME: dict[str, str] = {
    "Worker": "holdfast.worker.worker",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
