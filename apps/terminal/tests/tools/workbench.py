"""A project whose tools are called as an agent calls them: by name, with JSON arguments."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adh.storage.backups import Backups
from adh.storage.call_context import ApprovedCall, ApprovedCalls, CallContext, ToolOutput
from adh.storage.changes import ChangeStore
from adh.storage.pending_writes import PendingWrites
from adh.tools.all_tools import make_tools
from adh.tools.process_end import RunningCommands
from adh.tools.tools_context import ToolsContext
from adh.tools.web_addresses import Resolve, resolve_host
from holdfast import Agent, Middleware, ToolCall, ToolResult
from holdfast.testing import ScriptedModel

AT = datetime(2026, 3, 14, tzinfo=UTC)


class Approve(Middleware):
    """Approves every call as it is told, as the approval does."""

    def __init__(self, approved: ApprovedCall) -> None:
        self.approved = approved

    async def before_tool(self, context: Any) -> None:
        context.shared(ApprovedCalls).approve(context.key, self.approved)


class Workbench:
    """A project with tools.

    Args:
        folder: a folder for the project and the stores.
        exist_ok: whether the project may be there.
    """

    def __init__(self, folder: Path, *, exist_ok: bool = False) -> None:
        self.root = folder / "project"
        self.root.mkdir(exist_ok=exist_ok)
        self.environ: dict[str, str] = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PROJECT_OF_THE_TEST": str(self.root),
        }
        self.changes = ChangeStore(folder / "changes")
        self.backups = folder / "backups"
        self.pending = PendingWrites(folder / "pending")
        self.running = RunningCommands(folder / "running")
        self.resolve: Resolve = resolve_host
        self.shown: list[ToolOutput] = []

    def make_agent(self, *calls: ToolCall, approved: ApprovedCall | None = None) -> Agent[str]:
        """Return an agent whose model makes these calls in one reply."""
        context = ToolsContext(
            changes=self.changes,
            backups=Backups(self.backups, lambda: AT),
            pending=self.pending,
            environ=self.environ,
            home=str(self.root.parent),
            running=self.running,
            programs=self.root.parent / "programs",
            now=lambda: AT,
            resolve=self.resolve,
        )
        return Agent(
            ScriptedModel(list(calls), "done"),
            tools=make_tools(context),
            middleware=[] if approved is None else [Approve(approved)],
            observers=[self._observe],
        )

    def _observe(self, observation: Any) -> None:
        if isinstance(observation.item, ToolOutput):
            self.shown.append(observation.item)

    @property
    def deps(self) -> CallContext:
        return CallContext(
            user="ada",
            session="s",
            agent="tester",
            request_id="r1",
            folder=str(self.root),
            project=str(self.root),
        )

    async def call(
        self, name: str, approved: ApprovedCall | None = None, /, **arguments: object
    ) -> str:
        """Call a tool and return the text that the model reads."""
        call = ToolCall("c1", name, json.dumps(arguments))
        result = await self.make_agent(call, approved=approved).run("go", deps=self.deps)
        (found,) = [
            part
            for message in result.messages
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
        return "".join(getattr(part, "text", "") for part in found.content)

    async def call_json(
        self, name: str, approved: ApprovedCall | None = None, /, **arguments: object
    ) -> Mapping[str, Any]:
        """Call a tool and return its result as data."""
        text = await self.call(name, approved, **arguments)
        assert text.startswith("{"), text
        found: Mapping[str, Any] = json.loads(text)
        return found
