"""The workspace of a person in a project: settings, agents, rules, stores; it opens conversations.

It must never open two conversations with one journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from adh.agents.agent_catalog import Catalog, load_catalog
from adh.agents.build_agent import AgentKit, ChatAgent, build_agent
from adh.agents.model_aliases import resolve_model
from adh.approval.setup import SafetySwitch
from adh.storage.api_keys import ApiKeys
from adh.storage.audit_log import AuditLog
from adh.storage.call_context import CallContext
from adh.storage.changes import ChangeStore
from adh.storage.pending_writes import PendingWrites
from adh.storage.places import Places
from adh.storage.settings import Settings, change_settings
from adh.storage.trust import TrustedFolders
from adh.workspace.open_session import OpenSession
from adh.workspace.rule_book import RuleBook
from adh.workspace.session_files import SessionFacts, SessionFiles
from holdfast import MemoryJournal, OnQuestion, SqliteJournal, Usage

NO_NAME = "user"


class WorkspaceParts(Struct, frozen=True, kw_only=True):
    """The parts of a workspace.

    Args:
        places: where everything is.
        rules: the rules that hold.
        files: the saved conversations.
        audit: the audit log.
        changes: the changes of files.
        pending: the temporary files of writes.
        trusted: the folders that the person trusts.
        keys: the API keys; None without any.
        switch: whether questions are asked; None in a workspace without approval.
        make_kit: returns the parts of agents, for these settings and agents.
        user: the name of the person's account.
        repository: the top folder of the git repository; empty without one.
        now: the clock.
    """

    places: Places
    rules: RuleBook
    files: SessionFiles
    audit: AuditLog
    changes: ChangeStore
    pending: PendingWrites
    trusted: TrustedFolders
    make_kit: Callable[[Settings, Catalog], AgentKit]
    keys: ApiKeys | None = None
    switch: SafetySwitch | None = None
    user: str = NO_NAME
    repository: str = ""
    now: Callable[[], datetime] = lambda: datetime.now().astimezone()

    @property
    def switch_is_on(self) -> bool:
        """Whether questions are asked."""
        return self.switch is None or self.switch.is_on


class Workspace:
    """An open workspace, in which a conversation works.

    Args:
        parts: its parts.
        settings: the settings of the person.

    Raises:
        AgentFileError: a file of agents or aliases is wrong.
        StorageError: a file cannot be read.
    """

    def __init__(self, parts: WorkspaceParts, settings: Settings) -> None:
        self.parts = parts
        self._settings = settings
        self._catalog = self._load_catalog()
        self._revision = 1
        self.start_notes: tuple[str, ...] = ()
        """The notes for the person at the start."""
        self.on_note: Callable[[str], None] = lambda _text: None
        """Called with a later note for the person, such as a file of rules that is broken."""

    @property
    def settings(self) -> Settings:
        """The settings that hold now."""
        return self._settings

    @property
    def catalog(self) -> Catalog:
        """The agents and models."""
        return self._catalog

    @property
    def revision(self) -> int:
        """A number that grows when agents have to be built again."""
        return self._revision

    def compute_cost(self, usage: Usage) -> float | None:
        """Return the price of a usage with the agent's model, in dollars; None if the model has no price."""
        agent = self._catalog.agents.get(self._settings.agent)
        model = (agent.model if agent is not None else "") or self._settings.model
        alias = self._catalog.aliases.get(model)
        return alias.price.compute_cost(usage) if alias is not None and alias.price else None

    def change_settings(self, changes: Mapping[str, object]) -> None:
        """Change some settings, save them, and let them hold from the next turn on.

        Args:
            changes: new values by the names of fields.

        Raises:
            SettingsError: a field is unknown, a value is wrong, or the file cannot be written.
            AgentFileError: as for `use_settings`; nothing is changed.
        """
        agent = changes.get("agent")
        if isinstance(agent, str):
            self._catalog.find(agent)
        model = changes.get("model")
        if isinstance(model, str):
            resolve_model(model, self._catalog.aliases)
        saved = change_settings(self.parts.places, changes)
        fields = {name: getattr(saved, name) for name in changes}
        self.use_settings(msgspec.structs.replace(self._settings, **fields))

    def set_safety(self, *, on: bool, session: str) -> None:
        """Ask again, or ask no more, at the level "confirm". Raises AuditError; then nothing changes."""
        if self.parts.switch is not None:
            self.parts.switch.turn(on=on, session=session, at=self.parts.now())

    def save_key(self, provider: str, key: str) -> None:
        """Save an API key in the system's keychain, and use it from the next turn on.

        Raises:
            ApiKeyError: there is no keychain that can be used, or the provider needs no key.
        """
        if self.parts.keys is not None:
            self.parts.keys.save_key(provider, key)
            self._revision += 1

    def notify_rules(self, problem: str) -> None:
        """Notify the person that a file of rules has changed.

        Args:
            problem: its problem; empty if the new rules hold.
        """
        if problem:
            self.on_note(f"The rules before this change still hold. {problem}")
        else:
            self.on_note("The rules have changed, and hold from now on.")

    def use_settings(self, settings: Settings) -> None:
        """Let other settings hold from the next turn on.

        Raises:
            AgentFileError: the agent or the model is not there; the old settings hold.
        """
        self._catalog.find(settings.agent)
        self._settings = settings
        self._revision += 1

    def trust_project(self) -> None:
        """Trust the folder of the project, as the person said, and use its files for agents, and its `.env`.

        Raises:
            AgentFileError: a file of the project is wrong; nothing of it is used.
            StorageError: the trust cannot be saved.
        """
        catalog = load_catalog(self.parts.places, trusted=True)
        self.parts.trusted.trust(self.parts.places.project)
        if self.parts.keys is not None:
            self.parts.keys.add_env_file(self.parts.places.project_env_file)
        self._catalog = catalog
        self._revision += 1

    def _load_catalog(self) -> Catalog:
        places = self.parts.places
        return load_catalog(places, trusted=self.parts.trusted.is_trusted(places.project))

    def build_agent(self, journal: SqliteJournal | MemoryJournal, ask: OnQuestion) -> ChatAgent:
        """Build the person's agent with the settings that hold now.

        Args:
            journal: the records of the conversation.
            ask: asks the person.

        Raises:
            AgentFileError: the agent, its model or a tool of it is not there.
            ConfigurationError: the model cannot be used, such as without an API key.
        """
        kit = self.parts.make_kit(self._settings, self._catalog)
        return build_agent(kit, self._settings.agent, journal, ask)

    def open_session(self, session: str | None, ask: OnQuestion) -> OpenSession:
        """Open a saved conversation, or begin another one.

        Args:
            session: its id; None begins another one.
            ask: asks the person.

        Raises:
            SessionError: it cannot be opened.
            AgentFileError: as for `build_agent`, as ConfigurationError is.
            StorageError: it cannot be saved.
        """
        parts, saved = self.parts, self._settings.session.capture or session is not None
        name = session or parts.files.make_id(parts.now())
        journal: SqliteJournal | MemoryJournal
        if session is not None:
            journal = parts.files.open(session)
        elif saved:
            journal = parts.files.create(name, self._make_facts())
        else:
            journal = MemoryJournal()
        close = journal.close if isinstance(journal, SqliteJournal) else lambda: None
        try:
            agent = self.build_agent(journal, ask)
        except BaseException:
            close()
            raise
        context = self._make_context(name)
        return OpenSession(
            id=name, journal=journal, agent=agent, context=context, saved=saved, close=close
        )

    def renew_agent(self, opened: OpenSession, ask: OnQuestion) -> OpenSession:
        """Return an open conversation with an agent of the settings that hold now. Raises as `build_agent`."""
        journal = opened.journal
        if not isinstance(journal, SqliteJournal | MemoryJournal):
            return opened
        context = self._make_context(opened.id)
        return msgspec.structs.replace(
            opened, agent=self.build_agent(journal, ask), context=context
        )

    async def close_session(self, opened: OpenSession) -> None:
        """Close a conversation; one without a word is not kept."""
        opened.close()
        if opened.saved:
            await self.parts.files.discard_empty(opened.id)

    async def prune(self) -> tuple[str, ...]:
        """Delete the conversations that the person does not want to keep any longer; return their ids."""
        days = self._settings.session.retention_days
        if days is None:
            return ()
        deleted = await self.parts.files.prune(days, self.parts.now().timestamp())
        for session in deleted:
            self.parts.changes.delete_session(session)
        return deleted

    def _make_facts(self) -> SessionFacts:
        return SessionFacts(
            project=str(self.parts.places.project),
            agent=self._settings.agent,
            created_at=self.parts.now().timestamp(),
        )

    def _make_context(self, session: str) -> CallContext:
        project = str(self.parts.places.project)
        return CallContext(
            user=self.parts.user,
            session=session,
            agent=self._settings.agent,
            request_id="",
            folder=project,
            project=project,
            repository=self.parts.repository,
        )


def find_user(environ: Mapping[str, str]) -> str:
    """Return the name of the person's account.

    >>> find_user({"LOGNAME": "ann"}), find_user({})
    ('ann', 'user')
    """
    names = (environ.get(name, "") for name in ("USER", "LOGNAME"))
    return next((name for name in names if name), NO_NAME)
