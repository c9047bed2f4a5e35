"""The dialogs of the screen: confirm, choose, type a value, read a text.

A dialog that is left by Esc changes nothing. No dialog may show a key that is typed into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from adh.screen.conversation_port import Choice
from holdfast.middleware import escape_invisible

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
        body: what the answer means.
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
        title: what is chosen.
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
    """Asks for one value, and says what is wrong with it before it closes.

    Args:
        title: what the value is.
        hint: what may be written.
        value: what holds now.
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
