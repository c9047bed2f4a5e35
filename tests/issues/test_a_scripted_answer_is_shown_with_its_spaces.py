"""The words of a scripted model were streamed without the spaces between them.

Its text was split at each space, and the spaces were left out. What a stream showed did not add up to
the answer, so that a test of a user interface saw "HellothereAna." and passed where it should not.
"""

import pytest

from holdfast import Agent
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("text", ["Hello", "Hello there,  Ana.\n\n  - one\n", " a ", "  "])
async def test_what_is_shown_adds_up_to_the_text(text: str) -> None:
    async with Agent(ScriptedModel(text)).stream("Hi") as run:
        shown = [piece async for piece in run.text(live=True)]
    assert "".join(shown) == run.result.text == text


async def test_it_comes_word_by_word() -> None:
    async with Agent(ScriptedModel("one two three")).stream("Hi") as run:
        assert [piece async for piece in run.text(live=True)] == ["one", " two", " three"]
