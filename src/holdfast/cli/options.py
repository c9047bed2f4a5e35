"""The arguments that `run` and `chat` share, and the agent that they describe.

A key is never an argument, since every user of a machine can read the arguments of a program.
"""

from __future__ import annotations

import argparse
import os

from holdfast.agent import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.resilience.handling import ErrorHandling

MODEL_VARIABLE = "HOLDFAST_MODEL"

_OPTIONS = {
    "model": "--model",
    "provider": "--model",
    "base_url": "--base-url",
    "error_handling.max_retries": "--max-retries",
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


def agent_from(given: argparse.Namespace) -> Agent[str]:
    """The agent of these arguments. Raises ConfigurationError that names the option or variable."""
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
            error_handling=ErrorHandling(max_retries=given.max_retries),
        )
    except ConfigurationError as error:
        raise _for_a_terminal(error) from error


def _for_a_terminal(error: ConfigurationError) -> ConfigurationError:
    """The same error in the words of somebody who types options."""
    if (option := _OPTIONS.get(error.argument)) is not None:
        return ConfigurationError(option, error.problem, fix=error.fix)
    if error.argument.isupper():
        return ConfigurationError(
            error.argument, error.problem, fix=f"Set it: export {error.argument}=..."
        )
    return error
