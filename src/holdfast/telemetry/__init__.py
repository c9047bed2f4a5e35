"""Passes the events of a run to observers, metrics and traces.

This package must never change a run.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.telemetry.open_telemetry import OpenTelemetry as OpenTelemetry

_HOME: dict[str, str] = {
    "OpenTelemetry": "holdfast.telemetry.open_telemetry",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
