import pytest

from holdfast.calls.tool_activity import ToolActivity
from holdfast.core.deltas import PartReceived, TextDelta, ToolCallDelta
from holdfast.core.messages import Opaque


def block(**data: object) -> PartReceived:
    return PartReceived(Opaque("wire", data))


def test_a_call_without_a_name_is_unknown_until_its_name_comes() -> None:
    activity = ToolActivity()
    assert activity.read_delta(ToolCallDelta(0, "c1")) == "unknown"
    assert activity.read_delta(ToolCallDelta(0, arguments="{")) == "unknown"
    assert activity.read_delta(ToolCallDelta(0, name="search")) == "search"
    assert activity.names == ["search"]
    assert activity.read_delta(TextDelta("x")) is None


RESULTS = [
    (block(functionResponse={"name": "f", "response": {"result": 1}}), True, ""),
    (block(functionResponse={"name": "f", "response": {"error": "boom"}}), False, "boom"),
    (block(type="web_search_tool_result", tool_use_id="u", content=[]), True, ""),
    (
        block(
            type="web_search_tool_result",
            tool_use_id="u",
            content={"type": "web_search_tool_result_error", "error_code": "unavailable"},
        ),
        False,
        "unavailable",
    ),
    (
        block(type="mcp_tool_result", tool_use_id="u", is_error=True, content="token=abcdef"),
        False,
        "token=[redacted]",
    ),
]


@pytest.mark.parametrize(("result", "good", "wrong"), RESULTS)
def test_results_are_seen(result: PartReceived, good: bool, wrong: str) -> None:
    activity = ToolActivity()
    activity.read_delta(block(type="server_tool_use", id="u", name="f"))
    assert not activity.has_succeeded("f")
    assert activity.read_delta(result) is None
    assert (activity.has_succeeded("f"), activity.find_failure("f")) == (good, wrong)


ITEMS = [
    (block(type="web_search_call", status="completed"), "web_search", True, ""),
    (block(type="web_search_call", status="failed"), "web_search", False, "failed"),
    (block(type="web_search_call", status="in_progress"), "web_search", False, ""),
    (block(type="mcp_call", name="ask", error="no", status="failed"), "ask", False, "no"),
    (block(type="mcp_call", name="ask", output="x", status="completed"), "ask", True, ""),
    # Complete is here only the wish: the client has to run it.
    (block(type="computer_call", status="completed"), "computer", False, ""),
    (block(executableCode={"code": "1"}), "code_execution", False, ""),
]


@pytest.mark.parametrize(("item", "name", "good", "wrong"), ITEMS)
def test_items_that_the_provider_runs(
    item: PartReceived, name: str, good: bool, wrong: str
) -> None:
    activity = ToolActivity()
    assert activity.read_delta(item) == name
    assert (activity.has_succeeded(name), activity.find_failure(name)) == (good, wrong)


def test_code_that_the_provider_ran() -> None:
    activity = ToolActivity()
    activity.read_delta(block(codeExecutionResult={"outcome": "OUTCOME_OK"}))
    assert activity.has_succeeded("code_execution")
    activity.read_delta(block(codeExecutionResult={"outcome": "OUTCOME_FAILED"}))
    assert activity.find_failure("code_execution") == "OUTCOME_FAILED"
