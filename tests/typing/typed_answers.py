"""What a type checker must see of typed answers around a call; checked by mypy and pyright, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from holdfast import StructuredOutput
from holdfast.calls import (
    CallResult,
    asend_message,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.tools import JsonSchema


@dataclass
class Trip:
    """A dataclass."""

    city: str


class Person(BaseModel):
    """A model of pydantic."""

    name: str


class Place(TypedDict):
    """A typed dictionary."""

    city: str


def ask(question: str) -> object:
    """Any call."""
    return question


def check_trip(trip: Trip) -> None:
    """A validator."""


trip = send_message(ask, "?", output=Trip, validators=[check_trip])
assert_type(trip, CallResult[Trip])
assert_type(trip.output, Trip | None)
assert_type(trip.require_output(), Trip)
assert_type(send_message(ask, "?", output=Person).require_output(), Person)
assert_type(send_message(ask, "?", output=Place).require_output(), Place)
assert_type(send_message(ask, "?", output=list[Person]).require_output(), list[Person])
assert_type(send_message(ask, "?", output=int).require_output(), int)
wanted = StructuredOutput[Literal["yes", "no"]](Literal["yes", "no"], attempts=2)
assert_type(send_message(ask, "?", output=wanted).output, Literal["yes", "no"] | None)
either = StructuredOutput[Trip | Person]([Trip, Person])
assert_type(send_message(ask, "?", output=either).require_output(), Trip | Person)
assert_type(send_message(ask, "?", output=JsonSchema({"type": "object"})), CallResult[Any])
# A union is no type for `type[T]`: mypy sees a `UnionType`, and pyright the union.
mixed: CallResult[Any] = send_message(ask, "?", output=Trip | int)
maybe: CallResult[Any] = send_message_streaming(ask, "?", output=Trip | None)
assert_type(send_message(ask, "?").output, None)
streamed = send_message_streaming(ask, "?", output=Trip, preview_callback=print)
assert_type(streamed.output, Trip | None)
plain: CallResult = send_message_streaming(ask, "?")


async def main() -> None:
    """What is awaited."""
    assert (await asend_message(ask, "?", output=Trip | Person)).output
    assert (await asend_message_streaming(ask, "?", output=Trip | Person)).output
    assert_type((await asend_message(ask, "?", output=Trip)).require_output(), Trip)
    assert_type((await asend_message_streaming(ask, "?", output=Trip)).output, Trip | None)
