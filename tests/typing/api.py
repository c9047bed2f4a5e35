"""What type checkers must see of the public face. Checked by mypy, never run."""

from typing import Any, assert_type

import holdfast

assert_type(holdfast.__version__, str)


async def questions(agent: holdfast.Agent, request: holdfast.PermissionQuestion) -> None:
    await agent.answer("s", request.approve())
    await agent.answer("s", request, holdfast.Denied())
    for asked in (await agent.run("Go")).questions:
        assert_type(asked, holdfast.Question[Any])
