"""What type checkers must see of tools: decorating changes nothing about calling. Never run."""

from typing import assert_type

from holdfast import Agent, Tool, ToolContext, tool
from holdfast.models import CodeExecution, WebSearch
from holdfast.tools import Registry, as_tool


@tool
def sync(city: str, days: int = 1) -> str:
    return city * days


@tool(effect="read", timeout=10)
async def later(city: str, ctx: ToolContext[dict[str, int]]) -> int:
    return ctx.deps[city]


class Account:
    @tool
    def pay(self, amount: int) -> str:
        return str(amount)


assert_type(sync("Porto"), str)
assert_type(sync("Porto", days=2), str)
assert_type(Account().pay(5), str)
sync(5)  # type: ignore[arg-type]
Account().pay("5")  # type: ignore[arg-type]
as_tool(later)


async def use(context: ToolContext[dict[str, int]], plain: ToolContext) -> None:
    assert_type(await later("Porto", context), int)
    assert_type(plain.deps, object)


def beside_functions() -> None:
    assert_type(
        Agent("gemini:gemini-3-pro", tools=[sync, WebSearch(), CodeExecution()]), Agent[str]
    )
    Agent("gemini:gemini-3-pro", tools=[WebSearch(max_uses="2")])  # type: ignore[arg-type]


def given(made: Tool) -> Registry:
    return Registry([made, sync, later, Account().pay, lambda: None])
