"""Shows the notices of tools and of the approval in the transcript."""

from __future__ import annotations

from adh.approval.notices import AuditBroken, CallJudged
from adh.rules.levels import Level
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
    if isinstance(notice, CallJudged):
        return transcript.judge(place, level=notice.level, risk=notice.risk, rule=notice.rule)
    if isinstance(notice, AuditBroken):
        transcript.note(f"Nothing runs but automatic reads: {notice.problem}")
    return transcript.take_changed()


def describe_notice(item: Item) -> str:
    """Return the line that a person reads for a few seconds; empty if the item needs none."""
    notice = item.item if isinstance(item, FromAgent) else item
    if not isinstance(notice, CallJudged) or notice.level != Level.NOTIFY.word:
        return ""
    rule = f" · {notice.rule}" if notice.rule else ""
    return f"ℹ️ {notice.tool} runs{rule}" if notice.outcome == "runs" else ""  # noqa: RUF001  # REASON: a sign
