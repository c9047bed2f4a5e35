"""The arguments that `run` and `chat` share, and the agent that they describe."""

from __future__ import annotations

import argparse
import os

from holdfast.agent import Agent
from holdfast.core.errors import ConfigurationError

MODEL_VARIABLE = "HOLDFAST_MODEL"


def add_model_arguments(sub: argparse.ArgumentParser) -> None:
    """`--model`, `--base-url` and `--instructions`."""
    sub.add_argument(
        "--model",
        default=os.environ.get(MODEL_VARIABLE),
        help=f'"provider:model", such as openai:gpt-5.2; default: ${MODEL_VARIABLE}',
    )
    sub.add_argument("--base-url", help="another address of the provider")
    sub.add_argument("--instructions", default="", help="the system prompt")


def agent_from(given: argparse.Namespace) -> Agent[str]:
    """The agent of these arguments. Raises ConfigurationError that says what to set."""
    if not given.model:
        raise ConfigurationError(
            "--model",
            "no model is named",
            fix=f'Pass --model "openai:gpt-5.2" or set {MODEL_VARIABLE}',
        )
    return Agent(given.model, instructions=given.instructions, base_url=given.base_url)
