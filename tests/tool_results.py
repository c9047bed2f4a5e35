"""The texts of tool results, as tests compare them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast import Result
from holdfast.core.messages import Message, ToolResult
from holdfast.testing import ScriptedModel


def texts_of_results(messages: Iterable[Message]) -> list[str]:
    """Return the texts of all tool results, in order."""
    return [
        part.text for message in messages for part in message.parts if isinstance(part, ToolResult)
    ]


def results_in_request(model: ScriptedModel) -> list[str]:
    """Return the texts of the tool results in the last request to the model."""
    return texts_of_results(model.requests[-1].messages)


def results_in_history(result: Result[Any]) -> list[str]:
    """Return the texts of the tool results in the history of a turn."""
    return texts_of_results(result.history)
