"""Folds the text of one reply of the model into its block.

The cost of a piece of text must never depend on the length of the answer.
"""

from __future__ import annotations

from adh.transcript.block_list import BlockList
from adh.transcript.blocks import AnswerBlock
from adh.transcript.wording import (
    PREVIEW_LENGTH,
    THOUGHT_LENGTH,
    first_line_of_thought,
    preview_text,
)
from holdfast import Reply
from holdfast.middleware import escape_invisible
from holdfast.models import Reasoning, Refusal


class AnswerFold:
    """The text and the thought of the reply in progress.

    Args:
        blocks: the blocks of the transcript.
    """

    __slots__ = ("_beginning", "_block", "_blocks", "_key", "_rest", "_thought", "_turn", "_void")

    def __init__(self, blocks: BlockList) -> None:
        self._blocks = blocks
        self._block: AnswerBlock | None = None
        self._key = ""
        self._turn = 0
        self._beginning = ""
        self._thought = ""
        self._rest = ""
        """The end of the last piece, if the next one decides how it is escaped."""
        self._void = False
        """Whether the text so far counts no more as soon as other text comes."""

    @property
    def key(self) -> str:
        """The key of the reply in progress; empty between two replies."""
        return self._key

    def begin(self, key: str, turn: int) -> None:
        """Begin the reply with this key."""
        if key != self._key:
            self.leave()
            self._key, self._turn = key, turn

    def leave(self) -> None:
        """End the reply in progress without a word about it."""
        self._block, self._key = None, ""
        self._forget_preview()

    def add_text(self, text: str) -> str:
        """Add a piece of text; return the status line."""
        if self._void:
            self.forget()
        block = self._block
        if block is None:
            new = AnswerBlock(id=self._key or "answer", turn=self._turn)
            block = self._block = self._blocks.add(new)
        if len(self._beginning) <= PREVIEW_LENGTH:
            self._beginning += text[: PREVIEW_LENGTH + 1]
        whole = self._rest + text
        self._rest = "\r" if whole.endswith("\r") else ""
        shown = escape_invisible(whole.removesuffix(self._rest))
        if shown:
            block.pieces.append(shown)
            self._blocks.mark(block)
        return preview_text(self._beginning)

    def add_thought(self, text: str) -> str:
        """Add a piece of reasoning; return the first line so far."""
        if len(self._thought) < THOUGHT_LENGTH * 8:
            self._thought += text
        return first_line_of_thought(self._thought)

    def abandon(self) -> None:
        """Mark the text so far as not finished. It stays until other text comes."""
        self._void = True
        if self._block is not None:
            self._set_state("unfinished")

    def go_on(self) -> None:
        """Let the text so far count again: another attempt continues it."""
        self._void = False
        if self._block is not None:
            self._set_state("streaming")

    def forget(self) -> None:
        """Drop the text so far: it begins anew."""
        self._forget_preview()
        block = self._block
        if block is not None:
            block.pieces, block.version = [], block.version + 1
            self._set_state("streaming")

    def finish(self, key: str, turn: int, reply: Reply, *, unfinished: bool = False) -> None:
        """End the reply as it was saved: its text replaces the streamed one."""
        self.begin(key, turn)
        text = escape_invisible(reply.text or refusal_of(reply))
        block = self._block
        if not text.strip():
            if block is not None:
                self._blocks.remove(block)
            self.leave()
            return
        if block is None:
            block = self._block = self._blocks.add(AnswerBlock(id=key, turn=turn))
        if block.text != text:
            block.pieces, block.version = [text], block.version + 1
        block.thought = thought_of(reply)
        self._set_state("unfinished" if unfinished else "done")
        self.leave()

    def break_off(self) -> None:
        """End the reply in progress, whose text is not finished."""
        if self._block is not None:
            self._set_state("unfinished")
        self.leave()

    def _set_state(self, state: str) -> None:
        assert self._block is not None  # noqa: S101  # REASON: for the type checker; callers checked it
        self._block.state = state  # type: ignore[assignment]  # one of the words of the block
        self._blocks.mark(self._block)

    def _forget_preview(self) -> None:
        self._beginning = self._thought = self._rest = ""
        self._void = False


def thought_of(reply: Reply) -> str:
    """Return the first line of the reasoning of a reply; empty if there is none."""
    texts = (part.text for part in reply.parts if isinstance(part, Reasoning) and part.text.strip())
    return first_line_of_thought(next(texts, ""))


def refusal_of(reply: Reply) -> str:
    """Return the words with which the model declined; empty if it did not."""
    return "".join(part.text for part in reply.parts if isinstance(part, Refusal))
