"""Zero-width characters, tags and line separators were printed as they are, also in an approval."""

from __future__ import annotations

import io

from holdfast.cli.run_printer import RunPrinter, format_error, make_printable, shorten
from holdfast.cli.terminal_questions import format_question
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import ClarificationQuestion, PermissionQuestion

HIDDEN = "\u200b\u2028\U000e0041\x1b[8m\u202e"
SHOWN = r"\u200b\u2028\U000e0041\x1b[8m\u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_arguments_that_somebody_approves() -> None:
    lines = format_question(
        PermissionQuestion(tool="pay", arguments={"to": f"bob{HIDDEN}"}, description=f"Pay{HIDDEN}")
    )
    text = "\n".join(lines)
    assert r"bob\u200b\u2028\U000e0041\u001b[8m\u202e" in text
    assert f"Pay{SHOWN}" in lines
    assert not any(one in text for one in HIDDEN if one not in "[8m")


def test_other_questions() -> None:
    question = ClarificationQuestion(question=f"Where{HIDDEN}?", options=(f"a{HIDDEN}",))
    assert format_question(question) == [f"? Where{SHOWN}?", f"1: a{SHOWN}"]


def test_the_answer_in_a_terminal_and_everything_beside_it() -> None:
    answer, margin = Terminal(), Terminal()
    RunPrinter(answer, margin).print_item(TextDelta(f"Hi{HIDDEN}"))
    assert answer.getvalue().startswith(f"Hi{SHOWN}")
    assert make_printable(HIDDEN) == SHOWN
    assert shorten(f"a{HIDDEN}b") == f"a{SHOWN.replace(chr(92) + 'u2028', ' ')}b"
    assert SHOWN in format_error(ConfigurationError("name", HIDDEN))
