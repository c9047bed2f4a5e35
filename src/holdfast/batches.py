"""The outcomes of `Agent.map`: of a batch, of one of its items, and so far."""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.batch.batch_result import BatchItem as BatchItem
    from holdfast.runtime.batch.batch_result import BatchProgress as BatchProgress
    from holdfast.runtime.batch.batch_result import BatchResult as BatchResult
    from holdfast.runtime.batch.batch_run import BatchOptions as BatchOptions
    from holdfast.runtime.batch.batch_run import BatchRun as BatchRun

_HOME: dict[str, str] = {
    "BatchItem": "holdfast.runtime.batch.batch_result",
    "BatchOptions": "holdfast.runtime.batch.batch_run",
    "BatchProgress": "holdfast.runtime.batch.batch_result",
    "BatchResult": "holdfast.runtime.batch.batch_result",
    "BatchRun": "holdfast.runtime.batch.batch_run",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
