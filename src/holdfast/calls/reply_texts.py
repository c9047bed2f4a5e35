"""The texts of one whole response of any kind: an SDK's object, a dictionary, our own `Reply`, a string.

All output items are looked at: the first may be reasoning or a call of a tool. This module must
never give the text of a reply that was declined, blocked or cut, or that is an error.
"""

from __future__ import annotations

from holdfast.calls.object_fold import ObjectFold
from holdfast.calls.object_json import to_json_object
from holdfast.codecs.reply_checks import Evidence, error_for_reply
from holdfast.core.errors import (
    EmptyResponseError,
    HoldfastError,
    NoTextError,
    ResponseValidationError,
    UnexpectedTypeError,
)
from holdfast.core.messages import Reply, Text


def read_texts(response: object, *, output_text_first: bool = False) -> tuple[str, ...]:
    """The texts of a response that hold anything, and behind them all of them together.

    Args:
        response: what the call gave.
        output_text_first: the field `output_text` goes before the output items; without it, it is
            read when the items have no text.

    Raises:
        HoldfastError: there is no text that may be read, and why.

    >>> item = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    >>> read_texts({"output": [{"type": "reasoning", "summary": []}, item]})
    ('Hi',)
    """
    if isinstance(response, str):
        return _require_text((response,), None)
    if isinstance(response, Reply):
        return _require_text(_reply_texts(response), error_for_reply(response, Evidence()))
    if not response:
        raise UnexpectedTypeError("response object", "None")
    fold = ObjectFold()
    fold.read_whole(response)
    judged = fold.finish()
    error: HoldfastError | None = judged.error
    if not fold.wire:
        error = UnexpectedTypeError("response object", type(response).__name__)
    beside = (to_json_object(response) or {}).get("output_text")
    told = (beside,) if isinstance(beside, str) and beside.strip() else ()
    items = _reply_texts(judged.reply)
    first, second = (told, items) if output_text_first else (items, told)
    return _require_text(first or second, error)


def _reply_texts(reply: Reply) -> tuple[str, ...]:
    pieces = [part.text for part in reply.parts if isinstance(part, Text)]
    texts = tuple(text for text in pieces if text.strip())
    return texts if len(texts) < 2 else (*texts, "".join(pieces))


def _require_text(texts: tuple[str, ...], error: HoldfastError | None) -> tuple[str, ...]:
    """The texts, unless the error is about more than that there is none."""
    if error is not None and not isinstance(error, EmptyResponseError | ResponseValidationError):
        raise error
    if any(text.strip() for text in texts):
        return texts
    raise error or NoTextError("no text in response")
