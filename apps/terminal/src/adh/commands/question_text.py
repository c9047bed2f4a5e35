"""The text of a question at a terminal without a screen.

Everything here is pure. What somebody is asked to approve is never shortened, and no character of a model can
move the cursor or hide a part of it.
"""

from __future__ import annotations

import json

from adh.approval.question import ApprovalQuestion
from holdfast.middleware import escape_invisible

PROCEED = "Proceed? [y/N] "
_ICONS = {"none": "✅", "low": "ℹ️", "medium": "⚠️", "high": "⛔", "critical": "🚨"}  # noqa: RUF001  # REASON: signs
_YES = {"y", "yes"}


def format_approval(question: ApprovalQuestion) -> list[str]:
    """Return the lines of a question about a call; the prompt is not one of them.

    Args:
        question: the question.
    """
    icon = _ICONS.get(question.risk, "⚠️")
    lines = [
        f"{icon} Confirmation Required: {question.tool}",
        f"  risk {question.risk}, level {question.level}, {_describe_rule(question.rule)}",
        f"  asked by {question.agent or 'the agent'}, in {question.folder}",
    ]
    if question.reason:
        lines.append(f"  {question.reason}")
    if question.commands:
        lines += ["  commands:", *(f"    {command}" for command in question.commands)]
    hidden = {"content"} if question.diff else set()
    for name, value in question.arguments.items():
        if name not in hidden:
            lines += _format_argument(name, value)
    if question.paths:
        lines += ["  paths:", *(f"    {path}" for path in question.paths)]
    if question.diff:
        lines += ["  change:", *(f"    {line}" for line in question.diff.splitlines())]
    if question.checks:
        lines.append(f"  checks: {', '.join(str(check) for check in question.checks)}")
    if question.restrictions:
        lines.append(f"  restrictions: {', '.join(question.restrictions)}")
    return [escape_invisible(row) for line in lines for row in line.split("\n")]


def format_prompt(question: ApprovalQuestion) -> str:
    """Return the text before the answer."""
    if question.must_type:
        return f"Type {escape_invisible(question.must_type)} to proceed: "
    return PROCEED


def is_yes(question: ApprovalQuestion, line: str) -> bool:
    """Whether a typed line says yes. Anything else is a no, an empty line too.

    Args:
        question: the question.
        line: what was typed.
    """
    if question.must_type:
        return line.strip() == question.must_type
    return line.strip().lower() in _YES


def _describe_rule(rule: str) -> str:
    return f"rule {rule}" if rule else "no rule matches, so you are asked"


def _format_argument(name: str, value: object) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"  {name}:", *(f"    {line}" for line in value.splitlines())]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [f"  {name}: {text}"]
