"""Reading a table of calls and expected decisions from its file.

It must never accept a row that it does not understand whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec.structs import replace

from adh.rules.decision_table import Expected, TableCall
from adh.rules.fields import FieldReader, join_keys
from adh.rules.levels import Level
from adh.rules.problems import RuleProblem, RulesError
from adh.rules.rule_fields import LEVELS, RISKS
from adh.rules.rule_files import RuleFile
from adh.rules.subject import COMMAND_TOOL
from adh.rules.yaml_tree import Items, Keyed, Node, Scalar, parse_yaml

_CALL = (
    "name",
    "tool",
    "command",
    "arguments",
    "folder",
    "files",
    "links",
    "at",
    "recent",
    "safety",
    "expect",
)
_EXPECT = ("level", "risk", "rule", "reason")


def parse_table(file: RuleFile) -> tuple[TableCall, ...]:
    """Return the calls of a table.

    Args:
        file: the table.

    Raises:
        RulesError: with every problem of the file.
    """
    node, wrong = parse_yaml(file.name, file.text)
    problems = list(wrong)
    reader = FieldReader(file.name, problems)
    calls: list[TableCall] = []
    if node is not None:
        calls = list(_read_calls(reader, node))
    if not calls and not problems:
        fix = "write a list of calls below `calls:`"
        problems.append(RuleProblem(file.name, 1, "calls", "no call to test", fix))
    if problems:
        raise RulesError(sorted(problems, key=lambda one: one.line))
    return tuple(calls)


def _read_calls(reader: FieldReader, root: Node) -> Iterator[TableCall]:
    fields = reader.read_known(root, "", ("calls",))
    node = fields.get("calls")
    if node is None:
        return
    if not isinstance(node, Items):
        reader.report(node, "calls", "not a list", "begin each call with a dash")
        return
    for at, item in enumerate(node.nodes):
        call = _read_call(reader, item, f"calls[{at}]")
        if call is not None:
            yield call


def _read_call(reader: FieldReader, node: Node, key: str) -> TableCall | None:
    fields = reader.read_known(node, key, _CALL)
    texts = {
        name: reader.read_text(fields[name], join_keys(key, name))
        for name in ("name", "tool", "folder")
        if name in fields
    }
    if "folder" in texts:
        _check_inside(reader, fields["folder"], join_keys(key, "folder"), texts["folder"])
    arguments = _read_arguments(reader, fields, key)
    tool = texts.get("tool") or (COMMAND_TOOL if "command" in fields else "")
    if isinstance(node, Keyed) and not tool and "tool" not in fields:
        reader.report(node, key, "tool is missing", "write tool: or command: in it")
    expected = _read_expected(reader, node, fields.get("expect"), join_keys(key, "expect"))
    call = TableCall(
        name=texts.get("name") or _name_call(tool, arguments),
        line=node.line,
        tool=tool,
        arguments=arguments,
        expected=expected,
        folder=texts.get("folder") or ".",
    )
    return _add_surroundings(reader, fields, key, call)


def _add_surroundings(
    reader: FieldReader, fields: Mapping[str, Node], key: str, call: TableCall
) -> TableCall:
    changes: dict[str, object] = {}
    for name in ("files", "links"):
        if name in fields:
            changes[name] = _read_text_map(reader, fields[name], join_keys(key, name))
    if "at" in fields:
        changes["at"] = _read_time(reader, fields["at"], join_keys(key, "at"))
    if "recent" in fields:
        changes["recent"] = _read_recent(reader, fields["recent"], join_keys(key, "recent"))
    if "safety" in fields:
        changes["safety"] = reader.read_flag(fields["safety"], join_keys(key, "safety"), True)
    return replace(call, **changes)


def _read_arguments(reader: FieldReader, fields: Mapping[str, Node], key: str) -> dict[str, object]:
    arguments: dict[str, object] = {}
    if "arguments" in fields:
        found = reader.read_mapping(fields["arguments"], join_keys(key, "arguments"))
        arguments = {name: _convert(value) for name, (_, value) in found.items()}
    if "command" in fields:
        place = join_keys(key, "command")
        if "command" in arguments:
            reader.report(fields["command"], place, "is among the arguments too", "keep one")
        arguments["command"] = reader.read_text(fields["command"], place)
    return arguments


def _read_expected(reader: FieldReader, call: Node, node: Node | None, key: str) -> Expected:
    if node is None:
        if isinstance(call, Keyed):
            reader.report(call, key, "is missing", "write the level that is expected")
        return Expected(level=Level.DENY)
    if not isinstance(node, Keyed):
        return Expected(level=reader.read_word(node, key, LEVELS) or Level.AUTOMATIC)
    fields = reader.read_known(node, key, _EXPECT)
    if "level" not in fields:
        reader.report(node, key, "level is missing", "write level in it")
        return Expected(level=Level.DENY)
    risk = fields.get("risk")
    texts = {
        name: reader.read_text(fields[name], join_keys(key, name))
        for name in ("rule", "reason")
        if name in fields
    }
    return Expected(
        level=reader.read_word(fields["level"], join_keys(key, "level"), LEVELS) or Level.AUTOMATIC,
        risk=None if risk is None else reader.read_word(risk, join_keys(key, "risk"), RISKS),
        rule=texts.get("rule", ""),
        reason=texts.get("reason", ""),
    )


def _read_text_map(reader: FieldReader, node: Node, key: str) -> dict[str, str]:
    found = reader.read_mapping(node, key)
    for name, (place, _) in found.items():
        _check_inside(reader, place, join_keys(key, name), name)
    return {
        name: value.text
        if isinstance(value, Scalar)
        else reader.read_text(value, join_keys(key, name))
        for name, (_, value) in found.items()
    }


def _check_inside(reader: FieldReader, node: Node, key: str, path: str) -> None:
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        fix = "write a path inside of the project"
        reader.report(node, key, "not a path in the project", fix)


def _read_time(reader: FieldReader, node: Node, key: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(node.text) if isinstance(node, Scalar) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        fix = "write date, time and zone, such as 2026-07-01T12:00:00+02:00"
        reader.report(node, key, "not a time with a zone", fix)
        return None
    return found


def _read_recent(reader: FieldReader, node: Node, key: str) -> tuple[float, ...]:
    nodes = node.nodes if isinstance(node, Items) else (node,)
    found = [reader.read_whole(one, f"{key}[{at}]", 0, 10**9) for at, one in enumerate(nodes)]
    return tuple(float(one) for one in found if one is not None)


def _convert(node: Node) -> object:
    if isinstance(node, Items):
        return [_convert(item) for item in node.nodes]
    if isinstance(node, Keyed):
        return {key.text: _convert(value) for key, value in node.entries}
    if not isinstance(node, Scalar):
        return None
    return node.value


def _name_call(tool: str, arguments: Mapping[str, object]) -> str:
    first = next((str(value) for value in arguments.values()), "")
    return f"{tool} {first[:60]}".strip()
