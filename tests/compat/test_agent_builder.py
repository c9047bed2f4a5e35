"""The builder says what the keywords say, and the table of the seeds' names is true."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from scripts.public_api import public_values

from holdfast import (
    Agent,
    ConfigurationError,
    ContinuationPermission,
    MemoryJournal,
    Middleware,
    RetryOptions,
    ToolPermission,
)
from holdfast.compat import AgentBuilder, ErrorHandling
from holdfast.core.messages import ToolCall
from holdfast.middleware import (
    ErrorFormatting,
    ErrorTracking,
    FunctionRetry,
    FunctionTimeout,
    Guidance,
    HistoryReduction,
    IterationCache,
    IterationLogging,
    PIIProtection,
    RepetitionGuard,
    TotalErrorThreshold,
    error_handling_middlewares,
)
from holdfast.testing import FakeClock, ScriptedModel

PUBLIC: dict[str, Any] = public_values()
TABLE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "from-the-seeds.md"
OLLAMA = AgentBuilder().with_provider("ollama", "x")


def weather(city: str) -> str:
    return city


def mail(to: str) -> str:
    return to


async def answer(request: object) -> object:
    return None


class _Transport:
    """Never asked."""


def middlewares(builder: AgentBuilder[Any]) -> list[Middleware[Any]]:
    return list(builder._keywords.get("middleware", ()))


CLOCK, JOURNAL, MODEL, TRANSPORT = FakeClock(), MemoryJournal(), ScriptedModel(), _Transport()
RNG = iter([]).__length_hint__
KEYWORDS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("with_model", (MODEL,), {"model": MODEL}),
    ("with_tools", (weather, mail), {"tools": (weather, mail)}),
    ("with_output", (int,), {"output": int}),
    ("with_deps_type", (dict,), {"deps_type": dict}),
    (
        "with_error_handling_config",
        (ErrorHandling(max_retries=1, function_timeout=5, include_detailed_errors_in_chat=True),),
        {"retry": RetryOptions(max_retries=1), "tool_timeout": 5, "detailed_errors": True},
    ),
    ("with_observer", (print,), {"observers": (print,)}),
]
MIDDLEWARES: list[tuple[str, dict[str, Any], Middleware[Any]]] = [
    ("with_circuit_breaker", {}, RepetitionGuard(3)),
    ("with_circuit_breaker", {"max_consecutive_calls": 5}, RepetitionGuard(5)),
    ("with_error_tracking", {"max_consecutive_errors": 2}, ErrorTracking(2)),
    ("with_total_error_threshold", {"max_total_errors": 7}, TotalErrorThreshold(7)),
    ("with_function_retry", {}, FunctionRetry(repeat_in_doubt=True)),
    ("with_function_retry", {"max_retries": 1}, FunctionRetry(max_retries=1, repeat_in_doubt=True)),
    ("with_function_timeout", {}, FunctionTimeout()),
    ("with_function_timeout", {"seconds": 5}, FunctionTimeout(5)),
    ("with_error_formatting", {"include_detailed_errors": True}, ErrorFormatting(True)),
    ("with_permissions", {"ask": ["pay"]}, ToolPermission(ask=["pay"])),
    ("with_continuation_permission", {"iterations": 4}, ContinuationPermission(4)),
    ("with_pii_protection", {"on_output": True}, PIIProtection(on_output=True)),
    ("with_history_reduction", {"target": 30}, HistoryReduction(30)),
    ("with_iteration_cache", {"seconds": 5.0}, IterationCache(5.0)),
    ("with_guidance", {"max_iterations": 5}, Guidance(5)),
    ("with_logging", {}, IterationLogging()),
]


@pytest.mark.parametrize(
    ("method", "given", "keywords"), KEYWORDS, ids=[row[0] for row in KEYWORDS]
)
def test_a_method_is_a_keyword(
    method: str, given: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    built = getattr(AgentBuilder(), method)(*given)
    assert {name: built._keywords[name] for name in keywords} == keywords


@pytest.mark.parametrize(
    ("method", "given", "wanted"), MIDDLEWARES, ids=[row[0] for row in MIDDLEWARES]
)
def test_a_method_is_a_middleware(
    method: str, given: dict[str, Any], wanted: Middleware[Any]
) -> None:
    (found,) = middlewares(getattr(AgentBuilder(), method)(**given))
    assert type(found) is type(wanted)
    assert found.describe() == wanted.describe()


def test_every_method_is_tested_here() -> None:
    tested = {row[0] for row in KEYWORDS} | {row[0] for row in MIDDLEWARES}
    tested |= {"with_provider", "with_openai", "with_anthropic", "with_gemini"}
    tested |= {
        "with_keywords",
        "with_middleware",
        "with_error_handling",
        "with_custom_retry_middleware",
    }
    assert tested == {name for name in dir(AgentBuilder) if name.startswith("with_")}


def test_any_keyword_of_an_agent_can_be_set() -> None:
    built = OLLAMA.with_keywords(name="scout", parallel_tools=2).with_keywords(name="guide")
    assert built._keywords == {**OLLAMA._keywords, "name": "guide", "parallel_tools": 2}


@pytest.mark.parametrize(
    ("builder", "model"),
    [
        (AgentBuilder().with_openai("gpt-4", "key"), "openai:gpt-4"),
        (AgentBuilder().with_anthropic("claude", "key"), "anthropic:claude"),
        (AgentBuilder().with_gemini("pro", "key"), "gemini:pro"),
        (AgentBuilder().with_provider("ollama", "llama3.2"), "ollama:llama3.2"),
        (AgentBuilder(model="ollama:llama3.2"), "ollama:llama3.2"),
    ],
)
def test_a_provider_and_a_model(builder: AgentBuilder, model: str) -> None:
    agent = builder.build()
    assert repr(agent) == f"Agent({model!r}, name='agent')"
    assert "key" not in repr(builder)


def test_a_base_url_is_that_of_the_provider() -> None:
    agent = AgentBuilder().with_openai("gpt-4", base_url="http://127.0.0.1:9/v1").build()
    assert "http://127.0.0.1:9/v1" in agent.describe()


def test_without_a_model_the_error_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match='Write "provider:model"'):
        AgentBuilder().build()


def test_mistakes_are_those_of_the_agent() -> None:
    with pytest.raises(ConfigurationError, match="parallel_tools: must be at least 1"):
        OLLAMA.with_keywords(parallel_tools=0).build()


def test_a_builder_never_changes() -> None:
    first = OLLAMA.with_tools(weather).with_middleware(Guidance())
    left, right = first.with_keywords(name="left").with_tools(mail), first.with_circuit_breaker()
    assert first._keywords.get("tools") == (weather,)
    assert left._keywords.get("tools") == (weather, mail)
    assert right._keywords.get("name") is None
    assert [len(middlewares(one)) for one in (first, left, right)] == [1, 1, 2]
    assert repr(left.build()) == "Agent('ollama:x', name='left')"
    assert "mail" not in first.build().describe()


def test_middlewares_are_appended_and_the_protection_of_people_is_first() -> None:
    built = OLLAMA.with_guidance().with_logging().with_pii_protection()
    assert [one.name for one in middlewares(built)] == [
        "PIIProtection",
        "Guidance",
        "IterationLogging",
    ]


def test_error_handling_of_a_builder_passes_its_arguments_on() -> None:
    retry = FunctionRetry(max_retries=1)
    built = OLLAMA.with_error_handling(
        6, 4, max_total_errors=20, retry=retry, timeout=5, include_detailed_errors=True
    )
    wanted = error_handling_middlewares(
        6, 4, 20, retry=retry, timeout=5, include_detailed_errors=True
    )
    assert [(one.name, one.describe()) for one in middlewares(built)] == [
        (one.name, one.describe()) for one in wanted
    ]


def test_both_spellings_describe_the_same_agent() -> None:
    built = OLLAMA.with_keywords(name="scout").with_tools(weather).with_error_handling(6).build()
    written = Agent(
        "ollama:x", name="scout", tools=[weather], middleware=error_handling_middlewares(6)
    )
    assert built.describe() == written.describe()


async def test_a_retry_of_ones_own_replaces_the_built_in_one() -> None:
    runs = []

    def fails() -> str:
        runs.append(1)
        raise ConnectionError("down")

    class Twice(Middleware):
        async def wrap_tool(self, context: Any, call_next: Any) -> Any:
            try:
                return await call_next(context)
            except ConnectionError:
                return await call_next(context)

    model = ScriptedModel(ToolCall("1", "fails", "{}"), "done")
    builder = AgentBuilder().with_model(model).with_tools(fails).with_keywords(clock=FakeClock())
    result = await builder.with_custom_retry_middleware(Twice()).build().run("Go")
    assert result.output == "done"
    assert len(runs) == 2


async def test_a_built_agent_runs_and_its_output_is_typed() -> None:
    agent = AgentBuilder().with_model(ScriptedModel('{"response": 4}', "4")).with_output(int)
    assert (await agent.build().run("2 + 2")).output == 4


SPAN = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    cells = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in TABLE.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    return [row for row in cells if row[0] != "seed" and len(row) == 3]


def differences() -> str:
    return TABLE.read_text("utf-8").partition("## Differences")[2]


def test_every_name_of_the_table_exists() -> None:
    assert len(rows()) > 100
    for row in rows():
        for text in SPAN.findall(row[1]):
            tree = ast.parse(text, mode="eval").body
            assert isinstance(tree, ast.Call)
            assert isinstance(tree.func, ast.Name)
            method = getattr(AgentBuilder, tree.func.id, None) or PUBLIC[tree.func.id]
            accepts(method, tree, is_method=tree.func.id != "AgentBuilder")
            for argument in [*tree.args, *(keyword.value for keyword in tree.keywords)]:
                check(argument)
        for text in SPAN.findall(row[2]):
            check(ast.parse(text, mode="eval").body)


def check(tree: ast.expr) -> None:
    """Names are public, attributes are there, and calls take what they are given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in {"agent", "handler", "observer"}:
            assert node.id in PUBLIC, node.id
        if isinstance(node, ast.Attribute):
            assert isinstance(node.value, ast.Name)
            owner = Agent if node.value.id == "agent" else PUBLIC[node.value.id]
            assert hasattr(owner, node.attr), ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            accepts(PUBLIC[node.func.id], node, is_method=False)


def accepts(function: Any, call: ast.Call, *, is_method: bool) -> None:
    positional = [None] * (len(call.args) + is_method)
    names = {keyword.arg or "": None for keyword in call.keywords}
    if function is Agent and not positional:
        names.setdefault("model", None)
    inspect.signature(function).bind(*positional, **names)


SEED_NAMES = """
activate_skill ActiveSkillInstructions add_message_to_session_history AfterFunction AgentConfig AgentEvent
AgenticLoopConfig AgentLoopState AgentMiddlewareContext AgentMiddlewarePipeline AgentName AgentResponse
BeforeFunction cache_key CachedResponse chunk_count CLOSED ContinuationPermissionMiddleware
CURRENT_SESSION_ID error_types ExtensionAmount failure_count failure_threshold FormatError
FunctionException GenerateCacheKey get_final_response get_session_history GetPluginRegistrations
GetRetryDelay HALF_OPEN has_text has_tool_call InvokeAsync IsFinalIteration IsFirstIteration IsSuccess
IterationMiddleWareContext last_failure_time last_tool_name MiddlewareState OnMessageTurnEndAsync
OnMessageTurnStartAsync OPEN output_text parse_error PermissionMiddleware photo_upload PostInvoke
PrepareTurnAsync process_chunk ProcessFunctionCallsAsync PromptUserForContinuation Properties
RateLimitRetryable record_call recovery_timeout RequestContinuationPermissionAsync RequestId
ReRegistrationAgentResponse response_times retry_counts routine_34 RunAgenticLoopInternal
should_attempt_call SkillInstructionIterationMiddleWare start_chat status_callback successful_calls
text_buffer tool_activity total_calls validate_response
AfterFunctionAsync AfterIterationAsync AIServiceCircuitBreaker AutoRefreshTokensOn401
BackoffMultiplier BeforeIterationAsync BlockFunctionExecution BuildAsync CircuitBreakerMiddleware
ContinuationPermissionIterationMiddleWare CustomRetryStrategy EmptyResponseError ErrorCategory
ErrorFormattingMiddleware ErrorHandlingConfig ErrorTrackingMiddleware ExecuteWithRetryAsync
FormatErrorForLLM FunctionRetryEvent FunctionRetryExecutor FunctionRetryMiddleware
FunctionTimeoutMiddleware IAgentMiddleware IIterationMiddleWare IPromptMiddleware
IncludeDetailedErrorsInChat IncludeProviderDetails IterationCachingMiddleware
IterationGuidanceMiddleware MaxRetries MaxRetriesByCategory MaxRetryDelay NormalizeErrors
ProviderHandler ResponseChunk ResponseError ResponseHandler ResponseValidationError RetryDelay
RetryMetrics SingleFunctionTimeout SkipLLMCall ToolExecutionError TotalErrorThresholdMiddleware
UseProviderRetryDelays WaitForResponseAsync WithCircuitBreaker WithCustomRetryMiddleware
WithErrorFormatting WithErrorHandling WithErrorTracking WithFunctionRetry WithFunctionTimeout
WithHistoryReduction WithIterationMiddleWare WithMessageCountingReduction WithMiddleware
WithMiddlewares WithObserver WithOpenAI WithPIIProtection WithPermissions WithProvider
WithSummarizerProvider WithSummarizingReduction WithTotalErrorThreshold
async_retry_ai_call_with_parsing cached_ai_call get_retry_config retry_ai_call_with_parsing
retry_rereg_ai_call_with_parsing send_message send_message_streaming
"""


def test_no_name_of_the_seeds_is_missing_from_the_table() -> None:
    listed = set(re.findall(r"\w+", " ".join(row[0] for row in rows())))
    assert [name for name in SEED_NAMES.split() if name not in listed] == []


def test_the_names_in_the_differences_are_public() -> None:
    """On the right of a difference, what stands in code is a name of Holdfast or a literal."""
    for line in differences().splitlines():
        if not line.startswith("| 00"):
            continue
        for text in SPAN.findall(line.split("|")[2]):
            if re.fullmatch(r"[A-Z]\w+(\(.*\))?", text):
                check(ast.parse(text, mode="eval").body)
