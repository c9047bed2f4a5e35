"""The schema that a signature becomes, and what is refused when the tool is made."""

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import socket
import sys
import typing
import uuid
from typing import Annotated, Any, ClassVar, Literal, Optional

import pytest
import typing_extensions
from pydantic import BaseModel, Field

from holdfast import Agent, ToolContext, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ToolResult
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(typing_extensions.TypedDict, total=False):
    deep: bool


class Stop(BaseModel):
    """A stop on the way."""

    city: str
    nights: int = Field(1, ge=1, description="How long.")


class Trip(BaseModel):
    stops: list[Stop]


class Node(BaseModel):
    value: int
    children: "list[Node]" = []


JSON = typing_extensions.TypeAliasType("JSON", "dict[str, JSON] | list[JSON] | str | int | None")


def schema_of(function: Any) -> dict[str, Any]:
    return dict(tool(name="it")(function).spec.schema)


def properties_of(function: Any) -> dict[str, Any]:
    return dict(schema_of(function)["properties"])


def test_a_whole_schema() -> None:
    def weather(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> str:
        """Weather.

        Args:
            city: The city.
            days: How many days.
        """
        return ""

    assert schema_of(weather) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city."},
            "days": {"type": "integer", "default": 3, "description": "How many days."},
            "unit": {"enum": ["C", "F"], "default": "C", "type": "string"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_no_arguments() -> None:
    def ping() -> str:
        return ""

    assert schema_of(ping) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_nested_types_come_without_titles() -> None:
    def plan(trip: Trip, start: Point, unit: Unit, options: Options) -> None: ...

    schema = schema_of(plan)
    assert schema["$defs"]["Stop"] == {
        "description": "A stop on the way.",
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "nights": {
                "type": "integer",
                "default": 1,
                "minimum": 1,
                "description": "How long.",
            },
        },
        "required": ["city"],
    }
    assert schema["$defs"]["Unit"] == {"enum": ["celsius", "fahrenheit"], "type": "string"}
    assert "title" not in str(schema)


def test_an_argument_may_be_named_title() -> None:
    def book(title: str) -> None: ...

    assert properties_of(book) == {"title": {"type": "string"}}


def test_standard_types() -> None:
    def several(  # noqa: PLR0917  # REASON: one argument per type
        when: dt.date,
        at: dt.datetime,
        price: decimal.Decimal,
        key: uuid.UUID,
        names: set[str],
        pair: tuple[int, str],
        table: dict[str, list[float]],
        maybe: Optional[int] = None,  # noqa: UP045
        either: int | str = 0,
        anything: Any = None,
        sequence: collections.abc.Sequence[int] = (),
    ) -> None: ...

    found = properties_of(several)
    assert found["when"] == {"type": "string", "format": "date"}
    assert found["names"] == {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    assert found["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert found["anything"] == {"default": None}


def test_recursion_stays_in_defs() -> None:
    def walk(tree: Node, data: JSON) -> None: ...

    schema = schema_of(walk)
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "JSON" in schema["$defs"]


def test_words_of_the_user_come_before_the_docstring() -> None:
    def search(
        one: Annotated[str, Field(description="By Field.")],
        two: Annotated[str, "By a string."],
        three: Annotated[str, typing_extensions.Doc("By Doc.")],
        four: str = Field("x", description="By default."),
        five: Annotated[int, Field(ge=1)] = 1,
    ) -> None:
        """Search.

        Args:
            one: no
            two: no
            three: no
            four: no
            five: By docstring.
        """

    found = properties_of(search)
    assert [found[name]["description"] for name in found] == [
        "By Field.",
        "By a string.",
        "By Doc.",
        "By default.",
        "By docstring.",
    ]
    assert found["five"]["minimum"] == 1
    assert found["four"]["default"] == "x"


def test_names_that_pydantic_keeps_for_itself() -> None:
    def odd(
        _private: int, json: str, model_config: str, schema: str, copy: bool = True
    ) -> None: ...

    assert list(properties_of(odd)) == ["_private", "json", "model_config", "schema", "copy"]


def test_an_alias_is_the_name_that_the_model_sees() -> None:
    def send(from_: Annotated[str, Field(alias="from")]) -> None: ...

    assert list(properties_of(send)) == ["from"]


def test_a_default_that_json_cannot_say_is_left_out() -> None:
    marker = object()

    def cached(key: str, default: Any = marker) -> None: ...

    schema = schema_of(cached)
    assert schema["properties"]["default"] == {}
    assert schema["required"] == ["key"]


def test_the_context_is_hidden() -> None:
    def several(
        a: int,
        ctx: ToolContext,
        typed: ToolContext[str],
        maybe: ToolContext | None = None,
        annotated: Annotated[ToolContext, "mine"] = None,  # type: ignore[assignment]
    ) -> None: ...

    assert list(properties_of(several)) == ["a"]


def unannotated(city, days: int) -> None: ...  # type: ignore[no-untyped-def]


def variadic(*cities: str) -> None: ...


def keywords(**options: str) -> None: ...


def with_socket(line: socket.socket) -> None: ...


def with_callable(then: collections.abc.Callable[[int], int]) -> None: ...


def with_value(n: 5) -> None: ...  # type: ignore[valid-type]


def with_class_variable(n: ClassVar[int]) -> None: ...  # type: ignore[valid-type]


def with_context_inside(contexts: list[ToolContext]) -> None: ...


def with_class(kind: type[int]) -> None: ...


def with_hashable(key: collections.abc.Hashable) -> None: ...


def with_hashables_inside(keys: list[dict[str, collections.abc.Hashable]]) -> None: ...


class OldOptions(typing.TypedDict):
    city: str


def unpacked_twice(city: int, **options: typing_extensions.Unpack[OldOptions]) -> None: ...  # type: ignore[misc]


def unpacked_unknown(**options: typing_extensions.Unpack["Later"]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "argument", "fix"),
    [
        (with_class, "kind", "ToolContext.deps"),
        (with_hashable, "key", "ToolContext.deps"),
        (with_hashables_inside, "keys", "ToolContext.deps"),
        (unpacked_twice, "options", "Rename"),
        (unannotated, "city", "city: str"),
        (variadic, "cities", "list"),
        (keywords, "options", "dict"),
        (with_socket, "line", "ToolContext.deps"),
        (with_callable, "then", "ToolContext.deps"),
        (with_value, "n", "JSON"),
        (with_class_variable, "n", "type"),
        (with_context_inside, "contexts", "ToolContext.deps"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(
    function: Any, argument: str, fix: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tool(function)
    assert caught.value.argument == f"tool {function.__name__!r}, argument {argument!r}"
    assert fix in caught.value.fix


class Page(OldOptions, total=False):
    days: "Annotated[int, Field(ge=1)]"
    class_: typing_extensions.Required[str]


async def test_unpacked_options_are_arguments_and_a_call_gives_those_that_it_has() -> None:
    @tool(effect="read")
    def plan(first: bool, **options: typing_extensions.Unpack[Page]) -> str:
        """Plan a trip.

        Args:
            first: whether it is the first one.
            days: how long.
        """
        return str(sorted(options.items()))

    assert plan.spec.schema == {
        "type": "object",
        "properties": {
            "first": {"type": "boolean", "description": "whether it is the first one."},
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "description": "how long."},
            "class_": {"type": "string"},
        },
        "required": ["first", "city", "class_"],
        "additionalProperties": False,
    }
    given = {"first": True, "city": "Porto", "class_": "a"}
    calls = [
        call("plan", given),
        call("plan", {**given, "days": 2}),
        call("plan", {**given, "days": 0}),
    ]
    model = ScriptedModel(*calls, "Done.")
    messages = (await Agent(model, tools=[plan]).run("Plan.")).messages
    texts = [
        part.text for message in messages for part in message.parts if isinstance(part, ToolResult)
    ]
    assert texts[0] == "[('city', 'Porto'), ('class_', 'a')]"
    assert texts[1] == "[('city', 'Porto'), ('class_', 'a'), ('days', 2)]"
    assert "days: must be at least 1; got 0" in texts[2]


def test_unpacked_options_of_a_type_that_is_not_there_are_compiled_later() -> None:
    with pytest.raises(ConfigurationError, match="'Later', which cannot be found"):
        _ = tool(unpacked_unknown).signature


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python reads it from 3.12 on")
def test_a_typing_typed_dict_says_what_to_import() -> None:
    class Old(typing.TypedDict):
        a: int

    def f(old: Old) -> None: ...

    with pytest.raises(ConfigurationError, match=r"argument 'old'.*typing_extensions"):
        tool(f)


def test_a_builtin_without_a_signature_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Wrap it in your own function"):
        tool(name="it")(max)
