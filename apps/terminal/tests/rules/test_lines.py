"""Command lines as the parser of bash reads them, judged by the built-in rules."""

import posixpath
from pathlib import Path

from apps.terminal.tests.rules.calls import BUILT_IN, NOON, PROJECT

from adh.rules.decision_table import TableCall, format_report, parse_table, run_table
from adh.rules.facts import CallFacts
from adh.rules.rule_files import RuleFile
from adh.shell.command_line import parse_command_line
from adh.shell.uses import find_uses

TABLE = Path(__file__).with_name("lines.yaml")


def build_facts(call: TableCall) -> CallFacts:
    line = parse_command_line(str(call.arguments["command"]))
    return CallFacts(
        tool=call.tool,
        arguments=call.arguments,
        commands=find_uses(line, PROJECT, "/h", posixpath.normpath),
        unparsed=line.problem,
        project=PROJECT,
        folder=PROJECT,
        home="/h",
    )


def test_lines_are_decided_as_the_table_says() -> None:
    calls = parse_table(RuleFile(TABLE.name, TABLE.read_text("utf-8")))
    assert len(calls) > 80
    report = run_table(calls, BUILT_IN, build_facts, NOON)
    assert report.passed, "\n".join(
        text for text in format_report(report) if not text.startswith("ok")
    )
