"""What an import costs: a fresh interpreter against one that imports asyncio.

Instructions where valgrind is installed, since they do not depend on the load of the machine;
CPU time of many processes otherwise, and in a quick run.
"""

from __future__ import annotations

from benchmarks.case import Budget, Commands

FLOOR = "import asyncio"


def _budgets(code: str) -> tuple[Budget, ...]:
    return (
        Budget(metric="cost", what=f"`{code}` against `{FLOOR}`", unit="", limit=1.3),
        Budget(
            metric="peak",
            what=f"`{code}`: memory above `{FLOOR}`",
            unit="B",
            compare="difference",
            scale=1e6,
            shown="MB",
            limit=8.0,
        ),
    )


def _case(name: str, code: str) -> Commands:
    return Commands(name=name, floor=FLOOR, ours=code, budgets=_budgets(code))


PACKAGE = _case("import", "import holdfast")
AGENT = _case("import-agent", "from holdfast import Agent, tool")
