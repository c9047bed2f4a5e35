"""Helpers for calls that you make yourself with a vendor's SDK: read, check and retry them.

This room must never import an SDK or open a connection; it knows objects only by their fields.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.calls.call_plan import CallOutcome as CallOutcome
    from holdfast.calls.call_result import CallResult as CallResult
    from holdfast.calls.call_result import ResultKind as ResultKind
    from holdfast.calls.exception_rules import classify_exception as classify_exception
    from holdfast.calls.exception_rules import retry_on as retry_on
    from holdfast.calls.guard import Guard as Guard
    from holdfast.calls.guard import make_execution_context as make_execution_context
    from holdfast.calls.guarded_functions import arguments_key as arguments_key
    from holdfast.calls.guarded_functions import execute as execute
    from holdfast.calls.guarded_functions import resilient as resilient
    from holdfast.calls.parsed_answers import ParsedAnswer as ParsedAnswer
    from holdfast.calls.response_handler import ResponseChunk as ResponseChunk
    from holdfast.calls.response_handler import ResponseHandler as ResponseHandler
    from holdfast.calls.response_reader import ResponseReader as ResponseReader
    from holdfast.calls.response_reader import ResponseShape as ResponseShape
    from holdfast.calls.sdk_errors import classify as classify
    from holdfast.calls.send import asend_message as asend_message
    from holdfast.calls.send import asend_message_streaming as asend_message_streaming
    from holdfast.calls.send import send_message as send_message
    from holdfast.calls.send import send_message_streaming as send_message_streaming
    from holdfast.calls.session_log import SessionFilter as SessionFilter
    from holdfast.calls.session_log import current_session as current_session
    from holdfast.calls.session_log import session_scope as session_scope

_HOME: dict[str, str] = {
    "CallOutcome": "holdfast.calls.call_plan",
    "CallResult": "holdfast.calls.call_result",
    "Guard": "holdfast.calls.guard",
    "ParsedAnswer": "holdfast.calls.parsed_answers",
    "ResponseChunk": "holdfast.calls.response_handler",
    "ResponseHandler": "holdfast.calls.response_handler",
    "ResponseReader": "holdfast.calls.response_reader",
    "ResponseShape": "holdfast.calls.response_reader",
    "ResultKind": "holdfast.calls.call_result",
    "SessionFilter": "holdfast.calls.session_log",
    "arguments_key": "holdfast.calls.guarded_functions",
    "asend_message": "holdfast.calls.send",
    "asend_message_streaming": "holdfast.calls.send",
    "classify": "holdfast.calls.sdk_errors",
    "classify_exception": "holdfast.calls.exception_rules",
    "current_session": "holdfast.calls.session_log",
    "execute": "holdfast.calls.guarded_functions",
    "make_execution_context": "holdfast.calls.guard",
    "resilient": "holdfast.calls.guarded_functions",
    "retry_on": "holdfast.calls.exception_rules",
    "send_message": "holdfast.calls.send",
    "send_message_streaming": "holdfast.calls.send",
    "session_scope": "holdfast.calls.session_log",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
