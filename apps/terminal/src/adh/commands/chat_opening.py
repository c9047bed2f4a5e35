"""Opens the workspace and a conversation in it, for the screen and for a turn without one.

The screen sees the workspace as facts for the footer, rules as rows, and choices. This module must never choose
a conversation that the person did not name, must never show or keep an API key, and must never start git, which
runs programs that a repository names.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from adh.commands.chat_start import LAST_SESSION, ChatStart
from adh.commands.exit_statuses import CommandError
from adh.conversation.conversation import Conversation
from adh.rules.explain import format_conditions
from adh.rules.judging import describe_restriction
from adh.rules.rule import Rule
from adh.screen.conversation_port import Choice, FooterFacts, OpenChat, RuleRow
from adh.storage.settings import Settings
from adh.workspace.assembly import WorkspaceOptions, open_workspace
from adh.workspace.session_files import SessionFiles
from adh.workspace.workspace import Workspace
from holdfast.models import PRESETS

_LIST = "adh sessions list shows those of this folder, with --all those of every folder"


def make_options(start: ChatStart) -> WorkspaceOptions:
    """Return how the workspace is opened."""
    return WorkspaceOptions(
        project=start.project,
        environ=start.environ,
        policy_folder=start.policy_folder,
        policy_file=start.policy_file,
        safety=start.safety,
        model=start.model,
        agent=start.agent,
        base_url=start.base_url,
        keychain=start.keychain,
    )


@asynccontextmanager
async def open_chat(start: ChatStart) -> AsyncIterator[OpenChat]:
    """Open a workspace and a conversation for the screen, which starts and closes the conversation.

    Args:
        start: how.

    Raises:
        CommandError: there is no such conversation.
        Exception: as `open_workspace`.
    """
    async with open_workspace(make_options(start)) as workspace:
        places = workspace.parts.places
        session = await find_session(workspace.parts.files, start.session, str(places.project))
        conversation = Conversation(workspace, session)
        yield OpenChat(conversation, ScreenWorkspace(workspace, conversation))


async def find_session(files: SessionFiles, wanted: str | None, project: str) -> str | None:
    """Return the id of the conversation that is wanted; None for another one.

    Args:
        files: the saved conversations.
        wanted: an id or the beginning of one; "" for the last one of the project; None for another one.
        project: the folder of the project.

    Raises:
        CommandError: there is none, or several begin like this.
    """
    if wanted is None:
        return None
    if wanted != LAST_SESSION:
        return resolve_id(files, wanted)
    found = await files.find_latest(project)
    if found is None:
        raise CommandError("there is no conversation of this folder to resume", fix=_LIST)
    return found


def resolve_id(files: SessionFiles, word: str) -> str:
    """Return the id of the only conversation that begins with a word. Raises CommandError."""
    if files.exists(word):
        return word
    found = [session for session in files.list_ids() if session.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:5])
        raise CommandError(f"several conversations begin with {word}: {shown}", fix=_LIST)
    raise CommandError(f"there is no conversation {word}", fix=_LIST)


_BRANCH_SECONDS = 2.0


class ScreenWorkspace:
    """A workspace and its conversation, as the screen uses them.

    Args:
        workspace: the workspace.
        conversation: the conversation that is on the screen.
        monotonic: a clock in seconds that never jumps.
    """

    def __init__(
        self,
        workspace: Workspace,
        conversation: Conversation,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workspace = workspace
        self._conversation = conversation
        self._monotonic = monotonic
        self._branch = ""
        self._branch_until = monotonic()

    @property
    def facts(self) -> FooterFacts:
        """The facts that the footer shows."""
        places, settings = self._workspace.parts.places, self._workspace.settings
        return FooterFacts(
            folder=shorten_folder(places.project, places.home),
            branch=self._find_branch(),
            agent=settings.agent,
            model=settings.model,
            session=self._conversation.session,
            safety=self._workspace.parts.switch_is_on,
        )

    def _find_branch(self) -> str:
        now = self._monotonic()
        if now >= self._branch_until:
            self._branch_until = now + _BRANCH_SECONDS
            self._branch = find_branch(self._workspace.parts.repository)
        return self._branch

    @property
    def settings(self) -> Settings:
        """The settings that hold."""
        return self._workspace.settings

    @property
    def untrusted(self) -> Sequence[str]:
        """The files for agents of the project that are not used, since its folder is not trusted."""
        return self._workspace.catalog.untrusted

    def trust_project(self) -> None:
        """Use the project's files for agents, from the next turn on."""
        self._workspace.trust_project()

    def change_settings(self, changes: Mapping[str, object]) -> None:
        """Change and save settings."""
        self._workspace.change_settings(changes)

    def list_rules(self) -> Sequence[RuleRow]:
        """Return the rules that hold, in the order of decision."""
        return [_describe_rule(rule) for rule in self._workspace.parts.rules.rules.rules]

    def list_models(self) -> Sequence[Choice]:
        """Return the aliases of models, and the model of the settings if it has none."""
        aliases = self._workspace.catalog.aliases
        found = [Choice(name, alias.model_id) for name, alias in sorted(aliases.items())]
        current = self._workspace.settings.model
        return found if current in aliases else [Choice(current, "now"), *found]

    def list_agents(self) -> Sequence[Choice]:
        """Return the agents."""
        agents = self._workspace.catalog.agents
        return [Choice(name, agent.description) for name, agent in sorted(agents.items())]

    def list_key_names(self) -> Sequence[Choice]:
        """Return the variables of API keys, with the providers that use them."""
        users: dict[str, list[str]] = {}
        for name, preset in PRESETS.items():
            if preset.key_env:
                users.setdefault(preset.key_env[0], []).append(name)
        return [Choice(variable, ", ".join(names)) for variable, names in sorted(users.items())]

    def set_safety(self, on: bool) -> None:
        """Turn the safety switch, for this session."""
        self._workspace.set_safety(on=on, session=self._conversation.session)

    def save_key(self, name: str, key: str) -> str:
        """Save an API key in the system's keychain, and return where it is."""
        provider = next(
            provider for provider, preset in PRESETS.items() if preset.key_env[:1] == (name,)
        )
        self._workspace.save_key(provider, key)
        return "the system's keychain"


def shorten_folder(folder: Path, home: Path) -> str:
    """Return a folder with `~` for the home.

    >>> shorten_folder(Path("/h/ann/shop"), Path("/h/ann")), shorten_folder(Path("/srv"), Path("/h"))
    ('~/shop', '/srv')
    """
    if folder == home:
        return "~"
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


def _describe_rule(rule: Rule) -> RuleRow:
    return RuleRow(
        name=rule.key,
        pattern=", ".join(rule.pattern),
        level=rule.level.word,
        risk=rule.risk.word,
        priority=rule.priority,
        origin=f"{rule.origin.file}:{rule.origin.line}",
        conditions="; ".join(format_conditions(rule.conditions)),
        checks=", ".join(rule.checks),
        restrictions="; ".join(map(describe_restriction, rule.restrictions)),
        enabled=rule.enabled,
    )


_MOST_BYTES = 4_096
_BRANCHES = "ref: refs/heads/"
_SHORT = 8


def find_branch(repository: str) -> str:
    """Return the branch of a repository; a part of the commit if none is checked out; empty if unknown.

    Args:
        repository: its top folder; empty for none.
    """
    if not repository:
        return ""
    place = Path(repository) / ".git"
    if place.is_file():  # a worktree or a submodule
        named = _read_line(place).removeprefix("gitdir:").strip()
        place = Path(repository, named)
    head = _read_line(place / "HEAD")
    if head.startswith(_BRANCHES):
        return head.removeprefix(_BRANCHES)
    return head[:_SHORT] if head.isalnum() else ""


def _read_line(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
