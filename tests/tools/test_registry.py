"""Tools by name."""

import pytest

from holdfast import tool
from holdfast.core.errors import ConfigurationError, ErrorCategory, Landed, ToolNotFoundError
from holdfast.tools import Registry


@tool
def one() -> None: ...


def two() -> None: ...


def test_order_names_and_specs() -> None:
    registry = Registry([two, one])
    assert registry.names == ("two", "one")
    assert [spec.name for spec in registry.specs] == ["two", "one"]
    assert registry.specs is registry.specs
    assert registry.get("one") is one
    assert registry.get("three") is None
    assert (len(registry), "one" in registry, list(registry)[1]) == (2, True, one)
    assert Registry().specs == ()


def test_two_tools_of_one_name() -> None:
    def other() -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"two of them are named 'one'.*tool\(name="
    ) as caught:
        Registry([one, tool(name="one")(other)])
    assert caught.value.argument == "tools"


@pytest.mark.parametrize("wrong", [one, two, "one", None, 5])
def test_tools_that_are_not_a_list(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="tools: must be a list, got"):
        Registry(wrong)  # type: ignore[arg-type]


def test_a_member_that_is_not_a_function() -> None:
    with pytest.raises(ConfigurationError, match="must be a function, got str"):
        Registry(["one"])  # type: ignore[list-item]


def test_a_name_of_no_tool_is_an_error_that_lists_the_tools() -> None:
    registry = Registry([one, two])
    assert registry.find("one").name == "one"
    with pytest.raises(ToolNotFoundError, match=r"Did you mean 'one'\? .* one, two") as caught:
        registry.find("onee")
    assert caught.value.tool_name == "onee"
    assert caught.value.info.category is ErrorCategory.CLIENT_ERROR
    assert caught.value.info.landed is Landed.NO
