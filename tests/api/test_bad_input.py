"""Every argument of a public entry point is accepted, or refused at once by its name.

What is taken must have the type that the signature declares. Messages and their parts, replies,
deltas, events, notices and usage are not looked at, on purpose: a run makes them by the thousand.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, is_typeddict

import pytest
from scripts.public_api import public_values
from tests.api.declared import declared, fits

import holdfast
from holdfast import Agent, ConfigurationError, Limits, ModelSettings
from holdfast.compat import AgentBuilder, CallOptions
from holdfast.errors import AnswerTypeError
from holdfast.middleware import FunctionRetry
from holdfast.resilience.clock import Clock
from holdfast.resilience.pipeline import Pipeline
from holdfast.resilience.system_clock import SystemClock
from holdfast.testing import ScriptedModel, emulator
from holdfast.tools.tool import ToolOptions

ODD: list[Any] = [
    *(None, 0, -1, 1.5, math.nan, math.inf, "", "x", b"x", [], {}, {"a": 1}, object(), True),
    *([1], [None], ["x"], ("a",), print, SystemClock, 10**400),
]
PUBLIC: dict[str, Any] = public_values()
# `deps` are any object: tests/runtime/test_deps.py
ANYTHING = ("model", "output", "deps")
KEYWORDS = [name for name in inspect.signature(Agent).parameters if name not in ANYTHING]


def refused(kind: Any, keywords: dict[str, Any]) -> str:
    """What is said against it; "" when it is taken."""
    try:
        kind(**keywords)
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_of_the_agent_accepts_or_refuses_a_value(keyword: str) -> None:
    said = [refused(Agent, {"model": "ollama:m", keyword: value}) for value in ODD]
    assert any(said)
    assert all(not one or keyword.removesuffix("s") in one for one in said), said


@pytest.mark.parametrize("model", ODD)
def test_only_a_model_is_a_model(model: object) -> None:
    assert refused(Agent, {"model": model}).startswith("model")


@pytest.mark.parametrize("kind", [Limits, ModelSettings])
def test_a_field_of_a_record_accepts_or_refuses_a_value(kind: Any) -> None:
    for field in kind.__struct_fields__:
        said = [refused(kind, {field: value}) for value in ODD]
        assert any(said), field
        assert all(not one or field in one for one in said), said


@pytest.mark.parametrize("keyword", ["session", "history", "limits", "prompt"])
async def test_an_argument_of_a_turn_is_refused_before_the_turn_begins(keyword: str) -> None:
    model = ScriptedModel("Hi")
    agent = Agent(model)
    given: dict[str, Any] = {"prompt": "Hello"}
    wrong = {
        "session": [0, "", " ", b"x", ["a"], True],
        "history": ["x", 5, [1], ["x"], {"a": 1}, object()],
        "limits": [0, "x", {}, {"iterations": 1}, object()],
        "prompt": [None, 0, "", " ", [], [1], {}, {"a": 1}, b"x", object()],
    }
    for value in wrong[keyword]:
        with pytest.raises(ConfigurationError, match=keyword):
            await agent.run(**{**given, keyword: value})
    assert not model.requests


def test_the_class_of_a_clock_is_refused() -> None:
    wrong: type[Clock] = SystemClock
    said = refused(Agent, {"model": ScriptedModel("Hi"), "clock": wrong})
    assert said == (
        "clock: must be an object with now, monotonic, sleep, or None; got the class SystemClock. "
        "Write SystemClock(...)"
    )


async def _pause(_seconds: float) -> None:
    return


def _said() -> str:
    return '{"agent_final_response": "Hi", "routine_number": 2}'


_CALL: dict[str, Any] = {
    "func": _said,
    "options": CallOptions(sleep=lambda _: None, asleep=_pause),
}
ENTRIES: dict[str, dict[str, Any]] = {
    "AccessLimits": {},
    "AccessOptions": {},
    "Approved": {},
    "BreakerOptions": {},
    "ConnectionBounds": {},
    "BudgetOptions": {},
    "CacheOptions": {},
    "CallOptions": {},
    "Client": {"base_url": "http://127.0.0.1:8000"},
    "Check": {"function": print},
    "ClarificationQuestion": {"question": "Which?"},
    "Elicited": {},
    "ElicitationQuestion": {"server": "shop", "tool": "order", "message": "How?"},
    "ContinuationPermission": {},
    "ContinuationQuestion": {"iteration": 1, "limit": 1},
    "Continued": {},
    "Denied": {},
    "Deny": {"reason": "no"},
    "ErrorFormatting": {},
    "ErrorHandling": {},
    "QuarantineOptions": {},
    "QueueLimits": {},
    "QueueOptions": {},
    "ServiceOptions": {},
    "Prices": {},
    "RetryOptions": {},
    "ErrorTracking": {},
    "FunctionRetryExecutor": {},
    "FunctionTimeout": {},
    "Guard": {"pipeline": Pipeline.of()},
    "Guidance": {},
    "HedgeOptions": {},
    "HistoryReduction": {},
    "IterationCache": {},
    "IterationLogging": {},
    "LimiterOptions": {},
    "Limits": {},
    "JobDone": {},
    "JobFailed": {"reason": "refused"},
    "JobRetry": {"reason": "busy"},
    "ModelAt": {"model": "ollama:qwen3"},
    "ModelSettings": {},
    "OpenTelemetry": {},
    "PIIProtection": {},
    "PageFiles": {"folder": Path(holdfast.__file__).parent / "console" / "static", "policy": "x"},
    "Patch": {},
    "PermissionQuestion": {"tool": "pay"},
    "Principal": {"tenant": "", "name": "ada", "scopes": frozenset({"read"})},
    "PostgresJournal": {"url": "postgresql://db.example/talk"},
    "RepetitionGuard": {},
    "Replace": {"result": "done"},
    "Resilience": {},
    "ResponseHandler": {},
    "ResponseReader": {},
    "McpLimits": {},
    "McpTimeouts": {},
    "OpenAPIOptions": {},
    "SyncClient": {"base_url": "http://127.0.0.1:8000"},
    "Rule": {"tool": "pay"},
    "Ruling": {"permission": "ask"},
    "Sessions": {"journal": holdfast.MemoryJournal()},
    "SkillInstructions": {"skills": ()},
    "SkillLimits": {},
    "SqliteJournal": {"path": "talk.db"},
    "Stop": {"reason": "enough", "message": "Enough."},
    "StructuredOutput": {"kind": int},
    "Timeouts": {},
    "ToolPermission": {},
    "TotalErrorThreshold": {},
    "Toolset": {"name": "files"},
    "Unknown": {},
    "UsageLimits": {},
    "UseReply": {"reply": "Hi"},
    "asend_message": {"call": _said},
    "asend_message_streaming": {"call": _said},
    "async_retry_ai_call_with_parsing": _CALL,
    "async_retry_rereg_ai_call_with_parsing": _CALL,
    "error_handling_middlewares": {},
    "execute": {"pipeline": Pipeline.of(), "function": _said},
    "explain": {"info": holdfast.ErrorInfo(category=holdfast.ErrorCategory.UNKNOWN, safe="")},
    "get_retry_config": {"call_type": "payment"},
    "resilient": {},
    "retry_ai_call_with_parsing": _CALL,
    "retry_on": {},
    "retry_rereg_ai_call_with_parsing": _CALL,
    "send_message": {"call": _said},
    "send_message_streaming": {"call": _said},
    "tool": {},
    "CrashAt": {"journal": holdfast.MemoryJournal(), "append": 1},
    "Emulator": {},
    "FakeClock": {},
    "FixedRng": {},
    "ScriptedModel": {},
}
"""The required arguments of everything that a user makes or calls."""

RECORDS = ("holdfast.core.", "holdfast.codecs.", "holdfast.middleware.hook_contexts")
"""Where the records of runs are, and the messages that they are made of."""

MADE_BY_RUNS = {
    *("McpProgress", "McpServerChanged"),
    "AcceptedTurn",
    "DoubtfulCall",
    *("BatchItem", "BatchProgress", "BatchResult", "BatchRun"),
    *("Observation", "ObservedAttempt", "ObservedTarget", "ObservedTool", "ObservedTurn"),
    *("OutputContext", "Receipt", "RecoveredRun", "Result"),
    *("CallOutcome", "CallResult", "ParsedAnswer", "ResponseChunk", "RunStream", "SessionInfo"),
    *(
        "BreakerSnapshot",
        "EndpointState",
        "LimiterLoad",
        "MetricsSnapshot",
        "RejectedCall",
        "Reservation",
        "SessionRetries",
        "Stats",
    ),
    *("History", "Point", "SearchHit", "Skill", "ReplayResult", "SimulatedCrash", "Ticket"),
    *("Line", "Record", "RunEntry", "Tool", "ToolContext"),
    *("AgentView", "AnswerView", "HistoryView", "MediaView", "ProblemBody", "QuestionView"),
    *("SessionsChanged", "DeletedSession", "ListChanged", "QueueChanged", "EndpointsChanged"),
    *("SessionPage", "SessionSummary", "ToolView", "TurnState", "TurnView", "ReplyText"),
    *("UsageTotal", "UsageView"),
    *("EndItem", "EventItem", "NoticeItem", "ReasoningItem", "StatusItem", "TextItem"),
    "WithdrawnItem",
    *("AgentStarted", "AgentTextShown", "CallArgumentsShown", "CallReady", "CallStarted"),
    *("HostedCallShown", "MediaShown", "NoticeShown", "QuestionClosed", "QuestionShown"),
    *("ReasoningEnded", "ReasoningShown", "ResultShown", "SourcesShown", "StepFinished"),
    *("StepStarted", "StepWithdrawn", "StreamCut", "TextEnded", "TextShown", "TurnEnded"),
    *("TurnWaits", "UserShown"),
    *(
        "Admission",
        "EndedEntry",
        "EntryOutcome",
        "InboxEntry",
        "Job",
        "JobSlots",
        "Offer",
        "QueueDepth",
    ),
    *("QueuedRun", "TokenUse"),
    *("StalledEntry", "Statement", "Submission", "WorkerEntry", "WorkerInfo"),
    *("DepthView", "EntryPage", "EntryView", "LimitsView", "QueueView", "ScheduleView"),
    *("TickView", "WorkerView"),
    *("OutboxJob", "OutboxStatement"),
}
"""Records of runs, for users to read: nothing looks at them, for their speed."""

PIECES = {
    *("AttemptTimeout", "BreakerStrategy", "Cache", "CircuitBreaker", "Deadline", "Fallback"),
    "keep_alive",
    *("DisplayFold", "list_surviving_turns", "show_records"),
    *("FallbackTarget", "Hedge", "Latencies", "LimiterStrategy", "MetricsRecorder", "Pipeline"),
    *("RateLimiter", "Retry", "RetryBudget", "Store", "EndpointStates"),
    *("CallContext", "Done", "ExecutionContext", "Failed", "make_execution_context"),
    "PricedModel",
    *("Endpoint", "HttpModel", "HttpRequest", "HttpTransport", "Preset"),
    *("find_preset", "provider_names", "resolve_model", "open_journal", "Registry", "as_tool"),
    *("PermissionMemory", "SessionFilter", "cache_key", "classify_exception", "session_scope"),
    *(
        "EventSink",
        "Resource",
        "arguments_key",
        "current_session",
        "folding_twice",
        "looks_like_error",
        "no_waits",
        "replay",
    ),
}
"""What code puts together from checked parts, as the strategies from their options."""

TAKES_ANYTHING_OR_NOTHING = {
    *("Happened", "NotHappened"),
    *("CallMetrics", "MemoryJournal", "Middleware", "classify", "current_tool_call"),
}
EMULATOR = set(emulator.__all__) - {"Emulator"}
ELSEWHERE = {
    *("EngineCarrier", "EngineConformance"),  # tests of an engine: tests/worker/test_engines.py
    # These need a file or a journal.
    *("ReadOnlySqliteJournal", "backup_file", "restore_backup", "mark_restored"),
    *("JournalCopy", "PruneResult"),
    "Retention",
    *("Worker", "open_engine", "open_inbox", "Inbox"),  # tests/worker, tests/journal/inbox
    *("Outbox", "JobHandler", "OutboxWorker", "DbapiOutboxStore"),  # tests/outbox/test_outbox.py
    "NewSchedule",  # the service checks what it decodes: tests/server/test_every_route_keeps_tenants_apart.py
    "Agent",
    "AgentResponse",
    "ReRegistrationAgentResponse",
    "AgentBuilder",
    "CallTools",  # it takes any number of calls: tests/middleware/test_call_tools.py
    "Service",  # tests/server/test_background_service.py
    "create_app",
    "make_server_config",  # uvicorn takes what it is given: tests/server/test_access_over_http.py
    "keep_alive",  # it checks nothing until its pieces are read
    "FunctionRetry",
    "Skills",
    "ToolSearch",  # of toolsets: tests/tools/test_tool_search.py
    *("McpServer", "McpEmulator", "read_mcp_file"),  # tests/mcp/test_mcp_options.py
    *("OpenAPIToolset", "OpenAPIOperation"),  # from a file: tests/openapi/test_openapi_toolset.py
    "probe_endpoint",  # it sends requests: tests/wire/test_probe.py
}
KEYWORDS_OF: dict[str, Any] = {"tool": ToolOptions}
"""The keywords of an entry that takes `**keywords`."""
NOT_NAMED = {("tool", "function"), ("resilient", "strategies")}
"""The error names what was given by another word: the argument of the tool, or "function"."""

MAY_BE_NEGATIVE = {
    ("ModelSettings", "seed"),
    ("ModelSettings", "frequency_penalty"),
    ("ModelSettings", "presence_penalty"),
    ("get_retry_config", "routine_number"),
}


def entry_of(name: str) -> Any:
    return PUBLIC[name]


def parameters_of(name: str) -> Iterator[str]:
    for parameter in inspect.signature(entry_of(name)).parameters:
        if parameter == "keywords":
            yield from KEYWORDS_OF[name].__struct_fields__
        elif parameter not in ("args", "kwargs"):  # these go to the user's function
            yield parameter


def given(name: str, parameter: str, value: object) -> Callable[[], object]:
    """The call of an entry point with this value for one of its parameters."""
    found = inspect.signature(entry_of(name)).parameters.get(parameter)
    if found is None:
        return partial(entry_of(name), **{**ENTRIES[name], parameter: value})
    kind = found.kind
    if kind in (kind.VAR_POSITIONAL, kind.POSITIONAL_ONLY):
        return partial(entry_of(name), *ENTRIES[name].values(), value)
    return partial(entry_of(name), **{**ENTRIES[name], parameter: value})


def verdict(name: str, parameter: str, value: object) -> str:
    """What is said against a value; "" when it is taken."""
    try:
        made = given(name, parameter, value)()
        if inspect.iscoroutine(made):
            asyncio.run(made)
    except ConfigurationError as error:
        return str(error)
    if isinstance(made, holdfast.SqliteJournal | holdfast.PostgresJournal):
        made.close()
    return ""


# More than 40 cases: each makes files or connections of its own.
@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", ENTRIES)
def test_an_argument_of_an_entry_point_is_valid_or_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hints = declared(entry_of(name))
    for parameter, value in product(parameters_of(name), ODD):
        wanted = hints[parameter] if parameter in hints else declared(KEYWORDS_OF[name])[parameter]
        if said := verdict(name, parameter, value):
            named = parameter.removesuffix("s") in said or (name, parameter) in NOT_NAMED
            assert named, f"{name}({parameter}={value!r}): {said}"
        else:
            negative = value == -1 and (name, parameter) in MAY_BE_NEGATIVE
            assert fits(wanted, value) or negative, f"{name}({parameter}={value!r}) was taken"


def test_every_public_name_is_looked_at_or_left_alone_for_a_reason() -> None:
    names = {name for name in PUBLIC if name not in EMULATOR and is_entry(name, entry_of(name))}
    known = set(ENTRIES) | MADE_BY_RUNS | PIECES | TAKES_ANYTHING_OR_NOTHING | ELSEWHERE
    assert names == known & set(PUBLIC)
    assert known <= set(PUBLIC)


def is_entry(name: str, value: Any) -> bool:
    """Whether a user calls it, or makes one."""
    if inspect.isclass(value) and issubclass(value, Exception | Enum):
        return False
    called = inspect.isclass(value) or inspect.isroutine(value)
    declared_only = getattr(value, "_is_protocol", False) or is_typeddict(value)
    record = getattr(value, "__module__", "").startswith(RECORDS)
    return called and not declared_only and (name in ENTRIES or not record)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_builder_refuses_what_its_agent_refuses(keyword: str) -> None:
    for value in ODD:
        keywords: dict[str, Any] = {"model": "ollama:m", keyword: value}
        said = refused(lambda **given: AgentBuilder(**given).build(), keywords)
        assert said == refused(Agent, keywords)


@pytest.mark.parametrize("output", [None, 0, 1.5, "", "x", b"x", {}, {"a": 1}, [], [1], ["x"]])
def test_an_output_that_is_not_a_type_is_refused(output: object) -> None:
    assert refused(Agent, {"model": "ollama:m", "output": output}).startswith("output")


def test_settings_of_tool_retries_are_refused_with_the_agent() -> None:
    for name in ("max_retries", "retry_delay", "max_retries_by_category", "custom_retry"):
        middleware = [FunctionRetry(**{name: "x"})]
        assert name in refused(Agent, {"model": "ollama:m", "middleware": middleware})


def test_the_limits_of_skills_are_refused_before_a_folder_is_read(tmp_path: Path) -> None:
    for value in ODD[1:]:
        with pytest.raises(ConfigurationError, match="limits"):
            holdfast.Skills(tmp_path, limits=value)


@pytest.mark.parametrize("answer", [None, 0, "yes", True, {}, object()])
def test_an_answer_of_another_type_is_refused(answer: Any) -> None:
    request = holdfast.PermissionQuestion(tool="pay", key="t1.i0.tool.0.ask.0")
    with pytest.raises(AnswerTypeError):
        request.answer(answer)
    with pytest.raises(ConfigurationError, match="remember"):
        request.approve(remember=answer)


@pytest.mark.parametrize("part", [None, 0, b"x", {}, object()])
async def test_a_message_with_invalid_parts_is_refused(part: Any) -> None:
    with pytest.raises(ConfigurationError, match="prompt"):
        await Agent(ScriptedModel("Hi")).run(holdfast.user("Hello", part))
