"""The question about a call, with everything that a person needs to answer it, and the editor of its arguments.

No key answers it within `GUARD_SECONDS` after it appeared, since the person was writing something else then. It must
never answer on its own: closing it leaves the question open.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, Protocol, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Button, Input, Static, TextArea

from adh.screen.colours import colours_of
from adh.screen.conversation_port import AskedQuestion
from adh.screen.question_view import (
    describe_arguments,
    describe_question,
    read_fields,
    read_question,
)
from holdfast import ContinuationQuestion, PermissionQuestion
from holdfast.errors import AnswerTypeError


class ArgumentsError(ValueError):
    """The edited text is not a JSON object. Its text has the place and the fix."""


def write_arguments(arguments: Mapping[str, object]) -> str:
    """Return the arguments as JSON for an editor; control characters are escapes."""
    text = json.dumps(arguments, indent=2, ensure_ascii=False)
    return "".join(one if one.isprintable() or one == "\n" else _escape(one) for one in text)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def read_arguments(text: str) -> dict[str, object]:
    """Return the arguments that the text stands for.

    Raises:
        ArgumentsError: the text is not JSON, not an object, or names a parameter twice.

    >>> read_arguments('{"path": "a.txt"}')
    {'path': 'a.txt'}
    >>> read_arguments('{"path": }')
    Traceback (most recent call last):
    adh.screen.question_panel.ArgumentsError: line 1, column 10: Expecting value. Write valid JSON.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_refuse_repeated, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ArgumentsError(f"{place}: {error.msg}. Write valid JSON.") from None
    except RecursionError:
        raise ArgumentsError("It is nested too deeply. Write fewer levels.") from None
    if not isinstance(value, dict):
        raise ArgumentsError('The whole must be an object, such as {"file_path": "a.txt"}.')
    return value


def _refuse_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ArgumentsError(f"The parameter {name!r} is there twice. Delete one.")
        found[name] = value
    return found


def _refuse_constant(name: str) -> object:
    raise ArgumentsError(f"{name} is not JSON. Write a number.")


GUARD_SECONDS = 0.4
"""How long keys are ignored after the question appeared."""

Remember = Literal["once", "call", "tool"]
_REMEMBER: tuple[Remember, ...] = ("once", "call", "tool")


class _NamedQuestion(Protocol):
    """A question whose yes has a name that the person typed."""

    def approve(
        self, *, remember: Remember, arguments: Mapping[str, object] | None, typed: str
    ) -> object: ...


class QuestionPanel(Vertical):
    """One question.

    Args:
        asked: the question.
        position: its number among those that wait together, from 1.
        total: how many they are.
        clock: returns seconds that only grow.
        takes_keys: whether the keys go to it as soon as it is shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "confirm", "Confirm", show=False),
        Binding("n", "cancel", "Cancel", show=False),
        Binding("escape", "back", "Cancel", show=False),
        Binding("d", "details", "Details", show=False),
        Binding("m", "modify", "Modify", show=False),
        Binding("r", "remember", "Remember", show=False),
        Binding("b", "because", "No, because", show=False),
        Binding("ctrl+s", "save_arguments", "Ask with these", show=False),
        Binding("up", "scroll_body(-1)", "Up", show=False),
        Binding("down", "scroll_body(1)", "Down", show=False),
        Binding("pageup", "scroll_body(-10)", "Page up", show=False),
        Binding("pagedown", "scroll_body(10)", "Page down", show=False),
    ]
    DEFAULT_CSS = """
    QuestionPanel { height: auto; max-height: 100%; border: round $warning; background: $surface; padding: 0 1;
        border-title-color: $warning; border-subtitle-color: $secondary; }
    QuestionPanel.danger { border: heavy $error; border-title-color: $error; }
    QuestionPanel #question-body { height: auto; scrollbar-size-vertical: 1; }
    QuestionPanel #question-text { height: auto; width: 100%; }
    QuestionPanel .question-line { height: auto; color: $secondary; }
    QuestionPanel #question-problem { color: $error; }
    QuestionPanel Input, QuestionPanel TextArea { border: round $panel; background: $background; }
    QuestionPanel Input:focus, QuestionPanel TextArea:focus { border: round $primary; }
    QuestionPanel TextArea { height: 10; }
    QuestionPanel #question-buttons { height: 1; }
    QuestionPanel Button { width: auto; min-width: 0; margin-right: 1; padding: 0 1; }
    QuestionPanel .hidden { display: none; }
    """

    class Answered(Message):
        """The person answered."""

        def __init__(self, asked: AskedQuestion, answer: object) -> None:
            super().__init__()
            self.asked = asked
            self.answer = answer

    def __init__(
        self,
        asked: AskedQuestion,
        position: int = 1,
        total: int = 1,
        clock: Callable[[], float] = time.monotonic,
        *,
        takes_keys: bool = True,
    ) -> None:
        super().__init__()
        self.asked = asked
        self.view = read_question(asked.question)
        self._clock = clock
        self._shown_at = clock()
        self._details = False
        self._remember = 0
        self._takes_keys = takes_keys
        self._height = 0
        self._mode: Literal["ask", "reason", "edit"] = "ask"
        self.border_title = Text(self.view.title)
        self.show_position(position, total)
        self.set_class(self.view.risk in ("high", "critical"), "danger")

    def show_position(self, position: int, total: int) -> None:
        """Show how many questions wait together."""
        words = "No answer counts as no"
        self.border_subtitle = Text(f"{position} of {total} · {words}" if total > 1 else words)

    @property
    def _question(self) -> object:
        return self.asked.question

    @property
    def _is_permission(self) -> bool:
        return isinstance(self._question, PermissionQuestion)

    @property
    def _is_yes_or_no(self) -> bool:
        return isinstance(self._question, PermissionQuestion | ContinuationQuestion)

    def compose(self) -> ComposeResult:
        """Yield the parts of the question."""
        with VerticalScroll(id="question-body", can_focus=False):
            yield Static(id="question-text", markup=False)
        yield Static(id="question-remember", classes="question-line", markup=False)
        if self.view.must_type:
            hint = f"Type {self.view.must_type} to confirm"
            yield Input(placeholder=hint, id="question-typed")
        yield Input(placeholder="Why not? The agent reads it. Enter sends.", id="question-reason")
        if self.view.may_edit:
            yield TextArea(write_arguments(self.view.arguments), id="question-arguments")
        yield Static(id="question-problem", classes="question-line hidden", markup=False)
        with Horizontal(id="question-buttons"):
            yield Button("Confirm y", id="confirm", variant="success", compact=True)
            yield Button("Cancel n", id="cancel", variant="error", compact=True)
            yield Button("Details d", id="details", compact=True)
            if self.view.may_edit:
                yield Button("Modify m", id="modify", variant="warning", compact=True)
            if self._is_permission:
                yield Button("No, because b", id="because", compact=True)

    def on_mount(self) -> None:
        """Show the question, with the focus where Enter does nothing that cannot be taken back."""
        self._show_text()
        self._show_mode()
        self.fit(self._height or self.app.size.height)
        if self._takes_keys:
            self.focus_answer()

    def fit(self, height: int) -> None:
        """Take at most this many rows; a longer text scrolls.

        Args:
            height: in rows, with the frame.
        """
        self._height = height
        used = 6 + 3 * bool(self.view.must_type) + 3 * (self._mode == "reason")
        for body in self.query("#question-body"):  # none before it is composed
            body.styles.max_height = max(3, height - used)

    def focus_answer(self) -> None:
        """Take the keys."""
        target = "#question-typed" if self.view.must_type else "#cancel"
        if not self._is_yes_or_no:
            target = "#question-reason"
        self.query_one(target).focus()

    def _show_text(self) -> None:
        colours = colours_of(dark=self.app.current_theme.dark)
        text = self._describe_other() or describe_question(
            self.view, colours, details=self._details
        )
        self.query_one("#question-text", Static).update(text)
        line = self.query_one("#question-remember", Static)
        line.update(self._describe_remember())
        line.set_class(not self.view.may_remember, "hidden")

    def _describe_other(self) -> Text | None:
        question = self._question
        if isinstance(question, ContinuationQuestion):
            return Text(
                f"The turn has made {question.limit} model calls, which is its limit. "
                f"May it make up to {question.extension} more?"
            )
        if isinstance(question, PermissionQuestion):
            return None
        return Text(describe_arguments(read_fields(question), whole=True))

    def _describe_remember(self) -> str:
        words = {
            "once": "this call only",
            "call": "also later in this session, for the same arguments",
            "tool": f"also later in this session, for every call of {self.view.tool}",
        }
        return f"Holds for (r): {words[_REMEMBER[self._remember]]}"

    def _show_mode(self) -> None:
        self.query_one("#question-reason").set_class(
            self._is_yes_or_no and self._mode != "reason", "hidden"
        )
        for editor in self.query("#question-arguments"):
            editor.set_class(self._mode != "edit", "hidden")
        editing = self._mode == "edit"
        self.query_one("#question-body").set_class(editing, "hidden")
        self.query_one("#confirm", Button).label = "Run with these ^S" if editing else "Confirm y"

    def _say(self, problem: str) -> None:
        line = self.query_one("#question-problem", Static)
        line.update(problem)
        line.set_class(not problem, "hidden")

    @property
    def _is_early(self) -> bool:
        return self._clock() - self._shown_at < GUARD_SECONDS

    def action_confirm(self) -> None:
        """Answer yes."""
        if self._is_early:
            return
        if self._mode == "edit":
            self.action_save_arguments()
        elif not self._is_yes_or_no:
            self._answer_other(self.query_one("#question-reason", Input).value)
        elif self._has_typed_name():
            self._approve()

    def _has_typed_name(self) -> bool:
        wanted = self.view.must_type
        if not wanted:
            return True
        field = self.query_one("#question-typed", Input)
        if field.value.strip() == wanted:
            return True
        self._say(f"Type {wanted} to confirm.")
        field.focus()
        return False

    def _approve(self) -> None:
        question = self._question
        if isinstance(question, PermissionQuestion):
            self._post(self._make_yes(question, None))
        elif isinstance(question, ContinuationQuestion):
            self._post(question.approve())

    def _make_yes(
        self, question: PermissionQuestion, arguments: Mapping[str, object] | None
    ) -> object:
        remember = _REMEMBER[self._remember]
        if not self.view.must_type:
            return question.approve(remember=remember, arguments=arguments)
        typed = self.query_one("#question-typed", Input).value.strip()
        named = cast("_NamedQuestion", question)
        return named.approve(remember=remember, arguments=arguments, typed=typed)

    def _answer_other(self, text: str) -> None:
        question = self._question
        answer = getattr(question, "answer", None)
        if answer is None:
            self._say("This question cannot be answered here.")
            return
        try:
            self._post(answer(text))
        except AnswerTypeError as error:
            self._say(str(error))

    def action_back(self) -> None:
        """Leave the editor or the reason; otherwise answer no."""
        if self._mode == "ask":
            self.action_cancel()
        else:
            self._enter_mode("ask")

    def action_cancel(self) -> None:
        """Answer no."""
        if self._is_early:
            return
        self._deny("")

    def _deny(self, reason: str) -> None:
        question = self._question
        if isinstance(question, PermissionQuestion):
            # A question of the rules words its own no.
            plain = f"Tool '{question.tool}' execution cancelled by user"
            self._post(question.deny(reason if self.view.level else reason or plain))
        elif isinstance(question, ContinuationQuestion):
            self._post(question.deny())
        else:
            self._say("Write an answer below, or stop the turn.")

    def _post(self, answer: object) -> None:
        self.post_message(self.Answered(self.asked, answer))

    def action_details(self) -> None:
        """Show everything, or the short form again."""
        self._details = not self._details
        self.query_one("#details", Button).label = "Short d" if self._details else "Details d"
        self._show_text()

    def action_modify(self) -> None:
        """Edit the arguments."""
        if self.view.may_edit and not self._is_early:
            self._enter_mode("edit")

    def action_because(self) -> None:
        """Say no with a reason."""
        if self._is_permission and not self._is_early:
            self._enter_mode("reason")

    def _enter_mode(self, mode: Literal["ask", "reason", "edit"]) -> None:
        self._mode = mode
        self._say("")
        self.fit(self._height or self.app.size.height)
        self._show_mode()
        if mode == "ask":
            self.focus_answer()
        else:
            self.query_one(
                "#question-reason" if mode == "reason" else "#question-arguments"
            ).focus()

    def action_remember(self) -> None:
        """Choose for how long the answer holds."""
        if self.view.may_remember and self._mode == "ask":
            self._remember = (self._remember + 1) % len(_REMEMBER)
            self._show_text()

    def action_save_arguments(self) -> None:
        """Ask again, with the edited arguments."""
        question = self._question
        if self._mode != "edit" or not isinstance(question, PermissionQuestion):
            return
        try:
            arguments = read_arguments(self.query_one("#question-arguments", TextArea).text)
        except ArgumentsError as error:
            self._say(str(error))
            return
        if self._has_typed_name():
            self._post(self._make_yes(question, arguments))

    def action_scroll_body(self, step: int) -> None:
        """Scroll the text of the question."""
        self.query_one("#question-body").scroll_relative(y=step, animate=False)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        getattr(self, f"action_{event.button.id}")()

    @on(Input.Submitted, "#question-reason")
    def _take_reason(self, event: Input.Submitted) -> None:
        event.stop()
        if self._is_yes_or_no:
            self._deny(event.value.strip())
        else:
            self._answer_other(event.value)

    @on(Input.Submitted, "#question-typed")
    def _take_typed(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_confirm()
