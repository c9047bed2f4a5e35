"""A table of calls with the decisions that are expected of them, so that rules are reviewed like code.

    calls:
      - tool: execute_command
        command: ls; rm -rf ~
        expect: {level: manual, rule: commands.remove_files}
      - tool: read_file
        arguments: {file_path: notes/today.md}
        files: {notes/today.md: text}
        expect: automatic

It must never build the facts of a call itself: the caller passes the function that does, and so judges the table
exactly as calls are judged. It must never accept a row that it does not understand whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from adh.rules.decision import Decision, RuleOrigin
from adh.rules.facts import CallFacts
from adh.rules.fields import FieldReader, join_keys
from adh.rules.levels import Level, Risk
from adh.rules.restrictions import Moment
from adh.rules.rule_fields import LEVELS, RISKS
from adh.rules.rule_files import RuleFile
from adh.rules.rule_set import RuleSet
from adh.rules.subject import COMMAND_TOOL
from adh.rules.yaml_tree import Items, Keyed, Node, RuleProblem, RulesError, Scalar, parse_yaml


class Expected(Struct, frozen=True, kw_only=True):
    """The expected decision.

    Args:
        level: its level.
        risk: its risk; None for any.
        rule: "category.name" of the rule that decides, or "none"; empty for any.
        reason: a part of the reason, in any case; empty for any.
    """

    level: Level
    risk: Risk | None = None
    rule: str = ""
    reason: str = ""


class TableCall(Struct, frozen=True, kw_only=True):
    """One row: a call, its surroundings, and the expected decision.

    Args:
        name: its name in a report.
        line: its line in the file.
        tool: the name of the tool.
        arguments: its arguments.
        expected: the expected decision.
        folder: the folder that it works in, inside the project; "." for the project itself.
        files: files that must exist, by their path in the project, with their text.
        links: symbolic links that must exist, by their path in the project, with their target.
        at: when it happens; None for the moment of the test.
        recent: how many seconds ago each earlier call was that the same rule decided.
        safety: whether safety is on.
    """

    name: str
    line: int
    tool: str
    arguments: Mapping[str, object]
    expected: Expected
    folder: str = "."
    files: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    at: datetime | None = None
    recent: tuple[float, ...] = ()
    safety: bool = True


class TableRow(Struct, frozen=True):
    """The outcome of a call.

    Args:
        call: the call.
        decision: the decision.
        differences: the differences from the expected decision; empty if there are none.
    """

    call: TableCall
    decision: Decision
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the decision is as expected."""
        return not self.differences


class TableReport(Struct, frozen=True):
    """The outcomes of all calls.

    Args:
        rows: one for each call.
        undecided: the rules of the person that decided no call of the table.
    """

    rows: tuple[TableRow, ...]
    undecided: tuple[RuleOrigin, ...]

    @property
    def passed(self) -> bool:
        """Whether every decision is as expected."""
        return all(row.passed for row in self.rows)


def run_table(
    calls: tuple[TableCall, ...],
    rules: RuleSet,
    build_facts: Callable[[TableCall], CallFacts],
    now: datetime,
) -> TableReport:
    """Decide the calls of a table and compare.

    Args:
        calls: the calls.
        rules: the rules.
        build_facts: resolves the paths of a call and parses its command.
        now: the moment of calls without one, with its zone.
    """
    rows: list[TableRow] = []
    for call in calls:
        moment = Moment(call.at or now, _constant(call.recent), call.safety)
        decision = rules.decide(build_facts(call), moment)
        rows.append(TableRow(call, decision, tuple(_compare(call.expected, decision))))
    seen = {row.decision.rule for row in rows}
    seen |= {part.rule for row in rows for part in row.decision.parts}
    own = (rule.origin for rule in rules.rules if rule.enabled and not rule.built_in)
    return TableReport(tuple(rows), tuple(origin for origin in own if origin not in seen))


def format_report(report: TableReport) -> Iterator[str]:
    """Yield a report as lines: one for each call, with the differences of those that failed."""
    for row in report.rows:
        rule = row.decision.rule
        by = f" by {rule}" if rule else ""
        sign = "ok  " if row.passed else "FAIL"
        yield f"{sign} {row.call.name} (line {row.call.line}): {row.decision.level.word}{by}"
        for difference in row.differences:
            yield f"     {difference}"
    for origin in report.undecided:
        yield f"note: no call is decided by {origin}"
    failed = sum(not row.passed for row in report.rows)
    yield f"{len(report.rows)} calls, {failed} failed"


def _constant(recent: tuple[float, ...]) -> Callable[[str], tuple[float, ...]]:
    def list_recent(rule: str) -> tuple[float, ...]:
        del rule
        return recent

    return list_recent


def _compare(expected: Expected, decision: Decision) -> Iterator[str]:
    if decision.level is not expected.level:
        why = f" ({decision.reason})" if decision.reason else ""
        yield f"expected {expected.level.word}, got {decision.level.word}{why}"
    if expected.risk is not None and decision.risk is not expected.risk:
        yield f"expected risk {expected.risk.word}, got {decision.risk.word}"
    origin = decision.rule
    found = f"{origin.category}.{origin.name}" if origin else "none"
    if expected.rule and expected.rule != found:
        yield f"expected the rule {expected.rule}, got {found}"
    if expected.reason.casefold() not in decision.reason.casefold():
        yield f'expected a reason with "{expected.reason}", got "{decision.reason}"'


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
