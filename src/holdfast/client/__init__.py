"""The client of a service: the agents of another process, typed, async and sync.

The client must never import the packages of the extra `[server]`, and must never show a text twice
because a connection was lost.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.client.client import Client as Client
    from holdfast.client.following import ReplyText as ReplyText
    from holdfast.client.service_errors import AccessError as AccessError
    from holdfast.client.service_errors import BusyError as BusyError
    from holdfast.client.service_errors import InvalidRequestError as InvalidRequestError
    from holdfast.client.service_errors import NotFoundError as NotFoundError
    from holdfast.client.service_errors import RateLimitedError as RateLimitedError
    from holdfast.client.service_errors import ServiceConflictError as ServiceConflictError
    from holdfast.client.service_errors import ServiceError as ServiceError
    from holdfast.client.service_errors import UnavailableError as UnavailableError
    from holdfast.client.start_request import StartKeywords as StartKeywords
    from holdfast.client.sync_client import SyncClient as SyncClient
    from holdfast.event_log.stream_items import EndItem as EndItem
    from holdfast.event_log.stream_items import EventItem as EventItem
    from holdfast.event_log.stream_items import NoticeItem as NoticeItem
    from holdfast.event_log.stream_items import ReasoningItem as ReasoningItem
    from holdfast.event_log.stream_items import StatusItem as StatusItem
    from holdfast.event_log.stream_items import StreamItem as StreamItem
    from holdfast.event_log.stream_items import TextItem as TextItem
    from holdfast.event_log.stream_items import WithdrawnItem as WithdrawnItem
    from holdfast.journal.inbox.entries import EntryState as EntryState
    from holdfast.journal.inbox.schedules.firing import TickOutcome as TickOutcome
    from holdfast.journal.inbox.schedules.schedule import CatchUp as CatchUp
    from holdfast.journal.inbox.schedules.schedule import Overlap as Overlap
    from holdfast.server.api.queue_views import DepthView as DepthView
    from holdfast.server.api.queue_views import EntryPage as EntryPage
    from holdfast.server.api.queue_views import EntryView as EntryView
    from holdfast.server.api.queue_views import LimitsView as LimitsView
    from holdfast.server.api.queue_views import QueueView as QueueView
    from holdfast.server.api.queue_views import ScheduleView as ScheduleView
    from holdfast.server.api.queue_views import TickView as TickView
    from holdfast.server.api.queue_views import WorkerView as WorkerView
    from holdfast.server.api.request_bodies import NewSchedule as NewSchedule
    from holdfast.server.api.views import AgentView as AgentView
    from holdfast.server.api.views import AnswerView as AnswerView
    from holdfast.server.api.views import ChangeItem as ChangeItem
    from holdfast.server.api.views import DeletedSession as DeletedSession
    from holdfast.server.api.views import EndpointsChanged as EndpointsChanged
    from holdfast.server.api.views import HistoryView as HistoryView
    from holdfast.server.api.views import ListChanged as ListChanged
    from holdfast.server.api.views import MediaView as MediaView
    from holdfast.server.api.views import QuestionView as QuestionView
    from holdfast.server.api.views import QueueChanged as QueueChanged
    from holdfast.server.api.views import SessionPage as SessionPage
    from holdfast.server.api.views import SessionsChanged as SessionsChanged
    from holdfast.server.api.views import SessionSummary as SessionSummary
    from holdfast.server.api.views import ToolView as ToolView
    from holdfast.server.api.views import TurnState as TurnState
    from holdfast.server.api.views import TurnView as TurnView
    from holdfast.server.api.views import UsageTotal as UsageTotal
    from holdfast.server.api.views import UsageView as UsageView
    from holdfast.server.problem_body import ProblemBody as ProblemBody

_HOME: dict[str, str] = {
    "AccessError": "holdfast.client.service_errors",
    "AgentView": "holdfast.server.api.views",
    "AnswerView": "holdfast.server.api.views",
    "BusyError": "holdfast.client.service_errors",
    "CatchUp": "holdfast.journal.inbox.schedules.schedule",
    "ChangeItem": "holdfast.server.api.views",
    "Client": "holdfast.client.client",
    "DeletedSession": "holdfast.server.api.views",
    "DepthView": "holdfast.server.api.queue_views",
    "EndItem": "holdfast.event_log.stream_items",
    "EndpointsChanged": "holdfast.server.api.views",
    "EntryPage": "holdfast.server.api.queue_views",
    "EntryState": "holdfast.journal.inbox.entries",
    "EntryView": "holdfast.server.api.queue_views",
    "EventItem": "holdfast.event_log.stream_items",
    "HistoryView": "holdfast.server.api.views",
    "InvalidRequestError": "holdfast.client.service_errors",
    "LimitsView": "holdfast.server.api.queue_views",
    "ListChanged": "holdfast.server.api.views",
    "MediaView": "holdfast.server.api.views",
    "NewSchedule": "holdfast.server.api.request_bodies",
    "NotFoundError": "holdfast.client.service_errors",
    "NoticeItem": "holdfast.event_log.stream_items",
    "Overlap": "holdfast.journal.inbox.schedules.schedule",
    "ProblemBody": "holdfast.server.problem_body",
    "QuestionView": "holdfast.server.api.views",
    "QueueChanged": "holdfast.server.api.views",
    "QueueView": "holdfast.server.api.queue_views",
    "RateLimitedError": "holdfast.client.service_errors",
    "ReasoningItem": "holdfast.event_log.stream_items",
    "ReplyText": "holdfast.client.following",
    "ScheduleView": "holdfast.server.api.queue_views",
    "ServiceConflictError": "holdfast.client.service_errors",
    "ServiceError": "holdfast.client.service_errors",
    "SessionPage": "holdfast.server.api.views",
    "SessionSummary": "holdfast.server.api.views",
    "SessionsChanged": "holdfast.server.api.views",
    "StartKeywords": "holdfast.client.start_request",
    "StatusItem": "holdfast.event_log.stream_items",
    "StreamItem": "holdfast.event_log.stream_items",
    "SyncClient": "holdfast.client.sync_client",
    "TextItem": "holdfast.event_log.stream_items",
    "TickOutcome": "holdfast.journal.inbox.schedules.firing",
    "TickView": "holdfast.server.api.queue_views",
    "ToolView": "holdfast.server.api.views",
    "TurnState": "holdfast.server.api.views",
    "TurnView": "holdfast.server.api.views",
    "UnavailableError": "holdfast.client.service_errors",
    "UsageTotal": "holdfast.server.api.views",
    "UsageView": "holdfast.server.api.views",
    "WithdrawnItem": "holdfast.event_log.stream_items",
    "WorkerView": "holdfast.server.api.queue_views",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
