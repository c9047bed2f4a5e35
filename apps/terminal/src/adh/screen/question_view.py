"""The content of a question, as values and as styled text. It is pure.

Every value of a question comes from a model or a tool: it must never be shown with invisible characters or as markup.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from rich.text import Text

from adh.rules.levels import Risk
from adh.screen.colours import Colours
from holdfast.middleware import escape_invisible

_SHORT_LINES = 6
_SHORT_CHARACTERS = 400


class CheckView(Struct, frozen=True):
    """The outcome of a safety check."""

    name: str
    passed: bool
    detail: str = ""


class QuestionView(Struct, frozen=True, kw_only=True):
    """The content of any question of a turn; a field that the question does not have is empty.

    Args:
        tool: the tool that wants to run; empty for a question that is not about a call.
        arguments: its arguments.
        description: the work of the tool.
        source: who asks, when no agent is named.
        level, risk, rule: the decision of the rules.
        agent: the agent that asks.
        folder: where a command runs.
        reason: why the level is stricter than the rule says.
        commands: the simple commands of the line.
        paths: each path with its access.
        diff: the change of a write, as a unified diff.
        checks: the safety checks.
        restrictions: further demands of the rules.
        may_remember: whether the answer may hold for later calls.
        may_edit: whether the arguments may be changed.
        inline: whether it is shown in the chat instead of above it.
        must_type: the word that the person must type to confirm; empty for none.
    """

    tool: str = ""
    arguments: dict[str, object] = {}
    description: str = ""
    source: str = ""
    level: str = ""
    risk: str = ""
    rule: str = ""
    agent: str = ""
    folder: str = ""
    reason: str = ""
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    diff: str = ""
    checks: tuple[CheckView, ...] = ()
    restrictions: tuple[str, ...] = ()
    may_remember: bool = False
    may_edit: bool = False
    inline: bool = False
    must_type: str = ""

    @property
    def title(self) -> str:
        """The first line of the question."""
        if not self.tool:
            return "⚠️ The agent asks"
        return f"⚠️ Confirmation Required: {escape_invisible(self.tool)}"


def read_question(question: object) -> QuestionView:
    """Return the content of a question of the library, of any class.

    >>> from holdfast import PermissionQuestion
    >>> read_question(PermissionQuestion(tool="pay", arguments={"sum": 3})).title
    '⚠️ Confirmation Required: pay'
    """
    return msgspec.convert(msgspec.to_builtins(question), QuestionView)


def read_fields(question: object) -> dict[str, object]:
    """Return the fields of a question that is not about a call, without those that only name it."""
    fields = msgspec.to_builtins(question)
    return {name: value for name, value in fields.items() if name not in ("key", "binding", "type")}


def describe_question(view: QuestionView, colours: Colours, *, details: bool) -> Text:
    """Return the body of a question.

    Args:
        view: the question.
        colours: the colours of the theme.
        details: whether to show every parameter whole, and everything else that is known.
    """
    body = Text(style=colours.text)
    for label, value in _list_facts(view, details=details):
        _add_fact(body, label, value, colours)
    _add_lines(body, "Commands", [f"$ {one}" for one in view.commands], colours, colours.accent)
    _add_lines(body, "Paths", view.paths, colours, colours.text)
    if view.diff:
        _add_label(body, "Changes", colours)
        _add_diff(body, view.diff, colours)
    if view.arguments:
        _add_label(body, "Parameters", colours)
        body.append(describe_arguments(view.arguments, whole=details))
    if view.checks:
        _add_label(body, "Safety checks", colours)
        for check in view.checks:
            _add_check(body, check, colours)
    _add_lines(body, "Restrictions", view.restrictions, colours, colours.text)
    body.rstrip()
    return body


def _add_lines(body: Text, label: str, lines: Sequence[str], colours: Colours, style: str) -> None:
    if lines:
        _add_label(body, label, colours)
    for line in lines:
        body.append(f"  {escape_invisible(line)}\n", style=style)


def _list_facts(view: QuestionView, *, details: bool) -> list[tuple[str, str]]:
    risk = f"{Risk.parse(view.risk).icon} {view.risk}" if view.risk else ""
    level = f"level {view.level}" if view.level else ""
    asked = f"{view.agent or view.source}" + (f", in {view.folder}" if view.folder else "")
    facts = [
        ("Risk", ", ".join(part for part in (risk, level) if part)),
        ("Rule", view.rule or ("no rule matches: asked to be safe" if view.level else "")),
        ("Because", view.reason),
        ("Asked by", asked),
    ]
    if details:
        facts.append(("Tool", view.description))
    return [(label, value) for label, value in facts if value]


def _add_fact(body: Text, label: str, value: str, colours: Colours) -> None:
    body.append(f"{label:<9} ", style=colours.faint)
    body.append(f"{escape_invisible(value)}\n")


def _add_label(body: Text, label: str, colours: Colours) -> None:
    body.append(f"{label}\n", style=f"bold {colours.faint}")


def _add_diff(body: Text, diff: str, colours: Colours) -> None:
    styles = {"+": colours.good, "-": colours.bad, "@": colours.accent}
    lines = escape_invisible(diff).rstrip("\n").split("\n")
    # The first two lines name the file, which stands above.
    named = len(lines) > 1 and lines[0].startswith("--- ") and lines[1].startswith("+++ ")
    for line in lines[2:] if named else lines:
        body.append(f"  {line}\n", style=styles.get(line[:1], ""))


def _add_check(body: Text, check: CheckView, colours: Colours) -> None:
    sign, word = ("✓", "passed") if check.passed else ("✗", "failed")
    detail = f": {escape_invisible(check.detail)}" if check.detail else ""
    style = colours.good if check.passed else colours.bad
    body.append(f"  {sign} {escape_invisible(check.name)} {word}{detail}\n", style=style)


def describe_arguments(arguments: Mapping[str, object], *, whole: bool) -> str:
    """Return the arguments of a call as text, one below the other.

    Args:
        arguments: by their names.
        whole: whether long values are shown to their end.
    """
    return "".join(
        f"  {escape_invisible(name)}: {_describe_value(value, whole=whole)}\n"
        for name, value in arguments.items()
    )


def _describe_value(value: object, *, whole: bool) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    shown = text
    if not whole:
        shown = "\n".join(text.split("\n")[:_SHORT_LINES])[:_SHORT_CHARACTERS]
    cut = f" … ({len(text):,} characters; Details shows all)" if len(shown) < len(text) else ""
    lines = (escape_invisible(shown) + cut).split("\n")
    return lines[0] if len(lines) == 1 else "".join(f"\n    {line}" for line in lines)
