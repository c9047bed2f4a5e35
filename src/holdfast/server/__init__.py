"""The service: agents that people and programs reach over HTTP, with one event log for every protocol.

The service must never hold a truth of its own: what happened is in the journal, and a dropped
connection changes nothing. Names are imported on first use; the extra `[server]` has what they need.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.server.access.options import AccessLimits as AccessLimits
    from holdfast.server.access.options import AccessOptions as AccessOptions
    from holdfast.server.access.principals import Principal as Principal
    from holdfast.server.app import create_app as create_app

_HOME: dict[str, str] = {
    "AccessLimits": "holdfast.server.access.options",
    "AccessOptions": "holdfast.server.access.options",
    "Principal": "holdfast.server.access.principals",
    "create_app": "holdfast.server.app",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
