"""Sixty output types as people write them, each with a value in JSON that fits."""

# REASON: the names say it
from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from re import Pattern
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

from pydantic import (
    AliasChoices,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FutureDate,
    HttpUrl,
    Json,
    JsonValue,
    RootModel,
    SecretStr,
    StringConstraints,
    Tag,
    create_model,
)
from typing_extensions import TypedDict

T = TypeVar("T")


class Color(Enum):
    """A color of the catalogue."""

    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Status(StrEnum):
    OPEN = "open"
    DONE = "done"


class Weather(BaseModel):
    city: str
    degrees: float
    raining: bool


class Trip(BaseModel):
    city: str = Field(min_length=2, max_length=80)
    days: int = Field(ge=1, le=30)
    rating: float = Field(gt=0, lt=5, multiple_of=0.5)


class Car(BaseModel):
    color: Color = Field(description="outside")
    seats: Level = Level.LOW


class Garage(BaseModel):
    cars: list[Car] = Field(min_length=1, max_length=4)
    first: Car = Field(description="the one to take first", title="First car")


class Web(BaseModel):
    url: HttpUrl
    body: bytes
    where: Path


class Price(BaseModel):
    amount: Decimal = Field(ge=0, max_digits=8, decimal_places=2)
    tax: Decimal


class OlderPrice(BaseModel):
    """As pydantic 2.12 and 2.13 write a Decimal."""

    amount: Annotated[str, Field(json_schema_extra={"pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"})]


class Code(BaseModel):
    code: Annotated[str, Field(json_schema_extra={"pattern": "^(?!x)"})]


class Bag(BaseModel):
    things: list  # type: ignore[type-arg]  # REASON: a bare list is an output that people ask for


class Anything(BaseModel):
    value: Any
    note: str = ""


class Loose(BaseModel):
    data: dict  # type: ignore[type-arg]  # REASON: as above
    json_value: JsonValue


ManyOptions: Any = create_model(
    "ManyOptions", **{f"field_{at}": (str | None, None) for at in range(20)}
)
ManyNullables: Any = create_model(
    "ManyNullables", **{f"field_{at}": (str | None, ...) for at in range(30)}
)
Wide: Any = create_model("Wide", **{f"column_{at}": (int, ...) for at in range(120)})
Choice: Any = Literal[tuple(f"product number {at}" for at in range(300))]


class Catalogue(BaseModel):
    product: Choice


class Scores(BaseModel):
    scores: dict[Annotated[str, StringConstraints(pattern="^[A-Z]{3}$")], int]


class Query(BaseModel):
    q: str
    top: int = Field(5, alias="$top")
    by: str = Field("", alias="filter[id]")
    other: str = Field("", validation_alias=AliasChoices("other name", "other"))


class Unusual(BaseModel):
    size: float = Field(alias="größe")
    ref: str = Field(alias="$ref")
    properties: int = Field(alias="properties")
    required: list[str]
    type: Literal["object"]
    long: str = Field(alias="a" * 80)


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Chain(BaseModel):
    value: int
    next: Chain | None = None


class Sum(BaseModel):
    kind: Literal["sum"]
    terms: list[Expression]


class Number(BaseModel):
    kind: Literal["number"]
    value: float


Expression = Annotated[Sum | Number, Field(discriminator="kind")]


class Formula(BaseModel):
    expression: Expression


class Author(BaseModel):
    name: str
    books: list[Book]


class Book(BaseModel):
    title: str
    authors: list[Author] = Field(default=[], description="without their books")


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    postcode: str = Field(pattern=r"^\d{5}$")


class Person(BaseModel):
    name: str
    address: Address | None = Field(None, description="if known")
    former: list[Address] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog", "hound"]
    breed: str


class Pet(BaseModel):
    animal: Cat | Dog = Field(discriminator="kind")


class Zoo(BaseModel):
    animals: list[Annotated[Cat | Dog, Field(discriminator="kind")]]


def _tag_of(value: Any) -> str:
    return "text" if isinstance(value, str) else "cat"


class Mixed(BaseModel):
    value: Annotated[
        Annotated[str, Tag("text")] | Annotated[Cat, Tag("cat")], Discriminator(_tag_of)
    ]


class Either(BaseModel):
    value: int | str | list[int] | None
    choice: Cat | Weather


class Box(BaseModel, Generic[T]):
    content: T
    label: str | None = None


class Pages(BaseModel, Generic[T]):
    items: list[T]
    next: str | None


class Point(BaseModel):
    at: tuple[float, float]
    named: tuple[int, str, bool]
    more: tuple[int, ...] = ()


class Corner(NamedTuple):
    x: int
    y: int = 0


class Plan(BaseModel):
    corners: list[Corner]


class Tags(BaseModel):
    names: set[str] = Field(min_length=1)
    ids: frozenset[int] = frozenset()


class Times(BaseModel):
    day: date
    at: datetime
    clock: time
    lasts: timedelta


class Deadline(BaseModel):
    due: FutureDate
    sent: AwareDatetime


class Address4(BaseModel):
    host: IPv4Address
    network: IPv6Network
    id: UUID


class Envelope(BaseModel):
    payload: Json[list[int]]
    picture: Base64Bytes


class Answer(BaseModel):
    answer: Literal["yes", "no", "unsure"]
    level: Literal[1, 2, 3]
    flag: Literal[True, "maybe"] | None


class Task(BaseModel):
    status: Status = Status.OPEN
    level: Level
    only: Literal["task"] = "task"


class Nested(BaseModel):
    table: list[dict[str, list[int | None]]] | None = None


class Counts(BaseModel):
    words: dict[str, int]
    pages: dict[int, str]
    colors: dict[Color, float] = {}


class Sized(BaseModel):
    few: dict[str, str] = Field(min_length=1, max_length=3)
    codes: list[Annotated[str, StringConstraints(pattern="^[a-z]+$", max_length=5)]]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    size: int | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class Extra(BaseModel):
    __pydantic_extra__: dict[str, int]
    model_config = ConfigDict(extra="allow")

    name: str


class Defaults(BaseModel):
    text: str = "none"
    number: float = 0.5
    items: list[int] = Field(default_factory=list)
    home: Address = Address(street="Main", postcode="12345")


class Numbers(RootModel[list[int]]):
    pass


class Index(RootModel[dict[str, Weather]]):
    """Weather by city."""


class Described(BaseModel):
    """A report.

    With a second paragraph.
    """

    model_config = ConfigDict(title="The report", json_schema_extra={"examples": [{"text": "Hi"}]})

    text: str = Field(title="The text", description="in English", examples=["Hi", "Hello"])
    old: int | None = Field(None, deprecated=True)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


@dataclass
class Employee:
    """Somebody who works here."""

    name: str
    boss: Employee | None = None
    skills: tuple[str, ...] = ()


class Deep(BaseModel):
    a: dict[str, list[list[list[dict[str, list[list[Trip]]]]]]]


class Login(BaseModel):
    user: str = Field(json_schema_extra={"format": "email"})
    password: SecretStr = Field(min_length=8)
    rule: Pattern[str]


class Unique(BaseModel):
    ids: list[int] = Field(json_schema_extra={"uniqueItems": True, "contains": {"minimum": 1}})


class Conditional(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"kind": {"const": "card"}}},
            "then": {"required": ["number"]},
            "dependentRequired": {"number": ["owner"]},
        }
    )

    kind: str
    number: str = ""
    owner: str = ""


class Part(BaseModel):
    weight: float | None = Field(None, ge=0)
    size: Annotated[int, Field(ge=1)] | Literal["all"]
    name: Annotated[str | None, Field(max_length=20, description="or nothing")]


class Impossible(BaseModel):
    none: None
    always: Literal["a"]
    not_zero: int = Field(json_schema_extra={"not": {"const": 0}})


class Inherited(Address, Cat):
    country: Literal["PT", "ES"] = "PT"


class Shifts(BaseModel):
    week: dict[Literal["monday", "tuesday"], list[time]]
    rest: list[tuple[date, Box[int]]]


_TRIP = {"city": "Porto", "days": 3, "rating": 4.5}
_WEATHER = {"city": "Porto", "degrees": 18.5, "raining": False}
_CAT = {"kind": "cat", "lives": 7}
_HOME = {"street": "Main Street", "postcode": "12345"}

OUTPUT_TYPES: dict[Any, Any] = {
    Weather: _WEATHER,
    Trip: _TRIP,
    list[Trip]: [_TRIP],
    str | int: "yes",
    Car: {"color": "red"},
    Garage: {"cars": [{"color": "green", "seats": 2}], "first": {"color": "red"}},
    Web: {"url": "https://example.org/a", "body": "abc", "where": "/tmp/a"},
    Price: {"amount": "12.50", "tax": 0.2},
    OlderPrice: {"amount": "12.50"},
    Code: {"code": "abc"},
    Bag: {"things": [1, "a", None, {"b": []}]},
    Anything: {"value": {"a": [1]}},
    Loose: {"data": {"a": 1}, "json_value": [{"b": None}]},
    ManyOptions: {"field_3": "a", "field_4": None},
    ManyNullables: {f"field_{at}": "a" if at % 2 else None for at in range(30)},
    Wide: {f"column_{at}": at for at in range(120)},
    Catalogue: {"product": "product number 7"},
    Scores: {"scores": {"ABC": 3}},
    Query: {"q": "a", "$top": 3, "filter[id]": "7", "other name": "b"},
    Unusual: {"größe": 1.5, "$ref": "a", "properties": 1, "required": ["type"], "type": "object", "a" * 80: "b"},
    Tree: {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]},
    Chain: {"value": 1, "next": {"value": 2, "next": None}},
    Formula: {"expression": {"kind": "sum", "terms": [{"kind": "number", "value": 1}, {"kind": "sum", "terms": []}]}},
    Author: {"name": "Ada", "books": [{"title": "Notes", "authors": [{"name": "Bo", "books": []}]}]},
    Person: {"name": "Ada", "address": _HOME, "former": [_HOME]},
    Pet: {"animal": {"kind": "hound", "breed": "Basset"}},
    Zoo: {"animals": [_CAT, {"kind": "dog", "breed": "Poodle"}]},
    Mixed: {"value": _CAT},
    Either: {"value": [1, 2], "choice": _CAT},
    Box[list[Trip]]: {"content": [_TRIP]},
    Pages[Weather]: {"items": [_WEATHER], "next": None},
    Point: {"at": [1.5, 2], "named": [1, "a", True], "more": [1, 2, 3]},
    Plan: {"corners": [[1, 2], [3, 0]]},
    Tags: {"names": ["a", "b"], "ids": [1]},
    Times: {"day": "2030-01-31", "at": "2030-01-31T12:00:00Z", "clock": "12:30:00", "lasts": "PT1H30M"},
    Deadline: {"due": "2999-01-01", "sent": "2026-01-01T00:00:00+01:00"},
    Address4: {"host": "10.0.0.1", "network": "2001:db8::/32", "id": "12345678-1234-5678-1234-567812345678"},
    Envelope: {"payload": "[1, 2]", "picture": "YWJj"},
    Answer: {"answer": "unsure", "level": 2, "flag": None},
    Task: {"level": 1, "status": "done"},
    Nested: {"table": [{"a": [1, None]}]},
    Counts: {"words": {"a": 1}, "pages": {"7": "b"}, "colors": {"red": 0.5}},
    Sized: {"few": {"a": "b"}, "codes": ["abc"]},
    Closed: {"name": "a"},
    Open: {"name": "a", "more": [1]},
    Extra: {"name": "a", "more": 1},
    Defaults: {"number": 2, "items": [1]},
    Numbers: [1, 2, 3],
    Index: {"Porto": _WEATHER},
    Described: {"text": "Hi", "old": None},
    Movie: {"title": "Metropolis", "year": 1927},
    Employee: {"name": "Ada", "boss": {"name": "Bo", "skills": ["law"]}},
    Deep: {"a": {"b": [[[{"c": [[_TRIP]]}]]]}},
    Login: {"user": "ada@example.org", "password": "12345678", "rule": "^a$"},
    Unique: {"ids": [1, 2]},
    Conditional: {"kind": "card", "number": "1", "owner": "Ada"},
    Part: {"weight": None, "size": "all", "name": "bolt"},
    Impossible: {"none": None, "always": "a", "not_zero": 1},
    Inherited: {**_HOME, **_CAT, "country": "ES"},
    Shifts: {"week": {"monday": ["08:00:00"]}, "rest": [["2030-01-01", {"content": 1}]]},
}  # fmt: skip
"""The types, each with a value that fits, as plain JSON data."""
