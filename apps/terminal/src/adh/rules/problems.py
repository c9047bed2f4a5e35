"""What is wrong with a file of rules, where, and how to put it right.

It must never hold a problem without a file and a fix.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from msgspec import Struct


class RuleProblem(Struct, frozen=True):
    """One thing that is wrong in a file.

    Args:
        file: the name of the file.
        line: the line, from 1.
        key: the path of keys to it, such as "commands.rm.priority"; empty for the file as a whole.
        problem: what is wrong.
        fix: what to write instead.
    """

    file: str
    line: int
    key: str
    problem: str
    fix: str

    def __str__(self) -> str:
        key = f" {self.key}:" if self.key else ""
        return f"{self.file}:{self.line}:{key} {self.problem}; {self.fix}"


class RulesError(Exception):
    """Files of rules cannot be used. Its text lists every problem, one a line.

    Args:
        problems: all of them, in the order of files and lines.
    """

    def __init__(self, problems: Sequence[RuleProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def suggest_word(word: str, known: Collection[str]) -> str:
    """Return a fix for an unknown word: the nearest known one, or all of them.

    Args:
        word: the unknown word.
        known: the words that would be right.

    >>> suggest_word("supervison", ["supervision", "risk"])
    'did you mean "supervision"?'
    >>> suggest_word("x", ["risk", "pattern"])
    'use one of: pattern, risk'
    """
    nearest = get_close_matches(word.lower(), sorted(known), n=1)
    if nearest:
        return f'did you mean "{nearest[0]}"?'
    return f"use one of: {', '.join(sorted(known))}"
