"""The arguments that several commands have, and the agent that those of `run` and `chat` describe.

An API key is never an argument: every user of a machine can read the arguments of a process.
"""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from holdfast.cli.run_printer import shorten
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_names import DEFAULT_TENANT, resolve_path
from holdfast.journal.url import open_journal, sqlite_path

if TYPE_CHECKING:
    from holdfast.agent import Agent
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
    """Add `--model`, `--base-url`, `--instructions` and `--max-retries`."""
    sub.add_argument(
        "--model",
        help=f'"provider:model", for example openai:gpt-5.2; default: ${MODEL_VARIABLE}',
    )
    sub.add_argument("--base-url", metavar="URL", help="base URL of the provider's API")
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
    from holdfast.cli.schema_file import read_schema_type  # loads pydantic

    return read_schema_type(args.schema)


def find_model(args: argparse.Namespace) -> str | None:
    """Return the model of `--model` or of the environment."""
    return args.model or os.environ.get(MODEL_VARIABLE)


def keeps_questions_open(args: argparse.Namespace) -> bool:
    """Whether a question that nobody answers now can be answered by a later program."""
    from holdfast.agent_file.toml_source import read_agent_file

    if args.journal or not args.agent:
        return bool(args.journal)
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


def add_grace(parser: argparse.ArgumentParser) -> None:
    """Add `--grace` of a process that drives turns."""
    about = "how long to wait for writing tools after SIGTERM; default: 60"
    parser.add_argument("--grace", type=float, default=60.0, metavar="SECONDS", help=about)


def check_grace(grace: float) -> None:
    """Raise ConfigurationError if `--grace` is not between 0 and a day."""
    check_value("--grace", grace, Annotated[float, between(0, 86_400)])


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
    """Refuse what would have no effect beside the file of an agent."""
    for option in ("model", "base_url", "instructions", "max_retries"):
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
            retry=RetryOptions(max_retries=3 if args.max_retries is None else args.max_retries),
            journal=journal,
            on_wait="hold" if journal is None else "suspend",
        )
    except ConfigurationError as error:
        raise _translate_error(error) from error


def _translate_error(error: ConfigurationError) -> ConfigurationError:
    """Translate an error of the library to the name of the option or variable."""
    if (option := _OPTIONS.get(error.argument)) is not None:
        return ConfigurationError(option, error.problem, fix=error.fix)
    if error.argument.isupper():
        return ConfigurationError(
            error.argument, error.problem, fix=f"Set it: export {error.argument}=..."
        )
    return error


def name_user() -> str:
    """Return who uses the command line, for what is saved: such as "cli:ann"."""
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
