"""The demo's emulated model, the faults of its provider, and the folder in which they work.

The model is a function of the request: it looks at the calls that it made in this turn and at the texts of their
results, which is all that its protocol carries. It claims nothing that no result says, and does not insist when
somebody says no. The demo must never read the settings, keys or conversations of the person who tries it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from adh.demo.sandbox_project import FIXED_PRICES, TRICK_COMMAND, make_sandbox
from adh.storage.places import find_places
from adh.storage.trust import TrustedFolders
from holdfast import Text, ToolCall, ToolResult
from holdfast.testing.emulator import (
    DropAfter,
    EmulatedRequest,
    Emulator,
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
        request: the request of the program.
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


MODEL = "openai:demo"
PROJECT = "shop"
_KEY = "demo"
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "TZ")


class DemoPlace(Struct, frozen=True, kw_only=True):
    """The folders and the address of the demo.

    Args:
        project: the folder of the sandbox project.
        environ: the environment, with a home of its own.
        base_url: the address of the emulated provider.
    """

    project: Path
    environ: Mapping[str, str]
    base_url: str


@contextmanager
def open_demo(
    environ: Mapping[str, str], folder: Path | None = None, *, keep: bool = False
) -> Iterator[DemoPlace]:
    """Make the sandbox and start the emulated provider; end both afterwards.

    Args:
        environ: the environment of the program; only the variables of a terminal are taken from it.
        folder: where everything is; one that a demo has used goes on. None for a temporary folder.
        keep: whether a temporary folder stays.

    Raises:
        FileExistsError: the folder has files of somebody.
        OSError: it cannot be written.
    """
    place = folder.absolute() if folder is not None else Path(tempfile.mkdtemp(prefix="adh-demo-"))
    try:
        project, home = place / PROJECT, place / "home"
        if not (project / "prices.py").is_file():
            _check_empty(place)
            make_sandbox(project)
        home.mkdir(mode=0o700, exist_ok=True)
        own = {name: environ[name] for name in _PASSED_ON if name in environ}
        own |= {"HOME": str(home), "OPENAI_API_KEY": _KEY}
        TrustedFolders(find_places(own, project).trust_file).trust(project)
        with Emulator(choose_reply, faults=choose_faults) as provider:
            yield DemoPlace(project=project, environ=own, base_url=provider.base_url)
    finally:
        if folder is None and not keep:
            shutil.rmtree(place, ignore_errors=True)


def _check_empty(place: Path) -> None:
    if place.exists() and any(place.iterdir()):
        raise FileExistsError(17, "is not empty; name a new folder", str(place))
