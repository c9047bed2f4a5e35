"""A reply that held only items kept as they came counted as empty, and was asked for again."""

from __future__ import annotations

from holdfast.codecs.assemble import Assembler
from holdfast.codecs.wire import Quirks
from holdfast.core.deltas import Ended, Finished, PartSeen
from holdfast.core.errors import NoTextError
from holdfast.core.messages import FinishReason, Opaque


def test_it_is_an_error_that_names_the_item_and_is_not_retried() -> None:
    assembler = Assembler(Quirks())
    item = Opaque("openai_responses", {"type": "shell_call", "action": {}})
    for delta in (PartSeen(item), Finished(FinishReason.STOP), Ended()):
        assembler.feed(delta)
    error = assembler.finish().error
    assert isinstance(error, NoTextError)
    assert "shell_call" in str(error)
    assert not error.info.category.retryable
    assert error.partial is not None
    assert error.partial.parts == (item,)
