"""The scripted model: several calls at once, and errors for wrong scripts."""

from collections.abc import Callable

import pytest

from holdfast import Agent, ConfigurationError, tool
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call
from holdfast.testing.scripted import ScriptLine

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


CALLS = [call("look", {"place": "here"}, id="1"), call("look", {"place": "there"}, id="2")]


@pytest.mark.parametrize("calls", [CALLS, tuple(CALLS), lambda _: CALLS, lambda _: tuple(CALLS)])
async def test_several_calls_are_a_list_as_for_the_emulator(
    calls: list[ToolCall] | Callable[[ModelRequest], list[ToolCall]],
) -> None:
    result = await Agent(ScriptedModel(calls, "Nothing."), tools=[look]).run("Look.")
    assert len(result.messages[2].parts) == 2


async def test_a_script_that_is_over_says_so_and_what_to_do() -> None:
    agent = Agent(ScriptedModel(call("look", {"place": "here"}, id="1")), tools=[look])
    with pytest.raises(ConfigurationError) as raised:
        await agent.run("Look.")
    assert str(raised.value) == (
        "script: scripted:model has no line left for t1.i1.model, attempt 1. "
        "Add a line: each attempt uses one"
    )


_WANTED = "must be a text, ToolCall, a list, Reply or HoldfastError"


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (None, f": {_WANTED}; got NoneType"),
        ({"text": "Hi"}, f": {_WANTED}; got dict"),
        ([], ": must be a list that is not empty, got []"),
        (["Hi", 1], "[0]: must be ToolCall, got str"),
    ],
)
async def test_the_reply_of_a_function_is_checked(answer: object, got: str) -> None:
    def line(_: ModelRequest) -> object:
        return answer

    with pytest.raises(ConfigurationError) as raised:
        await Agent(ScriptedModel(line)).run("Hi")  # type: ignore[arg-type]  # REASON: it is wrong
    assert str(raised.value) == (f"what a function of the script returned{got}")


def test_an_empty_list_of_calls_is_refused() -> None:
    empty: list[ScriptLine] = [()]
    with pytest.raises(
        ConfigurationError, match=r"script\[0\]: must be a list that is not empty, got \(\)$"
    ):
        ScriptedModel(*empty)


@pytest.mark.parametrize("text", ["Hello", "Hello there,  Ana.\n\n  - one\n", " a ", "  "])
async def test_the_streamed_words_add_up_to_the_text(text: str) -> None:
    async with Agent(ScriptedModel(text)).stream("Hi") as run:
        shown = [piece async for piece in run.text(live=True)]
    assert "".join(shown) == run.result.text == text


async def test_a_scripted_text_is_streamed_word_by_word() -> None:
    async with Agent(ScriptedModel("one two three")).stream("Hi") as run:
        assert [piece async for piece in run.text(live=True)] == ["one", " two", " three"]
