"""String annotations: of the module, of the function around, of what comes later, of nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import pytest
from pydantic import BaseModel, Field

from holdfast import tool
from holdfast.core.errors import ConfigurationError
from holdfast.tools import Registry

if TYPE_CHECKING:
    from decimal import Decimal

    from holdfast.tools import ToolContext


class Stop(BaseModel):
    city: str


@tool
def early(stop: Later) -> None: ...


class Later(BaseModel):
    n: int


class Incomplete(BaseModel):
    n: NotYet


@tool
def uses_incomplete(it: Incomplete) -> None: ...


class NotYet(BaseModel):
    n: int


def test_types_of_the_module() -> None:
    @tool
    def visit(stop: Stop, nights: Annotated[int, Field(ge=1)] = 1) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert visit.spec.schema["properties"]["nights"]["minimum"] == 1  # type: ignore[index]


def test_types_local_to_a_function() -> None:
    class Local(BaseModel):
        n: int

    def use(it: Local, more: list[Local]) -> None: ...

    assert tool(use).spec.schema["required"] == ["it", "more"]


def test_types_local_to_an_outer_function() -> None:
    class Local(BaseModel):
        n: int

    def make() -> object:
        @tool
        def use(it: Local) -> None: ...

        return use.spec.schema["required"]

    assert make() == ["it"]


def test_types_that_are_defined_after_the_tool() -> None:
    assert Registry([early, uses_incomplete]).names == ("early", "uses_incomplete")


def test_a_context_imported_for_type_checkers_only() -> None:
    @tool
    def use(n: int, ctx: ToolContext) -> None: ...

    assert list(use.spec.schema["properties"]) == ["n"]  # type: ignore[call-overload]


def test_a_name_that_is_nowhere() -> None:
    @tool
    def use(price: Decimal) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        Registry([use])
    assert caught.value.argument == "tool 'use', argument 'price'"
    assert "'Decimal'" in caught.value.problem
    assert "TYPE_CHECKING" in caught.value.fix


def test_a_string_that_is_not_a_type() -> None:
    def use(n: int) -> None: ...

    use.__annotations__["n"] = "1 +"
    with pytest.raises(ConfigurationError, match=r"argument 'n'.*is not a type"):
        tool(use)
