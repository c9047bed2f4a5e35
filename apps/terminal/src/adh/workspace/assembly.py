"""Opens a workspace: settings, rules, stores, tools, the approval pipeline, and the watch over the rules.

It must never open one without the approval pipeline. Text that the person's patterns match is redacted in the saved
conversation, but for the arguments of calls, since the tool needs them; the audit log redacts its own copy.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from adh.agents.agent_catalog import Catalog
from adh.agents.build_agent import AgentKit, AnyModel
from adh.agents.model_aliases import ModelAlias
from adh.approval.pipeline import make_pipeline
from adh.approval.setup import ApprovalSetup, SafetySwitch
from adh.checks.confinement import find_confinement
from adh.storage.api_keys import ApiKeys, explain_missing_key, open_keychain
from adh.storage.audit_log import AuditLog
from adh.storage.places import Places, find_places
from adh.storage.search_path import list_folders_outside
from adh.storage.settings import Settings, load_settings
from adh.storage.storage_errors import StorageError
from adh.storage.trust import TrustedFolders
from adh.tools.all_tools import find_hosted_tools, make_tools
from adh.tools.tool_registry import TOOL_EFFECTS
from adh.tools.tools_context import ToolsContext, make_tools_context, remove_leftovers
from adh.workspace.open_session import MissingKeyError
from adh.workspace.rule_book import RuleBook
from adh.workspace.session_files import SessionFiles
from adh.workspace.workspace import Workspace, WorkspaceParts, find_user
from holdfast import Message, Middleware, ModelAt, Text, ToolResult
from holdfast.middleware import (
    AfterReply,
    AfterTool,
    AnyMiddleware,
    BeforeTurn,
    Patch,
    Replace,
    UsageLimits,
    UseReply,
)
from holdfast.models import SecretValues, find_preset

CAPTURE_NOTE = (
    "Conversations are saved on this computer, in {folder}. `session.capture: false` in {settings} "
    "switches this off; `session.redact_patterns` keeps texts out."
)
UNSAFE_NOTE = "⚠️  WARNING: Running with safety checks disabled!"
LEFTOVER_NOTE = "Processes that a killed adh had left running were ended: {count}."
UNTRUSTED_NOTE = (
    "Not used, since this folder is not trusted: {files}. `adh config trust` trusts it."
)


class WorkspaceOptions(Struct, frozen=True, kw_only=True):
    """How a workspace is opened.

    Args:
        project: the folder of the project.
        environ: the environment of the program.
        policy_folder: a further folder of rules.
        policy_file: a further file of rules.
        safety: whether questions of the level "confirm" are asked.
        model: a model or an alias in place of that of the settings; empty for the settings.
        agent: an agent in place of that of the settings; empty for the settings.
        base_url: an address in place of the provider's, such as that of a gateway; empty for the provider's.
        keychain: whether the system's keychain is asked for API keys.
        open_model: opens a model in place of a provider; for a demonstration or a test.
        now: the clock.
    """

    project: Path
    environ: Mapping[str, str]
    policy_folder: Path | None = None
    policy_file: Path | None = None
    safety: bool = True
    model: str = ""
    agent: str = ""
    base_url: str = ""
    keychain: bool = True
    open_model: Callable[[ModelAlias], AnyModel] | None = None
    now: Callable[[], datetime] = lambda: datetime.now().astimezone()


@asynccontextmanager
async def open_workspace(options: WorkspaceOptions) -> AsyncIterator[Workspace]:
    """Open a workspace, and close it again.

    Args:
        options: how.

    Raises:
        RulesError: a file of rules is wrong; the program does not start with fewer rules.
        SettingsError: the settings are wrong.
        AgentFileError: a file of agents or aliases is wrong.
        StorageError: another file or folder cannot be used.
    """
    places = find_places(options.environ, options.project)
    settings = _choose_settings(load_settings(places), options)
    first_start = not places.journals.exists()
    trusted = TrustedFolders(places.trust_file)
    keychain = open_keychain() if options.keychain else None
    keys = ApiKeys(options.environ, [places.env_file], keychain)
    if trusted.is_trusted(places.project):
        keys.add_env_file(places.project_env_file)
    rules = RuleBook(places, options.policy_folder, options.policy_file)
    audit = AuditLog(
        places.audit_file,
        redact_patterns=settings.session.redact_patterns,
        secrets=_find_secrets(keys, places),
    )
    tools = make_tools_context(places, options.environ)
    switch = SafetySwitch(audit, is_on=options.safety)
    setup = ApprovalSetup(
        places=places,
        read_rules=lambda: rules.rules,
        effects=TOOL_EFFECTS,
        audit=audit,
        switch=switch,
        save_backup=tools.backups.save,
        confinement=await asyncio.to_thread(
            find_confinement, list_folders_outside(places.program_folders, str(places.project))
        ),
    )
    parts = WorkspaceParts(
        places=places,
        rules=rules,
        files=SessionFiles(places.journals),
        audit=audit,
        changes=tools.changes,
        pending=tools.pending,
        trusted=trusted,
        keys=keys,
        switch=switch,
        make_kit=_KitMaker(setup, tools, keys, options).make_kit,
        user=find_user(options.environ),
        repository=find_repository(places.project),
        now=options.now,
    )
    workspace = Workspace(parts, settings)
    workspace.start_notes = tuple(_list_notes(workspace, first_start=first_start))
    await _end_leftovers(workspace, tools)
    async with _maintain(workspace, tools):
        yield workspace


async def _end_leftovers(workspace: Workspace, tools: ToolsContext) -> None:
    """End the commands of a killed program, before anything runs: they could still change files."""
    left = await asyncio.to_thread(remove_leftovers, tools)
    if left.processes:
        workspace.start_notes += (LEFTOVER_NOTE.format(count=left.processes),)


def _choose_settings(settings: Settings, options: WorkspaceOptions) -> Settings:
    return replace(
        settings,
        model=options.model or settings.model,
        agent=options.agent or settings.agent,
    )


def _find_secrets(keys: ApiKeys, places: Places) -> SecretValues:
    """Return the texts that the audit log must never have; the keys of a project's `.env` whether it is trusted or not."""
    own = keys.find_secrets()
    with suppress(StorageError):  # one that cannot be read has no key that is used
        return own | ApiKeys({}, [places.project_env_file]).find_secrets()
    return own


def _list_notes(workspace: Workspace, *, first_start: bool) -> list[str]:
    places = workspace.parts.places
    notes = []
    if first_start and workspace.settings.session.capture:
        notes.append(CAPTURE_NOTE.format(folder=places.journals, settings=places.settings_file))
    if not workspace.parts.switch_is_on:
        notes.append(UNSAFE_NOTE)
    if workspace.catalog.untrusted:
        notes.append(UNTRUSTED_NOTE.format(files=", ".join(workspace.catalog.untrusted)))
    return notes


@asynccontextmanager
async def _maintain(workspace: Workspace, tools: ToolsContext) -> AsyncIterator[None]:
    """Watch the rules, and delete old conversations, while the workspace is open."""
    stop = asyncio.Event()
    watching = asyncio.create_task(
        workspace.parts.rules.watch(workspace.notify_rules, stop), name="adh-rules"
    )
    cleaning = asyncio.create_task(_clean_up(workspace, tools), name="adh-clean-up")
    try:
        yield
    finally:
        stop.set()
        cleaning.cancel()
        await asyncio.gather(watching, cleaning, return_exceptions=True)


async def _clean_up(workspace: Workspace, tools: ToolsContext) -> None:
    with suppress(StorageError):
        await asyncio.to_thread(tools.backups.prune)
        await workspace.prune()


class _KitMaker:
    """Makes the parts of the agents of a conversation.

    Args:
        setup: the parts that the approval works with.
        tools: the parts that the tools work with.
        keys: the API keys.
        options: how the workspace was opened.
    """

    def __init__(
        self, setup: ApprovalSetup, tools: ToolsContext, keys: ApiKeys, options: WorkspaceOptions
    ) -> None:
        self._setup = setup
        self._tools = make_tools(tools)
        self._keys = keys
        self._options = options

    def make_kit(self, settings: Settings, catalog: Catalog) -> AgentKit:
        """Return the parts of agents, with an approval pipeline of its own."""
        pipeline = make_pipeline(self._setup)
        patterns = settings.session.redact_patterns
        redaction: tuple[AnyMiddleware, ...] = (RedactPatterns(patterns),) if patterns else ()
        limit = settings.session.token_limit
        limits = (UsageLimits(tokens=limit, per="session"),) if limit is not None else ()
        return AgentKit(
            catalog=catalog,
            settings=settings,
            tools=self._tools,
            today=lambda: self._options.now().date(),
            rules=(pipeline.permission,),
            guards=(*redaction, pipeline.safeguards),
            session_rules=limits,
            open_model=self._options.open_model or self._open_model,
            find_hosted=lambda alias: find_hosted_tools(alias.model_id.partition(":")[0]),
        )

    def _open_model(self, alias: ModelAlias) -> AnyModel:
        provider = alias.model_id.partition(":")[0]
        key = self._keys.find_key(provider)
        base_url = self._options.base_url or None
        if key is not None or base_url is not None:
            return ModelAt(alias.model_id, api_key=key.value if key else None, base_url=base_url)
        if find_preset(provider).key_env:
            fix = explain_missing_key(provider)
            raise MissingKeyError("model", f"there is no API key for {provider}", fix=fix)
        return alias.model_id


def find_repository(project: Path) -> str:
    """Return the top folder of the git repository that a folder is in; empty if there is none."""
    for folder in (project, *project.parents):
        if (folder / ".git").exists():
            return str(folder)
    return ""


MARK = "[redacted]"


class RedactPatterns(Middleware):
    """Replaces the text that the patterns match in messages, replies and results.

    Args:
        patterns: regular expressions.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def describe(self) -> dict[str, object]:
        """How many patterns there are."""
        return {"patterns": len(self._patterns)}

    async def before_turn(self, context: BeforeTurn[Any]) -> Patch | None:
        """Redact the message of the person."""
        parts = self._clean_parts(context.message.parts)
        if parts == context.message.parts:
            return None
        return Patch(messages=(Message(context.message.role, parts),))

    async def after_reply(self, context: AfterReply[Any]) -> UseReply | None:
        """Redact the text of a reply."""
        reply = context.reply
        if reply is None:
            return None
        parts = self._clean_parts(reply.parts)
        return None if parts == reply.parts else UseReply(replace(reply, parts=parts))

    async def after_tool(self, context: AfterTool[Any]) -> Replace | None:
        """Redact the result of a tool."""
        result: ToolResult = context.result
        content = self._clean_parts(result.content)
        return None if content == result.content else Replace(replace(result, content=content))

    def _clean_parts(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(part, text=self._clean(part.text)) if isinstance(part, Text) else part
            for part in parts
        )

    def _clean(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(MARK, text)
        return text
