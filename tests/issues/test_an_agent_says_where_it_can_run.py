"""Under trio, an agent failed with "no running event loop" and left coroutines that were never awaited.

An agent that was pickled, and a packed program without its modules, did not say what to do either.
"""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import warnings
from collections.abc import Callable, Coroutine

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.core.import_part import import_part
from holdfast.core.questions import Answer
from holdfast.journal.memory import MemoryJournal
from holdfast.testing import ScriptedModel


def make_agent() -> Agent[str]:
    return Agent(ScriptedModel("hi"), journal=MemoryJournal())


async def stream(agent: Agent[str]) -> None:
    async with agent.stream("go"):
        pass


async def resume_stream(agent: Agent[str]) -> None:
    async with agent.resume_stream("r"):
        pass


@pytest.mark.parametrize(
    "start",
    [
        lambda agent: agent.run("go"),
        lambda agent: agent.run("go", session="ada"),
        lambda agent: agent.resume("r"),
        lambda agent: agent.recover(),
        lambda agent: agent.questions("r"),
        lambda agent: agent.abandon("r"),
        lambda agent: agent.answer("r", Answer("t1.i0.tool.0.ask.0", "yes", "b")),
        stream,
        resume_stream,
    ],
)
def test_another_event_loop_is_told_that_asyncio_is_needed(
    start: Callable[[Agent[str]], Coroutine[object, object, object]],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that was never awaited
        work = start(make_agent())
        with pytest.raises(ConfigurationError, match="asyncio"):
            work.send(None)  # what any event loop does
        del work
        gc.collect()


def test_an_agent_cannot_be_pickled_and_says_so() -> None:
    with pytest.raises(TypeError, match="Build it in each process"):
        pickle.dumps(make_agent())


def test_a_copy_of_an_agent_is_the_agent() -> None:
    agent = make_agent()
    assert copy.copy(agent) is copy.deepcopy(agent) is agent


def test_a_missing_part_names_the_option_of_the_packer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.codecs.gemini.codec", None)
    with pytest.raises(ModuleNotFoundError, match="--collect-submodules holdfast"):
        import_part("holdfast.codecs.gemini.codec")


@pytest.mark.parametrize(
    ("place", "fix"),
    [
        (
            "/opt/holdfast/src/holdfast/core/import_part.py",
            "In the checkout: pip install '.[server]'",
        ),
        ("/lib/site-packages/holdfast/core/import_part.py", "pip install 'holdfast[server]'"),
        (
            "C:\\holdfast\\src\\holdfast\\core\\import_part.py",
            "In the checkout: pip install '.[server]'",
        ),
    ],
)
def test_a_missing_extra_names_the_command_that_installs_it(
    place: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.import_part.__file__", place)
    monkeypatch.delitem(sys.modules, "holdfast.server.app", raising=False)
    for name in ("starlette", "starlette.applications", "starlette.routing"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        import_part("holdfast.server.app")
    assert str(caught.value).startswith("holdfast.server.app needs starlette")
    assert str(caught.value).endswith(fix)
    assert "\n" not in str(caught.value)
