"""What an error says itself, and what it only quotes of the request."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast.codecs.quoted_texts import SentTexts, list_user_parts, names_subject
from holdfast.core.messages import Message, Text, ToolCall, ToolResult, user
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

ABOUT = re.compile("schema|response_format|tool|function")
OUTPUT = OutputSchema("Trip", {"type": "object", "properties": {"city": {"type": "string"}}})


def names(error: str, *sent: object) -> bool:
    return names_subject(ABOUT, error, lambda: SentTexts(*sent))


@pytest.mark.parametrize(
    "error",
    [
        "Bad content: 'Draw a schema of it'",
        'Bad content: "draw  a \\"schema\\" of"',
        "flagged: a schema of",
        "flagged near `schema of it`.",
        "DRAW A SCHEMA",
    ],
)
def test_words_around_show_that_a_word_is_quoted(error: str) -> None:
    assert not names(error, "Draw a schema of it, please.")
    assert names(error, "Draw a plan of it, please.")


@pytest.mark.parametrize("text", ["schema", "Schema?", "a schema", "json schema!"])
def test_a_whole_text_is_quoted_however_short_it_is(text: str) -> None:
    assert not names(f"The input was flagged: {text!r}", text)
    assert not names(json.dumps({"input": [{"type": "text", "text": text}]}), text)
    assert names("The schema is not supported", "Draw a schema of it")


def test_one_word_of_an_error_that_is_its_own_is_enough() -> None:
    said = "'Draw a schema of it': this model knows no response_format"
    assert names(said, "Draw a schema of it")
    assert not names(said, "Draw a schema of it", "Which model knows no response_format?")


def test_an_error_without_the_words_reads_nothing() -> None:
    def find_texts() -> SentTexts:
        raise AssertionError

    assert not names_subject(ABOUT, "upstream failed", find_texts)


def test_the_words_of_a_user_are_everywhere_in_a_request() -> None:
    tool = ToolSpec("draw", "Draws the schema of a table.", {"properties": {"function": {}}})
    output = OutputSchema("T", {"title": "The tool in use"}, tools=(tool,), tags=("one tool only",))
    parts: tuple[Any, ...] = (
        ToolCall("1", "draw", '{"q": "a function for two"}'),
        ToolResult("1", "draw", (Text("No tool was found."),)),
    )
    request = ModelRequest(
        model="m",
        messages=[user("What is a function?"), *(Message("tool", (part,)) for part in parts)],
        instructions="Never name a tool by name.",
        tools=(tool,),
        output=output,
        settings=ModelSettings(stop=("end of schema",), extra={"tag": "our schema team"}),
    )
    texts = SentTexts(*list_user_parts(request))
    for quoted in (
        "what is a function",
        "name a tool by",
        "schema of a table",
        "the tool in",
        "one tool only",
        "a function for two",
        "no tool was",
        "end of schema",
        "our schema team",
    ):
        assert texts.contain(quoted), quoted
    assert texts.are_one("function")
    # The codec's own words are no words of the user.
    assert not texts.are_one("tool")
    assert not texts.are_one("schema")


class Part(BaseModel):
    text: str
    inner: Any = None


@dataclass
class Content:
    parts: list[Part]


def test_the_objects_of_sdks_are_read_and_others_are_not() -> None:
    class Client:
        secret = "the schema of everything"

    parts = [Part(text="a schema of one"), Part(text="", inner=Client())]
    parts.append(Part(text="x", inner=parts))  # a cycle ends
    texts = SentTexts(Content(parts), b"a schema of bytes", 5, None)
    assert texts.contain("a schema of one")
    assert not texts.contain("the schema of everything")
    assert not texts.contain("a schema of bytes")


def test_names_of_a_wire_are_no_names_of_the_user() -> None:
    sent = [{"type": "function", "function": {"name": "schema", "description": "A function or so"}}]
    texts = SentTexts(sent, of_wire=frozenset({"type", "function"}))
    assert not texts.are_one("function")
    assert texts.are_one("schema")
    assert texts.contain("a function or")


words = st.lists(st.sampled_from(["a", "schema", "the", "tool", "x", "of"]), max_size=12)


@given(words, words, words, st.sampled_from(["{}", "'{}'", '"{}" is bad', "{}..."]))
def test_a_quotation_alone_never_names_anything(
    before: list[str], quoted: list[str], after: list[str], form: str
) -> None:
    text = " ".join(quoted)
    sent = " ".join([*before, *quoted, *after])
    if len(quoted) > 2 or sent == text:
        assert not names(form.format(text), sent)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_raises(error: str, sent: str) -> None:
    names(error, sent)
    names(f"{error}schema{error}", sent, {"a": [sent, {sent: None}]})
