"""What the agents of `test_agent_file.py` name by "module:name"."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import Middleware
from holdfast.middleware import RepetitionGuard, error_handling_middlewares
from holdfast.tools import Toolset

NUMBER = 5


@dataclass
class Trip:
    city: str


def weather(city: str) -> str:
    """Current weather in a city."""
    return f"sunny in {city}"


tea_tools = Toolset("tea", [weather]).prefixed("tea_")


def never(error: BaseException, attempt: int) -> None:
    """A strategy that never tries again."""


seen: list[object] = []
guard = RepetitionGuard()


def watch(observed: object) -> None:
    seen.append(observed)


async def nobody(request: object) -> None:
    """Leaves every question to others."""


class Polite(Middleware):
    """A middleware of one's own."""


POLITE = Polite()
SAFE = error_handling_middlewares()
