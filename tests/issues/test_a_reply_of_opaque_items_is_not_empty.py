"""A reply that held only items that are stored unchanged counted as empty, and was requested again."""

from __future__ import annotations

from holdfast.codecs.assemble import Assembler
from holdfast.codecs.wire import Quirks
from holdfast.core.deltas import PartReceived, ReplyFinished, StreamEnded
from holdfast.core.errors import NoTextError
from holdfast.core.messages import FinishReason, Opaque


def test_it_is_an_error_that_names_the_item_and_is_not_retried() -> None:
    assembler = Assembler(Quirks())
    item = Opaque("openai_responses", {"type": "shell_call", "action": {}})
    for delta in (PartReceived(item), ReplyFinished(FinishReason.STOP), StreamEnded()):
        assembler.feed(delta)
    error = assembler.finish().error
    assert isinstance(error, NoTextError)
    assert "shell_call" in str(error)
    assert not error.info.category.is_retryable
    assert error.partial is not None
    assert error.partial.parts == (item,)
