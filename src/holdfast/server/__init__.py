"""The service: agents that people and programs reach over HTTP, with one event log for every protocol.

The service must never hold a truth of its own: every fact is in the journal, and a dropped
connection changes nothing. Names are imported on first use; the extra `[server]` has their packages.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.console.page_files import PageFiles as PageFiles
    from holdfast.hosting.tenant_service import ServiceOptions as ServiceOptions
    from holdfast.hosting.turns.turn_runner import AcceptedTurn as AcceptedTurn
    from holdfast.server.access.connections import ConnectionBounds as ConnectionBounds
    from holdfast.server.access.connections import make_server_config as make_server_config
    from holdfast.server.access.options import AccessLimits as AccessLimits
    from holdfast.server.access.options import AccessOptions as AccessOptions
    from holdfast.server.access.principals import Principal as Principal
    from holdfast.server.api.event_stream import keep_alive as keep_alive
    from holdfast.server.app import create_app as create_app
    from holdfast.server.background_service import Service as Service
    from holdfast.server.queued_turns import QueueOptions as QueueOptions

_HOME: dict[str, str] = {
    "AcceptedTurn": "holdfast.hosting.turns.turn_runner",
    "AccessLimits": "holdfast.server.access.options",
    "AccessOptions": "holdfast.server.access.options",
    "ConnectionBounds": "holdfast.server.access.connections",
    "PageFiles": "holdfast.console.page_files",
    "Principal": "holdfast.server.access.principals",
    "QueueOptions": "holdfast.server.queued_turns",
    "Service": "holdfast.server.background_service",
    "ServiceOptions": "holdfast.hosting.tenant_service",
    "create_app": "holdfast.server.app",
    "keep_alive": "holdfast.server.api.event_stream",
    "make_server_config": "holdfast.server.access.connections",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
