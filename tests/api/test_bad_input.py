"""Whatever is given to a public entry point: it is taken, or refused by name at once."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, Limits, ModelSettings
from holdfast.resilience.clock import Clock
from holdfast.runtime.clock import SystemClock
from holdfast.testing import ScriptedModel

ODD: list[Any] = [
    *(None, 0, -1, 1.5, math.nan, math.inf, "", "x", b"x", [], {}, {"a": 1}, object(), True),
    *([1], [None], ["x"], ("a",), print, SystemClock),
]
KEYWORDS = [name for name in inspect.signature(Agent).parameters if name not in ("model", "output")]


def refused(kind: Any, keywords: dict[str, Any]) -> str:
    """What is said against it; "" when it is taken."""
    try:
        kind(**keywords)
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_of_the_agent_takes_a_value_or_refuses_it(keyword: str) -> None:
    said = [refused(Agent, {"model": "ollama:m", keyword: value}) for value in ODD]
    assert any(said)
    assert all(not one or keyword.removesuffix("s") in one for one in said), said


@pytest.mark.parametrize("model", ODD)
def test_only_a_model_is_a_model(model: object) -> None:
    assert refused(Agent, {"model": model}).startswith("model")


@pytest.mark.parametrize("kind", [Limits, ModelSettings])
def test_a_field_of_a_record_takes_a_value_or_refuses_it(kind: Any) -> None:
    for field in kind.__struct_fields__:
        said = [refused(kind, {field: value}) for value in ODD]
        assert any(said), field
        assert all(not one or field in one for one in said), said


@pytest.mark.parametrize("keyword", ["session", "history", "limits", "prompt"])
async def test_an_argument_of_a_turn_is_refused_before_the_turn_begins(keyword: str) -> None:
    model = ScriptedModel("Hi")
    agent = Agent(model)
    given: dict[str, Any] = {"prompt": "Hello"}
    wrong = {
        "session": [0, "", " ", b"x", ["a"], True],
        "history": ["x", 5, [1], ["x"], {"a": 1}, object()],
        "limits": [0, "x", {}, {"iterations": 1}, object()],
        "prompt": [None, 0, "", " ", [], [1], {}, {"a": 1}, b"x", object()],
    }
    for value in wrong[keyword]:
        with pytest.raises(ConfigurationError, match=keyword):
            await agent.run(**{**given, keyword: value})
    assert not model.requests


def test_the_class_of_a_clock_is_no_clock() -> None:
    wrong: type[Clock] = SystemClock
    said = refused(Agent, {"model": ScriptedModel("Hi"), "clock": wrong})
    assert said == (
        "clock: must be an object with now, monotonic, sleep; got the class SystemClock"
    )
