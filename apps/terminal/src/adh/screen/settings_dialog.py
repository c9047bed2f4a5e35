"""The settings, all in one dialog. A wrong value is named beside its field, and nothing is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Checkbox, Input, Label, Static

from adh.screen.dialogs import Dialog
from adh.screen.setting_values import read_agent_or_model, read_max_tokens, read_temperature

if TYPE_CHECKING:
    from adh.storage.settings import Settings

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
    """Edits settings. It closes with what changed, by the names of fields.

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
