"""The arguments of `run` and `chat`, and the agent that they describe.

A key is never an argument, since every user of a machine can read the arguments of a program.
"""

from __future__ import annotations

import argparse
import os
from functools import partial

from holdfast.agent import Agent
from holdfast.agent_file import load_agent
from holdfast.core.errors import ConfigurationError
from holdfast.journal.port import Journal
from holdfast.journal.url import open_journal
from holdfast.resilience.retry.options import RetryOptions

MODEL_VARIABLE = "HOLDFAST_MODEL"

_OPTIONS = {
    "model": "--model",
    "provider": "--model",
    "base_url": "--base-url",
    "retry.max_retries": "--max-retries",
    "journal": "--journal",
}
"""What the library calls an argument -> what the terminal calls it."""


def add_model_arguments(sub: argparse.ArgumentParser) -> None:
    """`--model`, `--base-url`, `--instructions` and `--max-retries`."""
    sub.add_argument(
        "--model",
        default=os.environ.get(MODEL_VARIABLE),
        help=f'"provider:model", such as openai:gpt-5.2; default: ${MODEL_VARIABLE}',
    )
    sub.add_argument("--base-url", metavar="URL", help="another address of the provider")
    sub.add_argument("--instructions", default="", metavar="TEXT", help="the system prompt")
    sub.add_argument(
        "--max-retries",
        type=int,
        default=3,
        metavar="N",
        help="attempts after the first one that fails; default: 3",
    )


def add_conversation_arguments(sub: argparse.ArgumentParser) -> None:
    """`--agent`, `--journal` and `--session`."""
    sub.add_argument(
        "--agent",
        metavar="FILE",
        help="the TOML file of an agent, with its tools; in place of --model and what belongs to it",
    )
    sub.add_argument(
        "--journal",
        metavar="ADDRESS",
        help="keep the conversation: sqlite:///talk.db or postgresql://...; default: forget it",
    )
    sub.add_argument(
        "--session", default="chat", metavar="NAME", help="which conversation; default: chat"
    )


def build_chat_agent(given: argparse.Namespace) -> Agent[str]:
    """The agent of these arguments, which keeps what is said and waits for people if need be."""
    if not given.journal:
        return load_agent(given.agent, Agent) if given.agent else build_agent(given)
    try:
        journal = open_journal(given.journal)
    except ConfigurationError as error:
        raise _translate_error(error) from error
    if given.agent:
        return load_agent(given.agent, partial(Agent, journal=journal, on_wait="suspend"))
    return build_agent(given, journal)


def build_agent(given: argparse.Namespace, journal: Journal | None = None) -> Agent[str]:
    """The agent of these arguments. Raises ConfigurationError that names the option or variable.

    Args:
        given: the arguments.
        journal: where its conversations are kept, and wait for people if need be.
    """
    if not given.model:
        raise ConfigurationError(
            "--model",
            "no model is named",
            fix=f'Pass --model "openai:gpt-5.2" or set {MODEL_VARIABLE}',
        )
    try:
        return Agent(
            given.model,
            instructions=given.instructions,
            base_url=given.base_url,
            retry=RetryOptions(max_retries=given.max_retries),
            journal=journal,
            on_wait="hold" if journal is None else "suspend",
        )
    except ConfigurationError as error:
        raise _translate_error(error) from error


def _translate_error(error: ConfigurationError) -> ConfigurationError:
    """The same error in the words of somebody who types options."""
    if (option := _OPTIONS.get(error.argument)) is not None:
        return ConfigurationError(option, error.problem, fix=error.fix)
    if error.argument.isupper():
        return ConfigurationError(
            error.argument, error.problem, fix=f"Set it: export {error.argument}=..."
        )
    return error
