"""The outcomes of `Agent.map`: of a batch, of one of its items, and so far."""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.batch_run import BatchItem as BatchItem
    from holdfast.runtime.batch_run import BatchOptions as BatchOptions
    from holdfast.runtime.batch_run import BatchProgress as BatchProgress
    from holdfast.runtime.batch_run import BatchResult as BatchResult
    from holdfast.runtime.batch_run import BatchRun as BatchRun

_HOME: dict[str, str] = {
    "BatchItem": "holdfast.runtime.batch_run",
    "BatchOptions": "holdfast.runtime.batch_run",
    "BatchProgress": "holdfast.runtime.batch_run",
    "BatchResult": "holdfast.runtime.batch_run",
    "BatchRun": "holdfast.runtime.batch_run",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
