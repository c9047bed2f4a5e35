"""Every row of every table decides something, and every regex matches a real sentence."""

import json
import re
from collections.abc import Sequence

from tests.codecs.anthropic.test_errors import CASES as ANTHROPIC_CASES
from tests.codecs.bodies import Case, failure
from tests.codecs.gemini.test_errors import CASES as GEMINI_CASES
from tests.codecs.openai_chat.test_errors import CASES as CHAT_CASES
from tests.codecs.openai_responses.test_errors import CASES as RESPONSES_CASES
from tests.codecs.preset_errors import CASES as PRESET_CASES

from holdfast.codecs import rules
from holdfast.codecs.anthropic.errors import RULES as ANTHROPIC
from holdfast.codecs.classify import ErrorRule, classify_by_rules
from holdfast.codecs.error_body import read_error_body
from holdfast.codecs.gemini.errors import RULES as GEMINI
from holdfast.codecs.openai_chat.errors import RULES as CHAT
from holdfast.codecs.openai_responses.errors import RULES as RESPONSES
from holdfast.codecs.wire import Failure
from holdfast.models.presets import PRESETS


def with_presets(wire: str, cases: list[Case]) -> list[Case]:
    return [*cases, *(case for case in PRESET_CASES if PRESETS[case[0]].wire == wire)]


TABLES: list[tuple[str, Sequence[ErrorRule], list[Case]]] = [
    ("openai_chat", CHAT, with_presets("openai_chat", CHAT_CASES)),
    ("openai_responses", RESPONSES, with_presets("openai_responses", RESPONSES_CASES)),
    ("anthropic", ANTHROPIC, with_presets("anthropic", ANTHROPIC_CASES)),
    ("gemini", GEMINI, with_presets("gemini", GEMINI_CASES)),
]
ALL_CASES = [case for _, _, cases in TABLES for case in cases]
ALL_RULES = list({id(row): row for _, table, _ in TABLES for row in table}.values())


def deciding(table: Sequence[ErrorRule], failure: Failure) -> ErrorRule:
    refusal = read_error_body(failure)
    return next(
        row
        for row in table
        if any(row.matches(failure.provider, refusal, promised) for promised in (True, False))
    )


def alternatives(pattern: str) -> list[str]:
    """The parts of a regex between its outermost bars."""
    parts, depth, in_set, current, index = [], 0, False, "", 0
    while index < len(pattern):
        size = 2 if pattern[index] == "\\" else 1
        piece = pattern[index : index + size]
        in_set = piece != "]" if in_set else piece == "["
        depth += 0 if in_set else (piece == "(") - (piece == ")")
        if piece == "|" and not depth and not in_set:
            parts.append(current)
            current = ""
        else:
            current += piece
        index += size
    return [*parts, current]


def test_every_row_decides_one_of_the_vendors_errors() -> None:
    decided = {
        id(deciding(table, failure(case)))
        for _, table, cases in TABLES
        for case in (*cases, *CHAT_CASES)
    }
    idle = [row for row in ALL_RULES if id(row) not in decided and row.text]
    assert not idle


def test_every_alternative_of_every_regex_matches_a_real_sentence() -> None:
    parts = {part for row in ALL_RULES if row.text for part in alternatives(row.text)}
    texts = [read_error_body(failure(case)).text for case in ALL_CASES]
    matched = {part for part in parts if any(map(re.compile(part).search, texts))}
    assert parts - matched == set()
    assert len(parts) > 100


def test_every_code_decides_by_itself() -> None:
    codes = [
        (wire, table, code, row)
        for wire, table, _ in TABLES
        for row in table
        if not row.text
        for code in sorted(row.codes)
    ]
    assert len(codes) > 500
    assert [(wire, code) for wire, table, code, row in codes if not decides(table, code, row)] == []


def decides(table: Sequence[ErrorRule], code: str, row: ErrorRule) -> bool:
    """Whether a body with nothing but the code gets the category of the row."""
    status = next(iter(row.statuses), None)
    body = json.dumps({"error": {"code": code.upper(), "message": "x"}}).encode()
    info = classify_by_rules(table, Failure(status=status or None, body=body))
    return info.category is row.category


def test_the_last_row_holds_for_everything() -> None:
    last = rules.SHARED[-1]
    assert last.matches("", read_error_body(Failure(status=799, body=b"\xff")), short_wait=False)
