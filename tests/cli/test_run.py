"""`holdfast run`: answers, one line for each failure, and the exit status."""

from __future__ import annotations

import io
import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal, holdfast, read_and_close

from holdfast.cli.main import main
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    Html200,
    Pace,
    call,
)

Start = Callable[..., Emulator]
KEY = {"OPENAI_API_KEY": "sk-not-a-real-key"}


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def to(provider: Emulator) -> tuple[str, ...]:
    return ("--model", "openai:demo", "--base-url", provider.base_url)


def test_the_answer_alone_goes_to_standard_output(emulator: Start) -> None:
    done = holdfast("run", "hello", *to(emulator()), env=KEY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hello\n", "")


def test_a_dash_reads_standard_input(emulator: Start) -> None:
    done = holdfast("run", "-", *to(emulator()), said="Grüße,\nzwei Zeilen\n")
    assert (done.returncode, done.stdout) == (0, "You said: Grüße,\nzwei Zeilen\n")


def test_the_environment_can_name_the_model(emulator: Start) -> None:
    provider = emulator()
    env = {"HOLDFAST_MODEL": "openai:demo"}
    done = holdfast("run", "hello", "--base-url", provider.base_url, env=env)
    assert done.stdout == "You said: hello\n"


def test_instructions_reach_the_model(emulator: Start) -> None:
    provider = emulator()
    holdfast("run", "hello", *to(provider), "--instructions", "Be brief.")
    assert "Be brief." in str(provider.requests[0].body)


@pytest.mark.slow  # starts a program or a server
def test_a_file_never_holds_the_beginning_of_a_failed_attempt(emulator: Start) -> None:
    provider = emulator(["one two three four"], faults=[DropAfter(3)])
    done = holdfast("run", "hello", *to(provider), "--max-retries", "1")
    assert (done.returncode, done.stdout) == (0, "one two three four\n")
    assert "discard the text above" in done.stderr
    assert "(1 of 1)" in done.stderr


WRONG = [
    (("run", "hi"), "--model: is missing. Pass --model"),
    (("run", "hi", "--model", "gpt"), "--model: 'gpt' does not name a provider and a model. Write"),
    (("run", "hi", "--model", "opnai:x"), "--model: unknown provider 'opnai'. did you mean openai"),
    (
        ("run", "hi", "--model", "openai:x"),
        "OPENAI_API_KEY: is not set, and openai needs a key. Set it: export OPENAI_API_KEY=...",
    ),
    (
        ("run", "hi", "--model", "ollama:x", "--base-url", "localhost:1"),
        "--base-url: must begin with https:// or http://, and this is a text without a scheme",
    ),
    (
        ("run", "hi", "--model", "ollama:x", "--max-retries", "-1"),
        "--max-retries: must be at least 0, got -1",
    ),
    (
        ("run", "hi", "--model", "ollama:x", "--profile", "images"),
        "--profile: 'images' is not a field and a value. Write --profile system_role=system",
    ),
    (
        ("run", "hi", "--model", "ollama:x", "--profile", "images=none", "--profile", "image=x"),
        "--profile image: is not a field of a profile. Did you mean images?",
    ),
    (("run", " ", "--model", "ollama:x"), "question: is empty"),
    (("run", "-", "--model", "ollama:x"), "question: is empty"),
    (("chat", "--model", "gpt"), "--model: 'gpt' does not name a provider and a model"),
    (("demo", "/no/such/folder"), "folder: '/no/such/folder' is not a folder"),
    (("emulate", "--port", "99999"), "--port: must be from 0 to 65535, got 99999"),
    (("emulate", "--chaos", "7"), "--chaos: must be from 0 to 1, got 7"),
    (("emulate", "--host", "192.0.2.1"), "listen: cannot listen on 192.0.2.1"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_what_is_wrong_is_one_line_and_status_2(
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("OPENAI_API_KEY", "HOLDFAST_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"holdfast: {said}")
    assert shown.err.count("\n") == 1


def test_no_command_and_an_unknown_one_show_the_usage() -> None:
    for arguments in ((), ("fly",)):
        done = holdfast(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: holdfast")


def test_standard_input_that_is_closed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(("run", "-", "--model", "ollama:x")) == 2
    assert main(("chat", "--model", "ollama:x")) == 2


def test_standard_input_that_is_not_text_is_refused() -> None:
    done = holdfast("run", "-", "--model", "ollama:x", said=b"\xff\xfe\x00")
    assert (done.returncode, done.stderr) == (
        2,
        "holdfast: question: standard input is not valid UTF-8. Convert it to UTF-8\n",
    )


FAILURES = [
    (ErrorResponse("bad_key"), "Check the API key and its permissions."),
    (ErrorResponse("model_not_found"), "Check the model's name and that your account can use it."),
    (ErrorResponse("insufficient_quota"), "check the plan and the billing."),
    (
        ErrorResponse("rate_limit"),
        "Wait, send fewer requests at once, or ask the provider for a higher limit.",
    ),
    (Html200(), "got HTML page. Try again; if the error persists, check the base URL."),
    (DropAfter(1), "This is usually temporary: try again in a moment."),
]


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(("fault", "advice"), FAILURES, ids=lambda value: str(value)[:20])
def test_a_failure_is_one_line_with_what_to_do_next(
    emulator: Start, fault: Fault, advice: str
) -> None:
    provider = emulator(faults=[fault])
    done = holdfast("run", "hi", *to(provider), "--max-retries", "0", env=KEY)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("holdfast: ")
    assert advice in last
    assert "not-a-real-key" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wait_that_is_too_long_is_reported(emulator: Start) -> None:
    wait = {"retry-after": "500", "retry-after-ms": "500000"}
    done = holdfast("run", "hi", *to(emulator(faults=[ErrorResponse("rate_limit", wait)])))
    assert done.returncode == 1
    assert "(not tried again: the provider asks to wait 500 s" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_host_is_one_line(emulator: Start) -> None:
    address = f"http://127.0.0.1:{closed_port()}/v1"
    done = holdfast("run", "hi", "--model", "ollama:x", "--base-url", address, "--max-retries", "0")
    assert done.returncode == 1
    assert "connection refused. Check the base URL" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow  # starts a program or a server
def test_a_reader_that_closes_the_output_ends_it_silently(emulator: Start) -> None:
    provider = emulator(["word " * 200_000], chunking="whole")
    assert read_and_close("run", "hi", *to(provider), count=4) == (141, b"")


@pytest.mark.slow  # starts a program or a server
def test_a_letter_that_the_encoding_lacks_becomes_a_question_mark(emulator: Start) -> None:
    done = holdfast("run", "grün", *to(emulator()), env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout) == (0, "You said: gr?n\n")


@pytest.mark.slow  # starts a program or a server
def test_in_a_terminal_text_is_streamed_without_control_characters(emulator: Start) -> None:
    provider = emulator(["red \x1b[31malert\x07 " + "word " * 5])
    with Terminal("run", "hi", *to(provider)) as screen:
        shown = screen.wait_for("alert")
        assert "\x1b" not in shown
        assert screen.status() == 0


@pytest.mark.slow  # starts a program or a server
def test_ctrl_c_ends_it_with_130_and_no_traceback(emulator: Start) -> None:
    provider = emulator(["one two " * 20], faults=[Pace(1)])
    with Terminal("run", "hi", *to(provider)) as screen:
        screen.wait_for("one")
        screen.press("\x03")
        assert screen.status() == 130
        assert "Traceback" not in screen.shown
    provider.wait_idle_sync()
    assert provider.requests[0].client_gone


AGENT = """
model = "openai:demo"
base_url = "{base_url}"
api_key_env = "DESK_KEY"
tools = ["desk_of_{name}:{tool}"]
"""


def agent_file(folder: Path, provider: Emulator, tool: str = "look") -> str:
    """An agent with its tools in a module beside it, and the module's name is used once."""
    (folder / f"desk_of_{folder.name}.py").write_text(
        "from holdfast import tool\n\n"
        "@tool(effect='read')\ndef look(city: str) -> str:\n    return f'Ribeira in {city}'\n"
    )
    path = folder / "agent.toml"
    path.write_text(AGENT.format(base_url=provider.base_url, name=folder.name, tool=tool))
    return str(path)


def book(request: EmulatedRequest) -> object:
    if request.tool_results:
        return request.tool_results[0].text
    return [call("look", {"city": "Porto"})]


def test_the_tools_of_an_agent_file_lie_beside_it(emulator: Start, tmp_path: Path) -> None:
    agent = agent_file(tmp_path, emulator(book))
    done = holdfast("run", "Where?", "--agent", agent, env={"DESK_KEY": "any"})
    assert (done.returncode, done.stdout) == (0, "Ribeira in Porto\n")


def test_a_session_goes_on_in_a_journal(emulator: Start, tmp_path: Path) -> None:
    provider = emulator()
    journal = ("--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    for question in ("I am Ana.", "Who am I?"):
        holdfast("run", question, *to(provider), *journal, env=KEY)
    assert "I am Ana." in str(provider.requests[1].body)


def test_without_a_question_standard_input_is_the_question(emulator: Start) -> None:
    done = holdfast("run", *to(emulator()), said="hello", env=KEY)
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")


def test_a_program_reads_the_answer_as_json(emulator: Start) -> None:
    done = holdfast("run", "hello", "--output", "json", *to(emulator()), env=KEY)
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["output"]) == ("completed", "You said: hello")
    assert answer["usage"]["input"] > 0
    assert answer["run_id"]


def test_a_program_reads_a_failure_as_json(emulator: Start) -> None:
    provider = emulator(faults=[ErrorResponse("bad_key")])
    done = holdfast("run", "hello", "--output", "json", *to(provider), env=KEY)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"]) == (1, "failed")
    assert answer["error"]["category"] == "auth_error"
    assert KEY["OPENAI_API_KEY"] not in done.stdout + done.stderr


@pytest.mark.slow  # starts a program or a server
def test_a_run_that_waits_for_an_answer_says_how_to_give_it(
    emulator: Start, tmp_path: Path
) -> None:
    agent = agent_file(tmp_path, emulator(book))
    Path(agent).write_text(Path(agent).read_text() + '[permissions]\nask = ["look"]\n')
    journal = ("--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    env = {"DESK_KEY": "any"}
    done = holdfast("run", "Where?", "--agent", agent, *journal, "--output", "json", env=env)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (3, "waiting")
    assert "holdfast chat --session ana" in done.stderr
    chat = ("chat", "--agent", agent, *journal)
    answered = holdfast(*chat, said="y\n", env=env)
    assert "Ribeira in Porto" in answered.stdout


TRIP = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Trip",
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"$ref": "#/$defs/Days"}},
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"Days": {"type": "integer", "minimum": 1}},
}


def schema_file(folder: Path, schema: object) -> tuple[str, str]:
    path = folder / "schema.json"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return "--schema", str(path)


def test_an_answer_has_the_schema_of_a_file(emulator: Start, tmp_path: Path) -> None:
    provider = emulator([json.dumps({"city": "Porto", "days": 3}, indent=4)])
    done = holdfast("run", "Plan.", *to(provider), *schema_file(tmp_path, TRIP), env=KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"city":"Porto","days":3}\n'
    sent = provider.requests[0].body["response_format"]["json_schema"]
    assert sent["schema"]["$defs"] == TRIP["$defs"]


def test_a_program_reads_the_value_of_a_schema(emulator: Start, tmp_path: Path) -> None:
    schema = schema_file(tmp_path, {"type": "array", "items": {"type": "integer"}})
    provider = emulator(['{"answer": [1, 2]}'])
    done = holdfast("run", "Count.", "--output", "json", *to(provider), *schema, env=KEY)
    assert json.loads(done.stdout)["output"] == [1, 2]


def test_an_answer_that_breaks_the_schema_is_repaired(emulator: Start, tmp_path: Path) -> None:
    provider = emulator(['{"city": "Porto", "days": 0, "x": 1}', '{"city": "Porto", "days": 2}'])
    done = holdfast("run", "Plan.", *to(provider), *schema_file(tmp_path, TRIP), env=KEY)
    assert (done.returncode, done.stdout) == (0, '{"city":"Porto","days":2}\n')
    assert "the output is invalid" in done.stderr
    asked = str(provider.requests[1].body["messages"])
    assert "days: must be at least 1; got 0" in asked
    assert "x: is not a known name; the names are: city, days" in asked


def test_an_answer_that_never_has_the_schema_prints_nothing(
    emulator: Start, tmp_path: Path
) -> None:
    provider = emulator(["no JSON"] * 3)
    done = holdfast("run", "Plan.", *to(provider), *schema_file(tmp_path, TRIP), env=KEY)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr


WRONG_SCHEMAS = [
    ("{", "is not JSON: "),
    ([1], "is not a JSON Schema: it must be an object"),
    ({}, 'allows any answer. Say what you want, such as "type": "object" with "properties"'),
    ({"type": "objekt"}, "is not a JSON Schema at /type: 'objekt' is not a type"),
    ({"properties": {"a": {"minimum": "1"}}}, "at /properties/a/minimum: '1' is not a number"),
    ({"type": "string", "pattern": "("}, "at /pattern: '(' is not a 'regex'"),
    ({"$ref": "#/$defs/Trip"}, "has a reference to '#/$defs/Trip', which is not in it. Put its"),
    ({"type": "object", "not": {"$dynamicRef": "#trip"}}, "has a reference to '#trip', which is"),
    (
        {"$ref": "http://127.0.0.1:9/x.json"},
        "which is outside of it, and is never fetched. Put its",
    ),
    ({"type": "object", "$schema": "http://example.com/own"}, "names a $schema that is not known"),
    ({"type": "object", "$schema": 7}, "names a $schema that is not known"),
]


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(("schema", "said"), WRONG_SCHEMAS)
def test_a_wrong_schema_file_is_one_line_and_nothing_is_sent(
    emulator: Start, tmp_path: Path, schema: object, said: str
) -> None:
    provider = emulator()
    done = holdfast("run", "Plan.", *to(provider), *schema_file(tmp_path, schema), env=KEY)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("holdfast: --schema: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not provider.requests


def test_a_schema_file_of_10_000_levels_is_refused(tmp_path: Path) -> None:
    schema = '{"not": ' * 10_000 + "{}" + "}" * 10_000
    done = holdfast(
        "run", "Plan.", "--model", "openai:demo", *schema_file(tmp_path, schema), env=KEY
    )
    assert done.returncode == 2
    assert done.stderr.endswith("schema.json is nested too deeply. Use $defs\n")


def test_a_schema_file_that_is_missing_is_reported(emulator: Start, tmp_path: Path) -> None:
    missing = ("--schema", str(tmp_path / "none.json"))
    done = holdfast("run", "Plan.", *to(emulator()), *missing, env=KEY)
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.json cannot be read: No such file or directory" in done.stderr


@pytest.mark.slow  # starts a program or a server
def test_a_run_with_a_schema_that_waits_goes_on_with_it(emulator: Start, tmp_path: Path) -> None:
    def plan(request: EmulatedRequest) -> object:
        given = request.tool_results
        return '{"city": "Porto", "days": 2}' if given else [call("look", {"city": "Porto"})]

    agent = agent_file(tmp_path, emulator(plan))
    Path(agent).write_text(Path(agent).read_text() + '[permissions]\nask = ["look"]\n')
    schema = schema_file(tmp_path, TRIP)
    kept = ("--agent", agent, "--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    done = holdfast("run", "Where?", *kept, *schema, env={"DESK_KEY": "any"})
    assert (done.returncode, done.stdout) == (3, "")
    assert f"--session ana --agent {agent}" in done.stderr
    assert done.stderr.endswith(f" --schema {schema[1]}\n")
    answered = holdfast("chat", *kept, *schema, said="y\n", env={"DESK_KEY": "any"})
    assert (answered.returncode, json.loads(answered.stdout)["days"]) == (0, 2)


# A question that nobody answers.

Start_asking = Callable[..., Emulator]

TOOLS = '''
from holdfast import tool

@tool(effect="write")
def book(hotel: str) -> str:
    """Book a hotel."""
    return f"booked {hotel}"
'''


def reply(request: EmulatedRequest) -> object:
    if request.tool_results:
        return f"I read: {request.tool_results[-1].text}"
    return [call("book", {"hotel": "Ribeira"})]


@pytest.fixture
def agent(emulator: Start_asking, tmp_path: Path) -> str:
    """The path of an agent that asks before it books."""
    (tmp_path / "booking.py").write_text(TOOLS)
    file = tmp_path / "my agent.toml"
    lines = ['model = "openai:any"', f'base_url = "{emulator(reply).base_url}"']
    file.write_text(
        "\n".join([*lines, 'tools = ["booking:book"]', "[permissions]", 'ask = ["book"]'])
    )
    return str(file)


@pytest.mark.timeout(60)
def test_a_question_without_a_journal_counts_as_no_at_once(agent: str) -> None:
    done = holdfast("run", "Book.", "--agent", agent)
    assert (done.returncode, done.stdout) == (0, "I read: Permission request was cancelled.\n")
    assert "May book run with" in done.stderr
    assert "nobody can answer it here, which counts as no; --journal keeps it open" in done.stderr


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("session", [("--session", "ana"), ()])
def test_the_printed_command_answers_the_question(
    agent: str, tmp_path: Path, session: tuple[str, ...]
) -> None:
    journal = ("--journal", f"sqlite:///{tmp_path}/talk.db")
    done = holdfast("run", "Book.", "--agent", agent, *journal, *session)
    assert done.returncode == 3
    program, *command = shlex.split(done.stderr.splitlines()[-1].partition("answer: ")[2])
    assert program == "holdfast"
    answered = holdfast(*command, said="y\n")
    assert (answered.returncode, answered.stdout) == (0, "I read: booked Ribeira\n")


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_second_message_to_a_waiting_session_prints_the_command(
    agent: str, tmp_path: Path, output: str
) -> None:
    kept = ("--agent", agent, "--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    holdfast("run", "Book.", *kept)
    done = holdfast("run", "And?", *kept, "--output", output)
    assert done.returncode == 3
    assert "the session waits for an answer: holdfast chat --session ana --agent" in done.stderr
    assert "agent.answer" not in done.stderr
    assert output == "text" or json.loads(done.stdout)["status"] == "waiting"


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    "option",
    [
        "--model=openai:x",
        "--base-url=http://x",
        "--profile=like=vllm",
        "--instructions=x",
        "--max-retries=1",
    ],
)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_an_option_without_an_effect_is_refused(agent: str, command: str, option: str) -> None:
    question = ["Book."] if command == "run" else []
    done = holdfast(command, *question, "--agent", agent, option, said="")
    name = option.partition("=")[0]
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"holdfast: {name}: has no effect with --agent. Write it into")


def test_the_model_of_the_environment_is_no_option(agent: str) -> None:
    done = holdfast("run", "Book.", "--agent", agent, env={"HOLDFAST_MODEL": "openai:other"})
    assert done.returncode == 0


# A schema that refers to itself.

Start_of_schema = Callable[..., Emulator]
INTO_EACH_OTHER = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
IN_A_PROPERTY = {"a": {"$ref": "#/$defs/x"}}


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": INTO_EACH_OTHER},
        {"type": "object", "properties": IN_A_PROPERTY, "$defs": {"x": {"$ref": "#/$defs/x"}}},
    ],
)
def test_a_check_without_an_end_is_refused(
    emulator: Start_of_schema, tmp_path: Path, schema: object
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    provider = emulator()
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    done = holdfast("run", "Hello?", *address, "--schema", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "refers to itself without an end" in done.stderr
    assert not provider.requests


def test_a_recursive_schema_is_used(emulator: Start_of_schema, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    path.write_text(json.dumps(tree))
    provider = emulator(
        ['{"name": "a", "next": {"name": 1}}', '{"name": "a", "next": {"name": "b"}}']
    )
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    done = holdfast("run", "Hello?", *address, "--schema", str(path))
    assert (done.returncode, json.loads(done.stdout)["next"]) == (0, {"name": "b"})
