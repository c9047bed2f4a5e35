"""GLOSSARY.md defines the words that public names are made of."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import holdfast

GLOSSARY = Path(__file__).parents[2] / "GLOSSARY.md"
ORDINARY = {
    *("at", "bug", "builder", "chunk", "consecutive", "data", "executor", "formatting", "from"),
    *("function", "holdfast", "logging", "max", "memory", "no", "on", "pii", "postgres"),
    *("protection", "reduction", "rewound", "sqlite", "total", "tracking", "unknown"),
}
"""Words that a public class uses in their everyday meaning."""


def defined_terms() -> list[str]:
    rows = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def is_noun_of_the_face(value: object) -> bool:
    return inspect.isclass(value) and not issubclass(value, BaseException)


def nouns_of(name: str) -> list[str]:
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)
    # A participle in a name says what happened: `ToolStarted`.
    return [word.lower() for word in words if not word.endswith("ed")]


def test_every_noun_of_a_public_class_is_defined() -> None:
    text = " ".join(defined_terms()).lower()
    public = [name for name in holdfast.__all__ if is_noun_of_the_face(getattr(holdfast, name))]
    assert public
    missing = {
        name: word
        for name in public
        for word in nouns_of(name)
        if word not in ORDINARY and not re.search(rf"\b{word.removesuffix('s')}", text)
    }
    assert missing == {}, "define these words in GLOSSARY.md"


def test_run_and_turn_come_first_and_no_term_is_defined_twice() -> None:
    terms = [term for term in defined_terms() if term not in ("word", "---")]
    assert terms[:3] == ["turn", "run", "run id"]
    assert sorted(terms) == sorted(set(terms))
