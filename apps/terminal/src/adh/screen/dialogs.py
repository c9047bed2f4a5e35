"""The dialogs of the screen: confirm, choose, type a value, read a text, filter the rules, change the settings.

A dialog that is left by Esc changes nothing. A wrong value is named beside its field, and nothing is saved. No
dialog may show a key that is typed into it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from adh.rules.levels import Risk
from adh.screen.colours import Colours, colours_of
from adh.screen.conversation_port import Choice, RuleRow
from holdfast.middleware import escape_invisible

if TYPE_CHECKING:
    from adh.storage.settings import Settings

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """A frame in the middle of the screen. Esc closes it with None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Close", show=False)]
    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 70%; }
    Dialog > .frame { width: 76; max-width: 96%; height: auto; max-height: 94%; border: round $primary;
        background: $surface; padding: 1 2; border-title-color: $primary; border-subtitle-color: $secondary; }
    Dialog.wide > .frame { width: 120; }
    Dialog.danger > .frame { border: heavy $error; border-title-color: $error; }
    Dialog .body { height: auto; max-height: 24; scrollbar-size-vertical: 1; }
    Dialog .body Static { height: auto; }
    Dialog .buttons { height: 1; margin-top: 1; }
    Dialog Button { width: auto; min-width: 0; margin-right: 1; padding: 0 1; }
    Dialog Input { border: round $panel; background: $background; }
    Dialog Input:focus { border: round $primary; }
    Dialog .problem { color: $error; height: auto; }
    Dialog OptionList { height: auto; max-height: 16; border: none; background: $surface; padding: 0; }
    """

    def action_leave(self) -> None:
        """Close without a change."""
        self.dismiss(None)


class ConfirmDialog(Dialog[bool | None]):
    """Asks for a yes or a no.

    Args:
        title: the question in a few words.
        body: the meaning of the answer.
        yes: the word on the button for yes.
        no: the word on the button for no.
        danger: whether yes may do damage.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "No", show=False),
    ]

    def __init__(
        self, title: str, body: Text | str, yes: str, no: str = "Cancel", *, danger: bool = False
    ) -> None:
        super().__init__()
        self._title = title
        self._body = body if isinstance(body, Text) else Text(escape_invisible(body))
        self._yes, self._no = yes, no
        self.set_class(danger, "danger")

    def compose(self) -> ComposeResult:
        """Yield the frame."""
        with Vertical(classes="frame") as frame:
            frame.border_title = Text(self._title)
            with VerticalScroll(classes="body", can_focus=False):
                yield Static(self._body, markup=False)
            with Horizontal(classes="buttons"):
                yield Button(f"{self._no} n", id="no", compact=True)
                yield Button(f"{self._yes} y", id="yes", variant="warning", compact=True)

    def action_answer(self, answer: bool) -> None:
        """Answer, and close."""
        self.dismiss(answer)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class TextDialog(Dialog[None]):
    """Shows a text to read. Up and Down scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q", "leave", "Close", show=False)]

    def __init__(self, title: str, body: Text) -> None:
        super().__init__()
        self._title, self._body = title, body

    def compose(self) -> ComposeResult:
        """Yield the frame."""
        with Vertical(classes="frame") as frame:
            frame.border_title = Text(self._title)
            frame.border_subtitle = "Esc closes"
            with VerticalScroll(classes="body"):
                yield Static(self._body, markup=False)


class ChoiceDialog(Dialog[str | None]):
    """Lets the person choose one of several things, or type one that is not listed.

    Args:
        title: the name of the choice.
        choices: the things.
        current: the value that holds now.
        free: whether another value may be typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "enter_list", "List", show=False),
    ]

    def __init__(
        self, title: str, choices: Sequence[Choice], current: str = "", *, free: bool = False
    ) -> None:
        super().__init__()
        self._title = title
        self._choices = list(choices)
        self._current = current
        self._free = free

    def compose(self) -> ComposeResult:
        """Yield the frame."""
        with Vertical(classes="frame") as frame:
            frame.border_title = Text(self._title)
            frame.border_subtitle = "Enter chooses · Esc closes"
            words = "Filter, or type another value" if self._free else "Filter"
            yield Input(placeholder=words, id="filter")
            yield OptionList(id="choices", markup=False)
            yield Static(classes="problem", markup=False)

    def on_mount(self) -> None:
        """List everything."""
        self._list("")

    def _find(self, words: str) -> list[Choice]:
        wanted = words.casefold().split()
        return [
            choice
            for choice in self._choices
            if all(word in f"{choice.value} {choice.about}".casefold() for word in wanted)
        ]

    def _list(self, words: str) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        for choice in self._find(words):
            sign = "● " if choice.value == self._current else "○ "
            line = Text(sign + escape_invisible(choice.value), style="bold")
            line.append(f"  {escape_invisible(choice.about)}", style="not bold dim")
            options.add_option(Option(line))
        if options.option_count:
            values = [choice.value for choice in self._find(words)]
            options.highlighted = values.index(self._current) if self._current in values else 0

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self._list(event.value)

    @on(Input.Submitted, "#filter")
    def _take(self, event: Input.Submitted) -> None:
        event.stop()
        found = self._find(event.value)
        exact = [choice.value for choice in found if choice.value == event.value.strip()]
        if self._free and event.value.strip() and not found:
            self.dismiss(event.value.strip())
        elif found:
            at = self.query_one(OptionList).highlighted or 0
            self.dismiss(exact[0] if exact else found[at].value)
        else:
            self.query_one(".problem", Static).update("Nothing matches. Change the filter.")

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._find(self.query_one("#filter", Input).value)[event.option_index].value)

    def action_enter_list(self) -> None:
        """Go from the filter to the list."""
        self.query_one(OptionList).focus()


class ValueDialog(Dialog[str | None]):
    """Asks for one value, and shows the problem of a wrong one before it closes.

    Args:
        title: the name of the value.
        hint: the allowed values.
        value: the present value.
        check: raises ValueError with a text for the person, if a value is wrong.
        secret: whether the value is hidden while it is typed.
    """

    def __init__(
        self,
        title: str,
        hint: str,
        value: str,
        check: Callable[[str], object],
        *,
        secret: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value
        self._check = check
        self._secret = secret

    def compose(self) -> ComposeResult:
        """Yield the frame."""
        with Vertical(classes="frame") as frame:
            frame.border_title = Text(self._title)
            frame.border_subtitle = "Enter saves · Esc closes"
            yield Static(self._hint, markup=False)
            yield Input(self._value, password=self._secret, id="value")
            yield Static(classes="problem", markup=False)

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self._check(event.value.strip())
        except ValueError as error:
            self.query_one(".problem", Static).update(str(error))
        else:
            self.dismiss(event.value.strip())


class RulesDialog(Dialog[None]):
    """Shows rules. Typed text filters them.

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


def read_temperature(text: str) -> float | None:
    """Return a temperature; None for an empty text, which means the model's own.

    Raises:
        ValueError: it is not a number from 0 to 2. Its text is for the person.

    >>> read_temperature("0.5"), read_temperature("")
    (0.5, None)
    """
    if not text:
        return None
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = math.nan
    if not 0 <= value <= 2:
        raise ValueError("Write a number from 0 to 2, or nothing for the model's own.")
    return value


def read_max_tokens(text: str) -> int | None:
    """Return a number of tokens; None for an empty text, which means the model's own limit.

    Raises:
        ValueError: it is not a whole number from 1 to 1,000,000,000. Its text is for the person.

    >>> read_max_tokens("8,000")
    8000
    """
    if not text:
        return None
    digits = text.replace(",", "").replace("_", "").replace(" ", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 11):
        raise ValueError("Write a whole number, or nothing for the model's own limit.")
    if not 1 <= int(digits) <= 1_000_000_000:
        raise ValueError("Write a number from 1 to 1,000,000,000.")
    return int(digits)


def read_key(text: str) -> str:
    """Return an API key as it was typed, without the spaces around it.

    Raises:
        ValueError: it is empty or has characters that no key has. Its text never holds the key.
    """
    key = text.strip()
    if not key:
        raise ValueError("Paste the key, or press Esc.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("A key has no spaces and no special characters. Copy it again.")
    return key


def read_agent_or_model(text: str) -> str:
    """Return a name of 1 to 200 characters. Raises ValueError with a text for the person."""
    if not 1 <= len(text) <= 200 or not text.isprintable():
        raise ValueError("Write a name of 1 to 200 characters.")
    return text


_FIELDS: Mapping[str, tuple[str, Callable[[str], object], str]] = {
    "model": ("Model", read_agent_or_model, "a model or an alias"),
    "agent": ("Agent", read_agent_or_model, "such as orchestrator"),
    "temperature": ("Temperature", read_temperature, "0 to 2; empty for the model's own"),
    "max_tokens": ("Max tokens", read_max_tokens, "of a reply; empty for the model's own"),
}


class _MarkedCheckbox(Checkbox):
    """A checkbox that shows without colour whether it is on."""

    def on_mount(self) -> None:
        """Show the mark of the first value, which is no change."""
        self._mark()

    def watch_value(self) -> None:
        super().watch_value()
        self._mark()

    def _mark(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        self.refresh()


class SettingsDialog(Dialog[Mapping[str, object] | None]):
    """Edits settings. It closes with the changes, by the names of fields.

    Args:
        settings: those that hold.
    """

    DEFAULT_CSS = """
    SettingsDialog .field { height: 3; }
    SettingsDialog Label { width: 14; padding: 1 0; }
    SettingsDialog .field Input { width: 1fr; }
    SettingsDialog Checkbox { border: none; background: $surface; padding: 0; }
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def compose(self) -> ComposeResult:
        """Yield the frame."""
        with Vertical(classes="frame") as frame:
            frame.border_title = "Settings"
            frame.border_subtitle = "Tab moves · Enter saves · Esc closes"
            with VerticalScroll(classes="body", can_focus=False):
                for name, (label, _, hint) in _FIELDS.items():
                    value = getattr(self._settings, name)
                    with Horizontal(classes="field"):
                        yield Label(label)
                        shown = "" if value is None else str(value)
                        yield Input(shown, placeholder=hint, id=f"setting-{name}")
                yield _MarkedCheckbox(
                    "Light theme", self._settings.theme == "light", id="setting-light"
                )
                yield _MarkedCheckbox(
                    "Follow the end of the chat", self._settings.auto_scroll, id="setting-scroll"
                )
            yield Static(classes="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Save", id="save", variant="primary", compact=True)
                yield Button("Cancel", id="cancel", compact=True)

    @on(Input.Submitted)
    def _enter(self, event: Input.Submitted) -> None:
        event.stop()
        self._save()

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "save":
            self._save()
        else:
            self.dismiss(None)

    def _save(self) -> None:
        changes: dict[str, object] = {}
        for name, (label, read, _) in _FIELDS.items():
            field = self.query_one(f"#setting-{name}", Input)
            try:
                changes[name] = read(field.value.strip())
            except ValueError as error:
                self.query_one(".problem", Static).update(f"{label}: {error}")
                field.focus()
                return
        light = self.query_one("#setting-light", Checkbox).value
        changes["theme"] = "light" if light else "dark"
        changes["auto_scroll"] = self.query_one("#setting-scroll", Checkbox).value
        held = {name: getattr(self._settings, name) for name in changes}
        self.dismiss({name: value for name, value in changes.items() if value != held[name]})
