"""The workspace as the screen sees it: facts for the footer, rules as rows, choices.

It must never show or keep an API key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from adh.conversation.conversation import Conversation
from adh.rules.explain import format_conditions
from adh.rules.judging import describe_restriction
from adh.rules.rule import Rule
from adh.screen.conversation_port import Choice, FooterFacts, RuleRow
from adh.storage.settings import Settings
from adh.workspace.git_branch import find_branch
from adh.workspace.workspace import Workspace
from holdfast.models import PRESETS

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
        """What the footer shows."""
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
        """What the project has for agents that is not used, since its folder is not trusted."""
        return self._workspace.catalog.untrusted

    def trust_project(self) -> None:
        """Use what the project has for agents, from the next turn on."""
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
