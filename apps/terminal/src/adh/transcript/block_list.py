"""The blocks of a transcript in their order, found by id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from adh.transcript.blocks import Block

B = TypeVar("B", bound=Block)


class BlockList:
    """The blocks, in order. It remembers which of them changed since `take_changed`."""

    __slots__ = ("_blocks", "_by_id", "_changed")

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._by_id: dict[str, Block] = {}
        self._changed: dict[str, None] = {}

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, in order."""
        return self._blocks

    def add(self, block: B) -> B:
        """Add a block at the end; a block with this id is replaced where it stands."""
        if block.id in self._by_id:
            old = self._by_id[block.id]
            self._blocks[self._blocks.index(old)] = block
        else:
            self._blocks.append(block)
        self._by_id[block.id] = block
        self.mark(block)
        return block

    def remove(self, block: Block) -> None:
        """Remove a block: its text is void."""
        if self._by_id.pop(block.id, None) is not None:
            self._blocks.remove(block)
            self.mark(block)

    def find(self, block_id: str) -> Block | None:
        """Return the block with this id."""
        return self._by_id.get(block_id)

    def mark(self, *blocks: Block) -> None:
        """Remember that blocks have changed."""
        self._changed.update(dict.fromkeys(block.id for block in blocks))

    def take_changed(self) -> tuple[str, ...]:
        """Return the ids of the blocks that changed since the last call, in the order of the changes."""
        changed, self._changed = tuple(self._changed), {}
        return changed

    def newest(self) -> Iterable[Block]:
        """Yield the blocks, the newest first."""
        return reversed(self._blocks)
