"""The chat as plain text, for the clipboard. It is pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from adh.transcript.blocks import AnswerBlock, Block, PersonBlock, ToolBlock


class ChatText(Struct, frozen=True):
    """A chat as text.

    Args:
        text: all of it.
        count: how many messages it has: those of the person and of agents.
        sent: the messages of the person, oldest first.
    """

    text: str
    count: int
    sent: list[str]


def describe_block(block: Block) -> str:
    """Return one block as text.

    >>> describe_block(PersonBlock(id="1", text="Hello"))
    'You: Hello'
    """
    if isinstance(block, PersonBlock):
        return f"You: {block.text}"
    if isinstance(block, AnswerBlock):
        mark = " (not finished)" if block.state == "unfinished" else ""
        return f"{block.agent or 'Agent'}{mark}: {block.text}"
    if isinstance(block, ToolBlock):
        parts = (block.header, block.result, block.error)
        return "\n".join(part for part in parts if part)
    return block.text


def collect_chat(blocks: Sequence[Block]) -> ChatText:
    """Return a chat as text."""
    messages = [block for block in blocks if isinstance(block, PersonBlock | AnswerBlock)]
    return ChatText(
        text="\n\n".join(describe_block(block) for block in blocks),
        count=len(messages),
        sent=[block.text for block in messages if isinstance(block, PersonBlock)],
    )
