"""The settings of `holdfast serve`: from `holdfast.toml`, from `--set`, and from options of the command line.

Each value has a source, which an error names: the line of the file, `--set`, or the option. This module must never
open a journal or a socket, and must never repeat a value that may be a secret.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import msgspec
from msgspec import Struct

from holdfast.agent_file.load_agent import (
    check_names,
    convert_plain,
    find_forms,
    import_name,
    may_be_none,
)
from holdfast.agent_file.toml_source import AgentFile, KeyPath, read_agent_file
from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.hosting.tenant_service import ServiceOptions
from holdfast.models.prices import Prices
from holdfast.server.access.options import AccessLimits, AccessOptions
from holdfast.server.queued_turns import QueueOptions
from holdfast.worker.quarantine import QuarantineOptions

DAY: Final = 86_400

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})\}")
_NO_SECRETS = "Put it into the environment, and write ${NAME_OF_THE_VARIABLE}"
_RECORDS = frozenset({"access.limits", "queue.quarantine"})  # tables of their own


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The settings of the process, which stand before the tables of the file.

    Args:
        targets: the agents: files, folders of them, or `module:agent`; relative to the folder of the file.
        journal: the address of the journal, or the name of a SQLite file; None for `holdfast.db` beside the first
            target.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        root_path: the path below which a proxy shows the service; "" for none.
        grace: how long a process that is to stop waits for writing tools, in seconds.
        logs_requests: whether each request is a line on standard error.
    """

    targets: tuple[str, ...] = ()
    journal: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, between(0, 65_535)] = 8000
    root_path: str = ""
    grace: Annotated[float, between(0, DAY)] = 60.0
    logs_requests: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


TABLES: Final[Mapping[str, type[Struct]]] = {
    "": ProcessSettings,
    "access": AccessOptions,
    "limits": AccessLimits,
    "service": ServiceOptions,
    "queue": QueueOptions,
    "quarantine": QuarantineOptions,
}
"""The tables of the file, and the record that each makes. The first one has no name."""


class Setting(Struct, frozen=True):
    """A setting that is not the default.

    Args:
        value: its value.
        shown: its value as it was written, without the content of variables.
        source: where it was given.
        file: the file, if a file or `--set` has given it.
    """

    value: object
    shown: object
    source: str
    file: AgentFile | None = None


class ServeSettings:
    """All settings of a service.

    Args:
        given: those that are not the default, by their names, such as "limits.turns_per_minute".
    """

    def __init__(self, given: Mapping[str, Setting]) -> None:
        self.given = given
        self.process = self._make(ProcessSettings, "")
        self.limits = self._make(AccessLimits, "limits")
        self.access = self._make(AccessOptions, "access", limits=self.limits)
        self.service = self._make(ServiceOptions, "service")
        quarantine = (
            self._make(QuarantineOptions, "quarantine") if self._has("quarantine") else None
        )
        self.queue = None
        if quarantine is not None or self._has("queue"):
            self.queue = self._make(QueueOptions, "queue", quarantine=quarantine)

    def _has(self, table: str) -> bool:
        return any(name.startswith(f"{table}.") for name in self.given)

    def _make(self, kind: type[Any], table: str, **more: object) -> Any:
        prefix = f"{table}." if table else ""
        values = {name: self.given[f"{prefix}{name}"].value for name in self._fields(table)}
        try:
            return kind(**values, **more)
        except ConfigurationError as error:
            field = re.sub(r"\[.*", "", error.argument).rpartition(".")[2]
            self.raise_error(f"{prefix}{field}", error.problem, error.fix)

    def _fields(self, table: str) -> Iterator[str]:
        for name in TABLES[table].__struct_fields__:
            if (f"{table}.{name}" if table else name) in self.given:
                yield name

    def find_source(self, name: str, default: str) -> str:
        """Return the source of a setting for an error; `default` if it was not given."""
        setting = self.given.get(name)
        return default if setting is None else setting.source

    def raise_error(self, name: str, problem: str, fix: str = "") -> Any:
        """Raise ConfigurationError about a setting, with its source."""
        setting = self.given.get(name)
        if setting is not None and setting.file is not None:
            setting.file.raise_error(tuple(name.split(".")), problem, fix)
        raise ConfigurationError(name if setting is None else setting.source, problem, fix=fix)

    def describe(self) -> str:
        """Return all settings, a line each in the form of TOML, with their sources."""
        lines: list[str] = []
        for table, kind in TABLES.items():
            for field in msgspec.structs.fields(kind):
                name = f"{table}.{field.name}" if table else field.name
                if name in _RECORDS:
                    continue
                setting = self.given.get(name)
                value = field.default if setting is None else setting.shown
                if setting is None and field.default is msgspec.NODEFAULT:
                    value = field.default_factory()
                source = "default" if setting is None else setting.source
                text = f"# {name} is not set" if value is None else f"{name} = {_write(value)}"
                lines.append(f"{text}  # {source}")
        return "\n".join(lines)


def _write(value: object) -> str:
    """Return a value as TOML writes it, without secrets such as the password of an address."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(name)} = {_write(one)}" for name, one in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(map(_write, value))}]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    # A text of a file holds no secret, and the name of the variable that has it is shown.
    return json.dumps(text if "${" in text else redact(text), ensure_ascii=False)


def read_file(path: Path) -> dict[str, Setting]:
    """Return the settings of a file.

    Args:
        path: the file.

    Raises:
        ConfigurationError: the file cannot be read, or a key or a value is wrong. The message has the line.
    """
    file = read_agent_file(path)
    return _read_layer(file, file.content, file.find_place)


def read_assignments(assignments: Sequence[str]) -> dict[str, Setting]:
    """Return the settings of `--set NAME=VALUE`. A value that is not one of TOML is a text.

    Args:
        assignments: texts such as "limits.turns_per_minute=300".

    Raises:
        ConfigurationError: one has another form, or a name or a value is wrong.

    >>> read_assignments(["limits.turns_per_minute=300"])["limits.turns_per_minute"].value
    300
    """
    settings: dict[str, Setting] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or "\n" in text:
            raise ConfigurationError(
                "--set", "is not NAME=VALUE", fix="Write --set limits.turns_per_minute=300"
            )
        content: object = _read_value(value.strip())
        for part in reversed(name.split(".")):
            content = {part: content}
        assert isinstance(content, dict)  # noqa: S101  # REASON: a name has a part
        file = AgentFile(Path("--set"), content)
        found = _read_layer(file, content, lambda _: "--set")
        if twice := settings.keys() & found.keys():
            raise ConfigurationError("--set", f"gives {min(twice)} twice")
        settings |= found
    return settings


def _read_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _read_layer(
    file: AgentFile, content: Mapping[str, object], find_place: Callable[[KeyPath], str]
) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    tables = [table for table in TABLES if table]
    check_names(file, (), content, [*ProcessSettings.__struct_fields__, *tables])
    for name, value in content.items():
        if name not in TABLES:
            settings[name] = _read_setting(file, (name,), value, ProcessSettings, find_place)
            continue
        if not isinstance(value, Mapping):
            file.raise_error((name,), "must be a table", f"Write [{name}]")
        kind = TABLES[name]
        fields = [one for one in kind.__struct_fields__ if f"{name}.{one}" not in _RECORDS]
        check_names(file, (name,), value, fields)
        for key, inner in value.items():
            settings[f"{name}.{key}"] = _read_setting(file, (name, key), inner, kind, find_place)
    return settings


def _read_setting(
    file: AgentFile,
    at: KeyPath,
    written: object,
    kind: type[Struct],
    find_place: Callable[[KeyPath], str],
) -> Setting:
    value = _fill_in(file, at, written)
    name = ".".join(at)
    if name == "service.prices":
        value = _read_prices(file, at, value)
    elif name == "access.auth" and isinstance(value, str) and ":" in value:
        value = import_name(file, at, value)
    elif name == "targets" and isinstance(value, list):
        value = tuple(_find_target(file, one) for one in value)
    else:
        form = find_forms(get_type_hints(kind))[at[-1]]
        value = convert_plain(file, at, value, form.plain)
    shown = None if value is None and may_be_none(get_type_hints(kind)[at[-1]]) else written
    return Setting(value, shown, find_place(at), file)


def _fill_in(file: AgentFile, at: KeyPath, value: object) -> object:
    """Return a value with the content of its variables. Raises ConfigurationError for a secret."""
    if isinstance(value, Mapping):
        return {name: _fill_in(file, (*at, name), one) for name, one in value.items()}
    if isinstance(value, list):
        return [_fill_in(file, at, one) for one in value]
    if not isinstance(value, str):
        return value
    plain = _VARIABLE.sub("", value)
    if any(redact(word) != word for word in plain.split()):
        file.raise_error(at, "looks like a secret, which must not be written here", _NO_SECRETS)
    if "${" in plain:
        file.raise_error(at, "has ${ without the name of a variable and }", "Write ${NAME}")

    def fill(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            file.raise_error(
                at, f"the environment variable {match[1]} is not set", f"export {match[1]}=..."
            )
        return found

    return _VARIABLE.sub(fill, value)


def _read_prices(file: AgentFile, at: KeyPath, value: object) -> Prices:
    if not isinstance(value, str):
        file.raise_error(at, "must be the name of a file", 'Or write "known"')
    path = value if value == "known" else file.path.parent / value
    try:
        return Prices.read_file(path)
    except ConfigurationError as error:
        file.raise_error(at, error.problem, error.fix)


def _find_target(file: AgentFile, target: object) -> object:
    """Return a target; a file or folder is looked for beside the file of settings."""
    if not isinstance(target, str) or (file.path.parent / target).exists() is False:
        return target
    return str(file.path.parent / target)


def list_options(options: Mapping[str, tuple[str, object]]) -> dict[str, Setting]:
    """Return the settings that options of the command line give.

    Args:
        options: the option and the value by the names of settings; None for an option that was not given.
    """
    return {
        name: Setting(value, value, option)
        for name, (option, value) in options.items()
        if value is not None
    }


def merge(layers: Collection[Mapping[str, Setting]]) -> ServeSettings:
    """Return the settings of layers, of which a later one counts more.

    Raises:
        ConfigurationError: a value is wrong.
    """
    given: dict[str, Setting] = {}
    for layer in layers:
        given |= layer
    return ServeSettings(given)
