"""The rules that hold: read at the start, and again when a file changes.

A broken file stops the start. Later it changes nothing: the rules before it hold, and the person is notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from watchfiles import Change, awatch

from adh.rules.rule_files import RuleFile, built_in_files, load_rules
from adh.rules.rule_set import RuleSet
from adh.rules.yaml_tree import RuleProblem, RulesError
from adh.storage.places import Places
from adh.storage.private_files import read_private_file
from adh.storage.storage_errors import StorageError, explain_os_error

LARGEST_FILE = 1_000_000
_ENDINGS = (".yaml", ".yml")


class RuleBook:
    """The rules of a person.

    Args:
        places: where the person's rules and preferences are.
        folder: a further folder of rules, as `--policy-dir` names it.
        file: a further file of rules, as `--policy` names it.

    Raises:
        RulesError: a file is wrong or cannot be read; all problems are in it.
    """

    def __init__(
        self, places: Places, folder: Path | None = None, file: Path | None = None
    ) -> None:
        self._places = places
        self._folder = folder
        self._file = file
        self._rules = self._load()

    @property
    def rules(self) -> RuleSet:
        """The rules that hold now."""
        return self._rules

    def reload(self) -> str:
        """Read the files again; return their problem, or an empty text.

        With a problem, the rules before it still hold.
        """
        try:
            self._rules = self._load()
        except RulesError as error:
            return str(error)
        return ""

    async def watch(self, on_change: Callable[[str], None], stop: asyncio.Event) -> None:
        """Read the files again whenever one changes, until `stop` is set.

        Args:
            on_change: called after each change with the problem, or with an empty text.
            stop: ends the watching.
        """
        watched = [place for place in self._list_watched() if place.exists()]
        if not watched:
            return
        async for changes in awatch(*watched, stop_event=stop, watch_filter=self._concerns):
            if changes:
                on_change(self.reload())

    def _concerns(self, _change: Change, path: str) -> bool:
        return path.endswith(_ENDINGS) or Path(path) in self._list_folders()

    def _list_watched(self) -> list[Path]:
        further = [self._folder, self._file.parent if self._file is not None else None]
        return [self._places.config, *(place for place in further if place is not None)]

    def _list_folders(self) -> list[Path]:
        return [self._places.policies, *([self._folder] if self._folder is not None else [])]

    def _load(self) -> RuleSet:
        problems: list[RuleProblem] = []
        files = [*built_in_files()]
        for folder in self._list_folders():
            required = folder is self._folder
            files += self._read_folder(folder, problems, required=required)
        if self._file is not None:
            files += self._read_files([self._file], self._file.parent.parent, problems)
        preferences = self._places.preferences_file
        wishes = self._read_files([preferences], preferences.parent, problems, required=False)
        if problems:
            raise RulesError(problems)
        return load_rules(files, wishes[0] if wishes else None)

    def _read_folder(
        self, folder: Path, problems: list[RuleProblem], *, required: bool
    ) -> list[RuleFile]:
        try:
            entries = sorted(folder.iterdir())
        except FileNotFoundError:
            if required:
                fix = "name a folder that exists"
                problems.append(RuleProblem(str(folder), 0, "", "does not exist", fix))
            return []
        except OSError as error:
            problems.append(RuleProblem(str(folder), 0, "", *explain_os_error(error)))
            return []
        hidden = (".", "_")
        paths = [one for one in entries if one.suffix in _ENDINGS and one.name[0] not in hidden]
        return self._read_files(paths, folder.parent, problems)

    def _read_files(
        self,
        paths: Sequence[Path],
        shown_from: Path,
        problems: list[RuleProblem],
        *,
        required: bool = True,
    ) -> list[RuleFile]:
        found: list[RuleFile] = []
        for path in paths:
            name = str(path.relative_to(shown_from))
            try:
                content = read_private_file(path, LARGEST_FILE)
                if content is not None:
                    found.append(RuleFile(name, content.decode()))
                elif required:
                    problems.append(RuleProblem(name, 0, "", "does not exist", "check the path"))
            except StorageError as error:
                problems.append(RuleProblem(name, 0, "", error.problem, error.fix))
            except UnicodeDecodeError as error:
                line = error.object[: error.start].count(b"\n") + 1
                problems.append(RuleProblem(name, line, "", "is not UTF-8", "save it as UTF-8"))
        return found
