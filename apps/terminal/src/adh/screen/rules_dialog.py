"""The rules that hold, in the order in which they decide, to read and to filter."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from adh.rules.levels import Risk
from adh.screen.colours import Colours, colours_of
from adh.screen.conversation_port import RuleRow
from adh.screen.dialogs import Dialog
from holdfast.middleware import escape_invisible


class RulesDialog(Dialog[None]):
    """Shows rules. What is typed filters them.

    Args:
        rules: in the order of decision.
    """

    DEFAULT_CSS = """
    RulesDialog .body { height: 1fr; max-height: 100%; margin-top: 1; }
    RulesDialog > .frame { height: 94%; }
    """

    def __init__(self, rules: Sequence[RuleRow]) -> None:
        super().__init__(classes="wide")
        self._rules = list(rules)

    def compose(self) -> ComposeResult:
        """Yield the frame."""
        with Vertical(classes="frame") as frame:
            frame.border_title = "Rules"
            frame.border_subtitle = (
                "The highest priority decides; of equal ones the strictest · Esc closes"
            )
            yield Input(placeholder="Filter, such as: git deny", id="rule-filter")
            with VerticalScroll(classes="body"):
                yield Static(id="rule-list", markup=False)

    def on_mount(self) -> None:
        """Show all rules."""
        self._show("")

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._show(event.value)

    def _show(self, words: str) -> None:
        wanted = words.casefold().split()
        found = [rule for rule in self._rules if all(word in _words_of(rule) for word in wanted)]
        colours = colours_of(dark=self.app.current_theme.dark)
        self.query_one("#rule-list", Static).update(describe_rules(found, colours))


def _words_of(rule: RuleRow) -> str:
    parts = (rule.name, rule.pattern, rule.level, rule.risk, rule.origin, rule.conditions)
    return " ".join(parts).casefold()


def describe_rules(rules: Sequence[RuleRow], colours: Colours) -> Table | Text:
    """Return rules as a table with a row for each."""
    if not rules:
        return Text("No rule matches the filter.", style=colours.faint)
    table = Table.grid(padding=(0, 1))
    table.style = colours.text
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(ratio=1)
    styles = {"deny": colours.bad, "manual": colours.bad, "confirm": colours.warning}
    for rule in rules:
        table.add_row(
            Text(rule.level, style=f"bold {styles.get(rule.level, colours.good)}"),
            Text(f"{Risk.parse(rule.risk).icon} {rule.risk}"),
            Text(str(rule.priority), style=colours.faint),
            _describe_rule(rule, colours),
        )
    return table


def _describe_rule(rule: RuleRow, colours: Colours) -> Text:
    text = Text(escape_invisible(rule.pattern), style="bold")
    text.append("" if rule.enabled else "  (disabled)", style=colours.warning)
    if rule.conditions:
        text.append(f"\n{escape_invisible(rule.conditions)}", style=f"not bold {colours.accent}")
    for line in _more_lines(rule):
        text.append(f"\n{escape_invisible(line)}", style=f"not bold {colours.faint}")
    return text


def _more_lines(rule: RuleRow) -> list[str]:
    lines = [f"{rule.name} · {rule.origin}"]
    if rule.checks:
        lines.append(f"checks: {rule.checks}")
    if rule.restrictions:
        lines.append(f"restrictions: {rule.restrictions}")
    return lines
