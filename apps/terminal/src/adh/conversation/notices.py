"""Shows the notices of tools and of the approval in the transcript."""

from __future__ import annotations

from adh.storage.tool_notices import ToolOutput
from adh.transcript.fold import Item, Transcript, place_of
from holdfast.events import CustomNotice, FromAgent


def apply_item(transcript: Transcript, item: Item, at: float) -> tuple[str, ...]:
    """Apply an item of a turn to a transcript; return the ids of the changed blocks.

    Args:
        transcript: what the person sees.
        item: an event, a notice or a question.
        at: when it came, in seconds of a clock that never jumps.
    """
    chain: tuple[str, ...] = ()
    notice: object = item
    if isinstance(item, FromAgent):
        chain, notice = (item.key, *item.chain), item.item
    if not isinstance(notice, CustomNotice):
        return transcript.apply(item, at)
    place = place_of(notice.key, chain)
    if isinstance(notice, ToolOutput):
        return transcript.add_output(place, notice.stream, notice.text)
    return ()
