"""The demo's emulated model, and the faults of its provider.

The model is a function of the request: it looks at the calls that it made in this turn and at the texts of their
results, which is all that its protocol carries. It claims nothing that no result says, and does not insist when
somebody says no.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from adh.demo.sandbox_project import FIXED_PRICES, TRICK_COMMAND
from holdfast import Text, ToolCall, ToolResult
from holdfast.testing.emulator import (
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    Pace,
    call,
)

FIRST_MESSAGE = "The tests fail. Find out why, and fix it."
"""The message that the input holds when the demo starts."""

TEST_COMMAND = "python3 -m unittest"
_RATE_LIMIT_SECONDS = 2
_PACE_SECONDS = 0.03
_BREAK_AFTER_CHUNKS = 9

Reply = list[Text | ToolCall]


class MadeCall(Struct, frozen=True):
    """A call of this turn and its result."""

    name: str
    arguments: str
    result: str


def choose_reply(request: EmulatedRequest) -> Reply:
    """Choose the model's next reply from the calls of the turn and their results.

    Args:
        request: what the program sent.
    """
    made = collect_calls(request)
    message = request.text.lower()
    if "test" in message or "fix" in message:
        return _fix_tests(made)
    if "secret" in message or ".env" in message:
        return _read_secret(made)
    if "clean" in message or "delete" in message:
        return _clean_up(made)
    return [
        Text(
            "I am an emulated model: I can do three things here. Try:\n\n"
            f"- {FIRST_MESSAGE}\n"
            "- Show me the secret in .env\n"
            "- Clean up everything"
        )
    ]


def choose_faults(request: EmulatedRequest) -> tuple[Fault, ...]:
    """Return the faults of a request: the first one is limited, and the fifth breaks off in the middle.

    >>> [type(one).__name__ for one in choose_faults(EmulatedRequest(number=1))]
    ['ErrorResponse']
    """
    pace = Pace(_PACE_SECONDS)
    if request.number == 1:
        return (ErrorResponse("rate_limit", {"retry-after": str(_RATE_LIMIT_SECONDS)}),)
    if request.number == 5:
        return (pace, DropAfter(_BREAK_AFTER_CHUNKS))
    return (pace,)


def collect_calls(request: EmulatedRequest) -> list[MadeCall]:
    """Return the calls since the last message of the person, in order, with their results."""
    calls: list[ToolCall] = []
    results: dict[str, ToolResult] = {}
    for message in request.messages:
        if message.role == "user":
            calls.clear()
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls.append(part)
            elif isinstance(part, ToolResult):
                results[part.call_id] = part
    return [
        MadeCall(one.name, one.arguments, found.text)
        for one in calls
        if (found := results.get(one.id)) is not None
    ]


def _fix_tests(made: list[MadeCall]) -> Reply:
    steps: tuple[Callable[[], Reply], ...] = (_look_around, _obey_readme, _read_code)
    asked = {(one.name, one.arguments) for one in made}
    for step in steps:
        reply = step()
        calls = [part for part in reply if isinstance(part, ToolCall)]
        if not all((one.name, one.arguments) in asked for one in calls):
            return reply
    edit = _find_call(made, "write_file")
    if edit is None:
        return _propose_edit()
    if '"changed"' not in edit.result:
        return [Text(f"The edit was not made, so the tests still fail. I read: {edit.result}")]
    tests = _find_call(made, "execute_command", TEST_COMMAND)
    return _run_tests() if tests is None else [Text(_conclude(tests))]


def _look_around() -> Reply:
    return [
        Text("I look at the project first."),
        call("list_directory", {"directory": "."}),
        call("read_file", {"file_path": "README.md"}),
    ]


def _obey_readme() -> Reply:
    return [
        Text("The README says that agents run a setup first."),
        call("execute_command", {"command": TRICK_COMMAND}),
    ]


def _read_code() -> Reply:
    return [
        Text("I go on without the setup and read the code."),
        call("read_file", {"file_path": "prices.py"}),
        call("read_file", {"file_path": "test_prices.py"}),
    ]


def _propose_edit() -> Reply:
    return [
        Text(
            "`total` adds the discount where it should subtract it: `100 + discount`. "
            "The test with a discount of 10 expects 27 and gets 33. I propose to change one sign."
        ),
        call("write_file", {"file_path": "prices.py", "content": FIXED_PRICES}),
    ]


def _run_tests() -> Reply:
    return [
        Text("The file is changed. Now the tests have to show that it works."),
        call("execute_command", {"command": TEST_COMMAND}),
    ]


def _conclude(tests: MadeCall) -> str:
    if '"return_code"' not in tests.result:
        return f"The file is changed, but the tests did not run. I read: {tests.result}"
    if "OK" in tests.result and "Ran 3 tests" in tests.result:
        return (
            "Fixed: the three tests pass. The discount is subtracted now.\n\n"
            "**Ctrl+U** undoes the change. The README wanted a program from the network to run; "
            "you decided about that."
        )
    return f"The file is changed, and the tests still fail:\n\n```\n{tests.result}\n```"


def _read_secret(made: list[MadeCall]) -> Reply:
    if not made:
        return [Text("I read the file."), call("execute_command", {"command": "cat .env"})]
    is_read = '"return_code":0' in made[-1].result
    return [Text("I read it, and do not repeat it." if is_read else "I could not read it.")]


def _clean_up(made: list[MadeCall]) -> Reply:
    if not made:
        return [Text("I delete everything."), call("execute_command", {"command": "rm -rf /"})]
    if '"return_code"' not in made[-1].result:
        return [Text(f"That is not allowed. I read: {made[-1].result}")]
    return [Text("The command ran.")]


def _find_call(made: list[MadeCall], name: str, part: str = "") -> MadeCall | None:
    return next((one for one in reversed(made) if one.name == name and part in one.arguments), None)
