"""Hostile or merely large inputs, each as a function of its size, for `tests.linear`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from tempfile import TemporaryDirectory

PROSE = (
    "The ",
    "train ",
    "leaves ",
    "at ",
    "noon, ",
    "and ",
    "the ",
    "boat ",
    "a ",
    "bit ",
    "later. ",
)


def stream_through_pii_protection(pieces: list[str]) -> str:
    """Feed pieces to the filter of streamed text, as `PIIProtection(on_output=True)` does."""
    from holdfast.middleware.pii import DEFAULTS
    from holdfast.middleware.pii_protection import MaskedText

    masked = MaskedText(DEFAULTS, lambda kind: f"[{kind}]")
    return "".join([*(masked.feed(piece) for piece in pieces), masked.flush()])


def stream_prose(size: int) -> None:
    stream_through_pii_protection([PROSE[at % len(PROSE)] for at in range(size)])


def stream_digits(size: int) -> None:
    stream_through_pii_protection([str(at % 10_000).zfill(4) for at in range(size)])


def stream_digits_and_spaces(size: int) -> None:
    stream_through_pii_protection([f"{at % 1000:03} " for at in range(size)])


def stream_one_long_word(size: int) -> None:
    stream_through_pii_protection(["word" for _ in range(size)])


def stream_one_digit_at_a_time(size: int) -> None:
    stream_through_pii_protection(["7-", ". "] * (size // 2))


def parse(text: str) -> None:
    from holdfast.core.model_request import OutputSchema
    from holdfast.core.output import Invalid, ParseResult
    from holdfast.core.output_parser import parse_output
    from holdfast.core.problems import Problem
    from holdfast.core.schema_checks.schema_limits import StepBudget

    class Anything:
        schema = OutputSchema("any", {})

        def check(
            self, json_text: str, steps: StepBudget, now: float | None = None
        ) -> ParseResult:  # REASON: any type fits
            return Invalid((Problem("", "no"),))

    parse_output(text, Anything())
    parse_output(text, Anything(), lenient=True)


def parser_of(pattern: str) -> Callable[[int], None]:
    return lambda size: parse((pattern * size)[: 10 * size] if size else "")


FENCES = {
    "fences": "```\n",
    "fences with an open list": "```json\n[1,\n",
    "fences with values": "```json\n[1]\n```\n",
    "backticks": "`",
    "broken values": '{"a" [1] ',
    "quotes": '["',
}


def ask_at_once(size: int) -> None:
    """One tool asks many questions at once, and each is answered."""
    from holdfast import Agent, tool
    from holdfast.core.messages import ToolCall
    from holdfast.core.questions import AnyQuestion, ClarificationQuestion
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
    from holdfast.testing import ScriptedModel
    from holdfast.tools.context import ToolContext

    async def look(context: ToolContext) -> str:
        asked = (ClarificationQuestion(question=f"Which {at}?") for at in range(size))
        answers = await asyncio.gather(*map(context.ask, asked))
        return f"{len(answers)} answers"

    async def answer(question: AnyQuestion) -> str:
        return "this one"

    model = ScriptedModel(ToolCall("1", "look"), "done")
    with TemporaryDirectory() as folder, SqliteJournal(f"{folder}/journal.db") as journal:
        agent = Agent(model, tools=[tool(look)], on_question=answer, journal=journal)
        messages = asyncio.run(agent.run("go")).messages
    assert f"{size} answers" in repr(messages)


def consume(text: str) -> None:
    assert isinstance(text, str)


def redact_repeated(pattern: str) -> Callable[[int], None]:
    from holdfast.core.redaction import redact

    return lambda size: consume(redact((pattern * size)[:size]))


def remove_secrets_from(pattern: str) -> Callable[[int], None]:
    from holdfast.core.secret_values import SecretValues

    secrets = SecretValues(["0123456789abcdef0123"])
    return lambda size: consume(secrets.remove_from((pattern * size)[:size]))


WORKLOADS: dict[str, Callable[[int], None]] = {
    "prose": stream_prose,
    "digits": stream_digits,
    "digits and spaces": stream_digits_and_spaces,
    "one long word": stream_one_long_word,
    "digits and marks": stream_one_digit_at_a_time,
    **{name: parser_of(pattern) for name, pattern in FENCES.items()},
    "questions": ask_at_once,
    "redact assignments": redact_repeated("password="),
    "redact addresses": redact_repeated("://a:"),
    "redact quotes": redact_repeated("token='"),
    "remove escapes": remove_secrets_from("\\\\%25"),
    "remove half a secret": remove_secrets_from("0123456789a"),
}
