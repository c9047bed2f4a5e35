"""A workspace without approval, for tests of conversations: real agents, journals and stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from adh.agents.agent_catalog import Catalog
from adh.agents.agent_file import AgentFile
from adh.agents.build_agent import AgentKit
from adh.conversation.conversation import Conversation
from adh.storage.audit_log import AuditLog
from adh.storage.changes import ChangeStore
from adh.storage.pending_writes import PendingWrites
from adh.storage.places import find_places
from adh.storage.settings import SessionSettings, Settings
from adh.storage.trust import TrustedFolders
from adh.workspace.rule_book import RuleBook
from adh.workspace.session_files import SessionFiles
from adh.workspace.workspace import Workspace, WorkspaceParts
from holdfast import Tool, ToolPermission
from holdfast.testing import FakeClock, ScriptedModel

AT = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def make_workspace(
    tmp_path: Path,
    model: ScriptedModel,
    tools: tuple[Tool, ...] = (),
    *,
    session: SessionSettings | None = None,
    clock: FakeClock | None = None,
    **kit_fields: Any,
) -> Workspace:
    """Return a workspace in which the agent "main" has this model, and asks before it erases."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    places = find_places({"HOME": str(tmp_path)}, project)
    agents = tmp_path / ".config" / "adh-cli" / "agents" / "main"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "agent.md").write_text(
        "---\nname: main\ndescription: Works.\nmodel: test:main\n---\n# System Prompt\nWork.\n"
    )

    def make_kit(settings: Settings, catalog: Catalog) -> AgentKit:
        only: dict[str, AgentFile] = {"main": catalog.agents["main"]}
        fields: dict[str, Any] = {
            "open_model": lambda _alias: model,
            "rules": (ToolPermission(ask=["erase*"], default="allow"),),
            **kit_fields,
        }
        return AgentKit(
            catalog=msgspec.structs.replace(catalog, agents=only),
            settings=settings,
            tools=tools,
            today=lambda: date(2026, 3, 14),
            clock=clock,
            **fields,
        )

    parts = WorkspaceParts(
        places=places,
        rules=RuleBook(places),
        files=SessionFiles(places.journals),
        audit=AuditLog(places.audit_file),
        changes=ChangeStore(places.changes),
        pending=PendingWrites(places.data / "pending"),
        trusted=TrustedFolders(places.trust_file),
        make_kit=make_kit,
        user="ann",
        now=lambda: AT,
    )
    return Workspace(parts, Settings(agent="main", session=session or SessionSettings()))


@asynccontextmanager
async def talking(
    workspace: Workspace, session: str | None = None, **fields: Any
) -> AsyncIterator[Conversation]:
    """Open a conversation, and close it."""
    conversation = Conversation(workspace, session, **fields)
    await conversation.start()
    try:
        yield conversation
    finally:
        await conversation.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)
