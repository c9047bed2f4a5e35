"""The arguments that several commands have, and the agent that those of `run` and `chat` describe.

An API key is never an argument: every user of a machine can read the arguments of a process.
"""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import msgspec

from holdfast.cli.run_printer import shorten
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.journal.journal_names import DEFAULT_TENANT, resolve_path
from holdfast.journal.url import open_journal, sqlite_path

if TYPE_CHECKING:
    from holdfast.agent import Agent
    from holdfast.codecs.endpoint_profile import ProfileChanges
    from holdfast.hosting.bound_agents import AnyAgent
    from holdfast.journal.port import Journal

MODEL_VARIABLE = "HOLDFAST_MODEL"

_OPTIONS = {
    "model": "--model",
    "provider": "--model",
    "base_url": "--base-url",
    "retry.max_retries": "--max-retries",
    "journal": "--journal",
    "tenant": "--tenant",
}
"""The library's name of an argument -> the option in the terminal."""


def add_model_arguments(sub: argparse.ArgumentParser) -> None:
    """Add `--model`, `--base-url`, `--profile`, `--instructions` and `--max-retries`."""
    sub.add_argument(
        "--model",
        help=f'"provider:model", for example openai:gpt-5.2; default: ${MODEL_VARIABLE}',
    )
    sub.add_argument("--base-url", metavar="URL", help="base URL of the provider's API")
    sub.add_argument(
        "--profile",
        action="append",
        metavar="FIELD=VALUE",
        help="how the server differs from its provider, such as system_role=system, or like=vllm for the "
        "profile of another provider; may be given several times",
    )
    sub.add_argument("--instructions", metavar="TEXT", help="the system prompt")
    sub.add_argument(
        "--max-retries",
        type=int,
        metavar="N",
        help="retries after a failed first attempt; default: 3",
    )


def add_conversation_arguments(
    sub: argparse.ArgumentParser, *, session: str | None = "chat"
) -> None:
    """Add `--agent`, `--journal`, `--tenant` and `--session`.

    Args:
        sub: the parser.
        session: the default of `--session`; None means no session.
    """
    sub.add_argument(
        "--agent",
        metavar="FILE",
        help="TOML file of an agent with its tools; stands in place of the options above",
    )
    sub.add_argument(
        "--journal",
        metavar="ADDRESS",
        help="save the conversation in a SQLite file, or in sqlite:///... or postgresql://...; "
        "default: not saved",
    )
    sub.add_argument(
        "--tenant", metavar="NAME", help="tenant of the conversation in the journal of --journal"
    )
    sub.add_argument(
        "--session",
        default=session,
        metavar="NAME",
        help=f"name of the conversation; default: {session or 'none'}",
    )


def add_schema_argument(sub: argparse.ArgumentParser) -> None:
    """Add `--schema`."""
    sub.add_argument(
        "--schema",
        type=Path,
        metavar="FILE",
        help="JSON Schema file of the answer, which is then JSON",
    )


def find_schema_type(args: argparse.Namespace) -> type | None:
    """Return the output type of `--schema`, if it is given."""
    if args.schema is None:
        return None
    path: Path = args.schema
    from holdfast.output.schema_output import make_schema_type  # loads pydantic

    return make_schema_type(
        _read_schema(path), lambda problem, fix: _refuse_schema(path, problem, fix)
    )


def _read_schema(path: Path) -> JsonSchema:
    """Return the schema in a file. Raises ConfigurationError if it is not a JSON Schema that can be used."""
    try:
        schema = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise _refuse_schema(path, f"cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise _refuse_schema(path, "is nested too deeply", "Use $defs") from error
    except ValueError as error:
        problem = str(error).removeprefix("JSON is malformed: ")
        raise _refuse_schema(path, f"is not JSON: {problem}") from error
    if not isinstance(schema, dict):
        raise _refuse_schema(path, "is not a JSON Schema: it must be an object")
    try:
        return JsonSchema(schema)
    except ConfigurationError as error:
        raise _refuse_schema(path, error.problem, error.fix) from error


def _refuse_schema(path: Path, problem: str, fix: str = "") -> ConfigurationError:
    return ConfigurationError("--schema", f"{path} {problem}", fix=fix)


def find_model(args: argparse.Namespace) -> str | None:
    """Return the model of `--model` or of the environment."""
    return args.model or os.environ.get(MODEL_VARIABLE)


def keeps_questions_open(args: argparse.Namespace) -> bool:
    """Whether a question that nobody answers now can be answered by a later program."""
    if args.journal or not args.agent:
        return bool(args.journal)
    from holdfast.agent_file.toml_source import read_agent_file

    return read_agent_file(Path(args.agent)).content.get("on_wait") == "suspend"


def to_address(journal: str) -> str:
    """Return the address of a journal that is given by its address or by the name of a SQLite file.

    >>> to_address("postgresql:///talk")
    'postgresql:///talk'
    >>> to_address("talk.db").endswith("/talk.db")
    True
    """
    if ":" in journal:
        return journal
    return f"sqlite:///{quote(resolve_path(journal))}"


def require_journal(journal: str) -> str:
    """Return the address of a journal that exists. Raises ConfigurationError for a file that does not."""
    address = to_address(journal)
    if address.startswith("sqlite:") and not sqlite_path(address).is_file():
        raise ConfigurationError("--journal", f"there is no file {shorten(journal, 200)}")
    return address


def add_inbox(parser: argparse.ArgumentParser) -> None:
    """Add `--journal` of a command that needs an inbox."""
    about = "the journal with the inbox: postgresql://..., or a SQLite file"
    parser.add_argument("--journal", required=True, metavar="ADDRESS", help=about)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add `--engine` of a process that drives turns of an inbox."""
    about = (
        'what carries the jobs: "postgres" in the database of the journal, or nats://HOST:PORT; '
        "the same for every worker of a journal; default: postgres"
    )
    parser.add_argument("--engine", metavar="ADDRESS", help=about)


def add_grace(parser: argparse.ArgumentParser, default: float | None = 60.0) -> None:
    """Add `--grace` of a process that drives turns; `default` is its value if it is not given."""
    about = "how long to wait for writing tools after SIGTERM; default: 60"
    parser.add_argument("--grace", type=float, default=default, metavar="SECONDS", help=about)


def check_grace(grace: float) -> None:
    """Raise ConfigurationError if `--grace` is not between 0 and a day."""
    check_value("--grace", grace, Annotated[float, between(0, 86_400)])


def add_otel(parser: argparse.ArgumentParser) -> None:
    """Add `--otel` of a process that drives turns."""
    about = (
        "send traces and metrics by OTLP over HTTP; the standard variables say where, such as "
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    parser.add_argument("--otel", action="store_true", help=about)


def observe_agents(args: argparse.Namespace, agents: list[AnyAgent]) -> list[AnyAgent]:
    """Return the agents with the observer that `--otel` asks for. Raises ConfigurationError."""
    if not args.otel:
        return agents
    try:
        from holdfast.telemetry.open_telemetry import make_exporting_observer  # needs an extra
    except ModuleNotFoundError as error:
        fix = (
            "pip install 'holdfast[otel]' opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        )
        raise ConfigurationError("--otel", f"needs {error.name}", fix=fix) from error
    from holdfast.hosting.bound_agents import observe_agent

    observer = make_exporting_observer()
    return [observe_agent(agent, [observer]) for agent in agents]


def add_drain(parser: argparse.ArgumentParser) -> None:
    """Add `--drain` of a process that serves people."""
    about = (
        "how long to serve, after SIGTERM and before --grace, the requests whose client cannot come"
        " back for the answer; default: 30"
    )
    parser.add_argument("--drain", type=float, metavar="SECONDS", help=about)


def build_chat_agent(args: argparse.Namespace) -> Agent[str]:
    """Build the agent of `run` and `chat`. With a journal, it saves the conversation and its open questions."""
    if args.agent:
        _refuse_model_options(args)
    if not args.journal:
        if args.tenant is not None:
            raise ConfigurationError("--tenant", "is given without a journal", fix="Add --journal")
        return _load_agent(args) if args.agent else build_agent(args)
    try:
        journal = open_journal(to_address(args.journal)).for_tenant(args.tenant or DEFAULT_TENANT)
    except ConfigurationError as error:
        raise _translate_error(error) from error
    if args.agent:
        return _load_agent(args, journal=journal, on_wait="suspend")
    return build_agent(args, journal)


def _load_agent(args: argparse.Namespace, **keywords: Any) -> Agent[str]:
    from holdfast.agent import Agent
    from holdfast.agent_file.load_agent import load_agent

    return load_agent(args.agent, partial(Agent, **keywords))


def _refuse_model_options(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect beside the file of an agent."""
    for option in ("model", "base_url", "profile", "instructions", "max_retries"):
        if getattr(args, option) is not None:
            name = f"--{option.replace('_', '-')}"
            problem = "has no effect with --agent"
            raise ConfigurationError(name, problem, fix=f"Write it into {args.agent}")


def build_agent(args: argparse.Namespace, journal: Journal | None = None) -> Agent[str]:
    """Build an agent without a file. Raises ConfigurationError that names the option or variable.

    Args:
        args: the arguments.
        journal: saves the conversations and their open questions.
    """
    from holdfast.agent import Agent
    from holdfast.resilience.retry.options import RetryOptions

    model = find_model(args)
    if not model:
        raise ConfigurationError(
            "--model",
            "is missing",
            fix=f'Pass --model "openai:gpt-5.2" or set {MODEL_VARIABLE}',
        )
    try:
        return Agent(
            model,
            instructions=args.instructions or "",
            base_url=args.base_url,
            profile=parse_profile(args.profile or ()),
            retry=RetryOptions(max_retries=3 if args.max_retries is None else args.max_retries),
            journal=journal,
            on_wait="hold" if journal is None else "suspend",
        )
    except ConfigurationError as error:
        raise _translate_error(error) from error


def parse_profile(options: Sequence[str]) -> ProfileChanges | None:
    """Return the fields that `--profile FIELD=VALUE` gives; None if there are none.

    A value is written as in TOML, but a text needs no quotes.

    Raises:
        ConfigurationError: an option has no `=`.

    >>> parse_profile(["system_role=system", "stream_usage=false", 'state_fields=["a", "b"]'])
    {'system_role': 'system', 'stream_usage': False, 'state_fields': ['a', 'b']}
    """
    if not options:
        return None
    import tomllib  # only for those who give a profile

    fields: dict[str, object] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            problem = f"{shorten(option, 60)!r} is not a field and a value"
            raise ConfigurationError("--profile", problem, fix="Write --profile system_role=system")
        try:
            fields[name.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            fields[name.strip()] = text.strip()
    # The agent checks the names and the values.
    return cast("ProfileChanges", fields)


def _translate_error(error: ConfigurationError) -> ConfigurationError:
    """Translate an error of the library to the name of the option or variable."""
    name, _, field = error.argument.partition(".")
    if name == "profile":
        return ConfigurationError(f"--profile {field}".rstrip(), error.problem, fix=error.fix)
    if (option := _OPTIONS.get(error.argument)) is not None:
        return ConfigurationError(option, error.problem, fix=error.fix)
    if error.argument.isupper():
        return ConfigurationError(
            error.argument, error.problem, fix=f"Set it: export {error.argument}=..."
        )
    return error


def name_user() -> str:
    """Return who uses the command line, for saved acts: such as "cli:ann"."""
    try:
        return f"cli:{getpass.getuser()}"
    except (ImportError, KeyError, OSError):  # a container may run as a number without a name
        return "cli"


@contextmanager
def name_options(options: Mapping[str, str]) -> Iterator[None]:
    """Give an error about an argument the name of the option that the user wrote."""
    try:
        yield
    except ConfigurationError as error:
        name = options.get(error.argument, error.argument)
        raise ConfigurationError(name, error.problem, fix=error.fix) from error
