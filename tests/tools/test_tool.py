"""What `@tool` accepts, and that what it decorates stays what it was."""

import asyncio
import functools
import inspect
import subprocess
import sys
from typing import Any

import pytest

from holdfast import Tool, tool
from holdfast.core.errors import ConfigurationError
from holdfast.tools import Registry, as_tool


def double(n: int) -> int:
    """Twice the number."""
    return n * 2


async def fetch(path: str) -> str:
    return path


class Account:
    """An account."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    @tool(effect="write")
    def pay(self, amount: int) -> str:
        """Pay an amount."""
        return f"{self.owner} paid {amount}"

    @tool
    @classmethod
    def kinds(cls, prefix: str) -> str:
        return cls.__name__ + prefix

    @classmethod
    @tool
    def kinds_outside(cls, prefix: str) -> str:
        return cls.__name__ + prefix

    @tool
    @staticmethod
    def rate(year: int) -> int:
        return year

    @staticmethod
    @tool
    def rate_outside(year: int) -> int:
        return year

    def plain(self, n: int) -> int:
        """Not decorated."""
        return n


class Search:
    """Search the web."""

    async def __call__(self, query: str) -> str:
        return query


def test_a_tool_is_called_like_its_function() -> None:
    assert tool(double)(4) == 8
    assert asyncio.run(tool(fetch)("a")) == "a"


def test_keywords_are_stored() -> None:
    made = tool(name="twice", description="Doubles.", effect="read", timeout=2, result_limit=10)(
        double
    )
    assert (made.name, made.description, made.effect, made.timeout, made.result_limit) == (
        "twice",
        "Doubles.",
        "read",
        2,
        10,
    )
    assert made.spec.name == "twice"
    assert made.spec.description == "Doubles."


def test_the_defaults_say_nothing() -> None:
    made = tool(double)
    assert (made.effect, made.timeout, made.result_limit, made.is_async) == (
        None,
        None,
        None,
        False,
    )
    assert made.description == "Twice the number."


def test_a_tool_tells_what_its_function_tells() -> None:
    made = tool(double)
    assert made.__doc__ == double.__doc__
    assert inspect.signature(made) == inspect.signature(double)
    assert repr(made) == "Tool('double')"


def test_a_tool_is_frozen() -> None:
    made = tool(double)
    with pytest.raises(AttributeError, match="immutable"):
        made.name = "other"
    with pytest.raises(AttributeError, match="immutable"):
        del made.name


def test_the_spec_is_always_the_same_object() -> None:
    made = tool(double)
    assert made.spec is made.spec


def test_methods_are_tools_of_their_object() -> None:
    ann = Account("Ann")
    assert ann.pay(3) == "Ann paid 3"
    assert Account.pay(ann, 3) == "Ann paid 3"
    assert ann.pay.name == "pay"
    assert ann.pay.effect == "write"
    assert list(ann.pay.spec.schema["properties"]) == ["amount"]
    assert ann.pay.spec is Account("Bob").pay.spec


def test_class_and_static_methods_in_either_order() -> None:
    for made in (Account.kinds, Account("A").kinds, as_tool(Account.kinds_outside)):
        assert isinstance(made, Tool)
        assert made("!") == "Account!"
        assert list(made.spec.schema["properties"]) == ["prefix"]
    for made in (Account.rate, Account("A").rate, Account.rate_outside):
        assert made(7) == 7
        assert list(made.spec.schema["properties"]) == ["year"]


def test_bound_methods_and_callable_objects_need_no_decorator() -> None:
    assert as_tool(Account("A").plain).description == "Not decorated."
    made = as_tool(Search())
    assert (made.name, made.description, made.is_async) == ("Search", "Search the web.", True)


def test_a_method_without_its_object_is_refused_by_the_registry() -> None:
    with pytest.raises(ConfigurationError, match=r"method without its object.*thing.pay"):
        Registry([Account.pay])


def test_a_partial_hides_what_it_has_bound() -> None:
    def query(table: str, limit: int, *, database: str) -> str:
        """Query a table."""
        return f"{database}.{table} {limit}"

    made = tool(name="orders")(functools.partial(query, "orders", database="prod"))
    assert list(made.spec.schema["properties"]) == ["limit"]
    assert made.description == "Query a table."
    assert made(limit=3) == "prod.orders 3"
    assert as_tool(functools.partial(fetch)).is_async


def test_wraps_keeps_the_signature() -> None:
    @functools.wraps(double)
    def logged(*args: Any, **kwargs: Any) -> int:
        return double(*args, **kwargs)

    assert list(as_tool(logged).spec.schema["properties"]) == ["n"]
    assert list(as_tool(functools.wraps(tool(double))(lambda *a: 0)).spec.schema["properties"])


def test_a_tool_can_be_renamed() -> None:
    made = tool(name="other")(tool(double))
    assert (made.name, made(2)) == ("other", 4)


def test_as_tool_leaves_a_tool_alone() -> None:
    made = tool(double)
    assert as_tool(made) is made


@pytest.mark.parametrize(
    ("keywords", "argument"),
    [
        ({"name": "my tool!"}, "tool.name"),
        ({"name": ""}, "tool.name"),
        ({"name": "a" * 65}, "tool.name"),
        ({"name": "trailing\n"}, "tool.name"),
        ({"name": 5}, "tool.name"),
        ({"description": 5}, "tool.description"),
        ({"effect": "delete"}, "tool.effect"),
        ({"timeout": 0}, "tool.timeout"),
        ({"timeout": float("inf")}, "tool.timeout"),
        ({"timeout": "5"}, "tool.timeout"),
        ({"result_limit": 0}, "tool.result_limit"),
    ],
)
def test_a_bad_keyword_is_named(keywords: dict[str, Any], argument: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tool(**keywords)(double)
    assert caught.value.argument == argument


def test_a_value_that_is_not_a_function_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"lambda has no name.*tool\(name="):
        as_tool(lambda: 1)
    with pytest.raises(ConfigurationError, match="the class Account"):
        as_tool(Account)
    with pytest.raises(ConfigurationError, match="got int"):
        as_tool(5)  # type: ignore[arg-type]
    assert tool(name="one")(lambda: 1).name == "one"


def test_importing_the_room_loads_neither_pydantic_nor_asyncio() -> None:
    code = (
        "import sys, holdfast.tools\n"
        "print([name for name in ('pydantic', 'pydantic_core', 'asyncio', 'docstring_parser')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
