"""What the agents of `test_agent_file.py` name by "module:name"."""

from __future__ import annotations

from dataclasses import dataclass

NUMBER = 5


@dataclass
class Trip:
    city: str


def weather(city: str) -> str:
    """Current weather in a city."""
    return f"sunny in {city}"


def never(error: BaseException, attempt: int) -> None:
    """A strategy that never tries again."""
