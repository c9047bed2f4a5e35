"""The JSON form of arguments whose types do not determine it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from holdfast import tool
from holdfast.tools.arguments import CheckedArguments
from holdfast.tools.tool_failures import RefusedCall


class Odd:
    """A class that pydantic knows nothing of."""

    def __init__(self, text: str) -> None:
        self.text = text


Strange = Annotated[
    Any, BeforeValidator(Odd), WithJsonSchema({"type": "string"}), PlainSerializer(lambda _: "?")
]


def shown(function: Any, text: str, *, edited: bool = False) -> object:
    found = tool(function).signature.check(text, edited=edited)
    if isinstance(found, RefusedCall):
        return found.text
    assert isinstance(found, CheckedArguments)
    return json.loads(found.text)


def test_an_object_of_an_unknown_class_is_shown_as_the_model_wrote_it() -> None:
    def f(odd: Strange, raw: Base64Bytes, other: Annotated[Strange, Field(alias="o")]) -> None: ...

    text = '{"odd": "a", "raw": "aGk=", "o": "b"}'
    assert shown(f, text) == {"odd": "a", "raw": "aGk=", "other": "b"}


def test_any_of_several_names_is_found() -> None:
    def f(raw: Annotated[bytes, Field(validation_alias=AliasChoices("r", "raw"))]) -> None: ...

    assert shown(f, '{"r": "a"}') == shown(f, '{"raw": "a"}') == {"raw": "a"}


def test_what_cannot_be_found_again_is_refused() -> None:
    class Inner(BaseModel):
        raw: bytes

    def f(raw: Annotated[Inner, Field(validation_alias=AliasPath("a", 0))]) -> None: ...

    assert "holds bytes, which JSON cannot express" in str(shown(f, '{"a": [{"raw": "x"}]}'))


def test_a_default_of_an_unknown_class_is_left_out() -> None:
    def f(a: int = 1, odd: Any = object(), raw: bytes = b"x") -> None: ...  # noqa: B008

    assert shown(f, "{}") == {"a": 1}
    assert shown(f, '{"odd": [1], "raw": "y"}') == {"a": 1, "odd": [1], "raw": "y"}


def test_what_can_be_read_once_only_is_read_once_for_all() -> None:
    def f(numbers: Iterable[int], raw: bytes = b"") -> None: ...

    found = tool(f).signature.check('{"numbers": ["1", 2]}')
    assert isinstance(found, CheckedArguments)
    assert found.text == '{"numbers":[1,2]}'
    assert list(found.validated.__dict__["numbers"]) == [1, 2]
    assert 'numbers[0]: must be an integer; got "x"' in str(shown(f, '{"numbers": ["x"]}'))


def test_an_iterable_of_anything_holds_no_infinity() -> None:
    def f(things: Iterable[Any]) -> None: ...

    assert "holds inf, which JSON cannot express" in str(shown(f, '{"things": [1, 1e400]}'))


def test_edited_arguments_use_the_names_of_the_parameters() -> None:
    class Inner(BaseModel):
        at_most: int = Field(alias="atMost")

    def f(
        path: Annotated[str, Field(alias="p")], inner: Inner, _x: int = 1, model_config: int = 2
    ) -> None: ...

    first = shown(f, '{"p": "a", "inner": {"atMost": 5}, "_x": 3}')
    assert first == {"path": "a", "inner": {"at_most": 5}, "_x": 3, "model_config": 2}
    assert shown(f, json.dumps(first), edited=True) == first
    assert "path: is not a known name" in str(shown(f, json.dumps(first)))


@pytest.mark.parametrize("text", ["", "{}", " "])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    def f() -> None: ...

    assert shown(f, text) == {}


def test_characters_that_are_not_unicode_are_refused() -> None:
    def f(text: Annotated[str, BeforeValidator(lambda _: "\ud800")]) -> None: ...

    assert "which JSON cannot express" in str(shown(f, '{"text": "a"}'))
    assert "are not valid Unicode" in str(shown(f, '{"text": "a\x1a"}'))
