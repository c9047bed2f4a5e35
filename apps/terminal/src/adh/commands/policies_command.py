"""`adh policies`: the rules that hold, which rule decides a call and why, and tests of rules.

It must never decide differently from the agent: it builds the facts of a call by the same function.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from adh.approval.call_facts import build_facts
from adh.commands.exit_statuses import CommandError, ExitStatus
from adh.rules.decision_table import TableCall, TableReport, format_report, parse_table, run_table
from adh.rules.explain import explain_call, format_explanation, format_rules
from adh.rules.facts import CallFacts
from adh.rules.rule_files import RuleFile
from adh.rules.rule_set import Moment, RuleSet
from adh.storage.places import Places, find_places
from adh.tools.tool_registry import TOOL_EFFECTS
from adh.workspace.rule_book import RuleBook
from holdfast.middleware import escape_invisible

_MAIN_PARAMETERS = {
    "execute_command": "command",
    "read_file": "file_path",
    "write_file": "file_path",
    "get_file_info": "file_path",
    "delete_file": "file_path",
    "list_directory": "directory",
    "create_directory": "directory",
    "fetch_url": "url",
}
_MOST_BYTES = 1_000_000


def main(args: argparse.Namespace) -> int:
    """Show rules, explain a call, or test a table; return the exit status.

    Args:
        args: the words of the command.

    Raises:
        RulesError: a file of rules, or the table, has an error.
        CommandError: the words do not name a call.
    """
    places = find_places(os.environ, Path.cwd())
    rules = RuleBook(places, args.policy_dir).rules
    match args.words:
        case []:
            _print_lines(format_rules(rules))
        case ["test", file]:
            report = check_table(Path(file), rules, places, _find_now())
            _print_lines(format_report(report))
            return ExitStatus.DONE if report.passed else ExitStatus.FAILED
        case ["test", *_]:
            raise CommandError("policies test needs one file", fix="adh policies test calls.yaml")
        case [tool]:
            _print_lines(format_rules(rules, tool))
        case [tool, *words]:
            facts = build_facts(
                tool, parse_call(tool, words), places, str(places.project), TOOL_EFFECTS
            )
            moment = Moment(_find_now(), lambda _rule: (), not args.no_safety)
            _print_lines(format_explanation(explain_call(rules, facts, moment), whole=args.all))
    return ExitStatus.DONE


def parse_call(tool: str, words: Sequence[str]) -> dict[str, object]:
    """Return the arguments that some words mean.

    Args:
        tool: the tool.
        words: a JSON object; or `name=value` each; or the value of the tool's main parameter.

    Raises:
        CommandError: they are none of these.

    >>> parse_call("execute_command", ["git", "status"])
    {'command': 'git status'}
    >>> parse_call("read_file", ["file_path=a.py", "max_lines=3"])
    {'file_path': 'a.py', 'max_lines': 3}
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _parse_object(words[0])
    main_parameter = _MAIN_PARAMETERS.get(tool)
    pairs = [word.partition("=") for word in words]
    named = all(sign and name.isidentifier() for name, sign, _ in pairs)
    if named and tool != "execute_command":
        return {name: _parse_value(value) for name, _, value in pairs}
    if named and pairs[0][0] in ("command", "cwd", "timeout"):
        return {name: _parse_value(value) for name, _, value in pairs}
    if main_parameter == "command":
        return {"command": " ".join(words)}
    if main_parameter is not None and len(words) == 1:
        return {main_parameter: words[0]}
    raise CommandError(
        f"the arguments of {tool} are not clear",
        fix="Write them as name=value, or as one JSON object in quotation marks",
    )


def check_table(file: Path, rules: RuleSet, places: Places, now: datetime) -> TableReport:
    """Decide the calls of a table, each in an empty project that has the files that its row names.

    Args:
        file: the table.
        rules: the rules.
        places: the person's folders; the project of a call is its own.
        now: the moment of calls without one.

    Raises:
        RulesError: the table has an error.
        OSError: it cannot be read.
    """
    with file.open("rb") as stream:
        text = stream.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    calls = parse_table(RuleFile(str(file), text))
    with tempfile.TemporaryDirectory(prefix="adh-table-") as folder:

        def build(call: TableCall) -> CallFacts:
            project = Path(tempfile.mkdtemp(dir=folder)).resolve()
            _lay_out(call, project)
            inside = msgspec.structs.replace(places, project=project)
            working = os.path.realpath(project / call.folder)
            return build_facts(call.tool, call.arguments, inside, working, TOOL_EFFECTS)

        return run_table(calls, rules, build, now)


def _lay_out(call: TableCall, project: Path) -> None:
    """Write the files and links of a row. Their paths are inside of the project, as the table's reader checks."""
    (project / call.folder).mkdir(parents=True, exist_ok=True)
    for name, text in call.files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, target in call.links.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)


def _parse_object(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, object])
    except msgspec.DecodeError as error:
        raise CommandError(f"the arguments are not a JSON object: {error}") from None


def _parse_value(text: str) -> object:
    try:
        value: object = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return value


def _find_now() -> datetime:
    return datetime.now().astimezone()


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(escape_invisible(line))
