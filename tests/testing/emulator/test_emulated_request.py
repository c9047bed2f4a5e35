"""What a script can read of a request."""

from holdfast.core.messages import ToolCall, ToolResult, assistant, system, tool_results, user
from holdfast.testing.emulator.emulated_request import EmulatedRequest

CALL = ToolCall("c1", "weather")
RESULT = ToolResult("c1", "weather", ())


def test_the_iteration_counts_replies_since_the_user_spoke() -> None:
    history = (system("x"), user("one"), assistant("a"), user("two"))
    assert EmulatedRequest(messages=history).iteration == 0
    history += (assistant(CALL), tool_results([RESULT]), assistant(CALL), tool_results([RESULT]))
    assert EmulatedRequest(messages=history).iteration == 2
    assert EmulatedRequest(messages=history).text == "two"


def test_tool_results_are_those_of_the_last_iteration() -> None:
    first = ToolResult("c0", "old", ())
    history = (user("x"), assistant(CALL), tool_results([first]), assistant(CALL))
    assert EmulatedRequest(messages=history).tool_results == ()
    assert EmulatedRequest(messages=(*history, tool_results([RESULT]))).tool_results == (RESULT,)


def test_an_empty_request() -> None:
    request = EmulatedRequest()
    assert (request.text, request.iteration, request.tool_results) == ("", 0, ())
