"""What must be true after every move, and what must be true at the end."""

from __future__ import annotations

from functools import cache

import msgspec
from tests.crash.explored_turns import Story
from tests.crash.process import Kind, View
from tests.crash.protocol import Process, State
from tests.tool_results import texts_of_results

from holdfast.codecs import pairing
from holdfast.codecs.wire import Codec
from holdfast.core.batch import IN_DOUBT_TEXT, NOT_RUN_TEXT
from holdfast.core.errors import IllegalEventError
from holdfast.core.events import Event, QuestionAnswered, Status
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelRequest
from holdfast.core.session_state import Phase
from holdfast.core.turn_history import WITHHELD_DOUBT_TEXT, WITHHELD_TEXT


class Violation(AssertionError):
    """A state that must never occur."""


def require(holds: object, *, else_say: str) -> None:
    if not holds:
        raise Violation(else_say)


def folded(state: State) -> SessionMachine:
    """Return the conversation, read from its journal."""
    machine = SessionMachine()
    try:
        for record in state.store:
            machine.apply(record.event)
    except IllegalEventError as error:
        raise Violation(f"the history cannot be: {error}") from error
    return machine


def before_act(story: Story, state: State, process: Process, label: str, kind: Kind) -> None:
    """Check that a driver with the lease repeats no effect with an outcome, and asks before it acts."""
    key = label.partition(" ")[2].rstrip("'")
    if kind == "leases" and process.token == state.lease:
        require(not state.keys[key], else_say=f"{key} has an outcome, and is done again")
    payload = process.waiting[label]
    turn, iteration, *_ = key.split(".")
    if isinstance(payload, tuple):
        pairing.check_pairs(payload)
        before = f"{turn}.i{int(iteration[1:]) - 1}.model"
        known = iteration == "i0" or state.keys[before]
        require(known, else_say=f"the model is asked again, and {before} is not kept")
        if story.asks_before:
            question = f"{turn}.accepted.ask.0"
            require(state.keys[question], else_say=f"{key} begins, and {question} has no answer")
        if story.asks_after and iteration != "i0":
            question = before.replace(".model", ".after.ask.0")
            require(state.keys[question], else_say=f"{key} goes on, and {question} has no answer")
        return
    may = story.tools[payload].effect == "read" or state.keys[f"{turn}.{iteration}.begun"]
    require(may, else_say=f"{key} acts, and that it may is not kept")
    if story.tools[payload].asks:
        answered = any(
            isinstance(record.event, QuestionAnswered) and record.event.key.startswith(key)
            for record in state.store
        )
        require(answered, else_say=f"{key} acts on an answer that is not kept")


def after_move(story: Story, state: State, process: Process, view: View, kind: Kind) -> None:
    """Check what is always true."""
    for key, count in state.keys.items():
        require(count == 1, else_say=f"{key} has {count} outcomes")
    for key in state.acked:
        require(state.keys[key], else_say=f"{key} was acknowledged, and is lost")
    _shown_is_kept(state, view.shown)
    for key, count in state.acts.items():
        name = _tool_of(story, key)
        if name and story.tools[name].effect == "write":
            require(count <= 1, else_say=f"the write {key} ran {count} times")
    if view.ended.startswith(("ConflictError", "LeaseLostError")):
        # Without leases the slower of two drivers is refused.
        refused = process.token != state.lease or kind != "leases"
        require(refused, else_say="the driver that holds the run was refused")
    else:
        _ended_well(state, process, view.ended)


def _shown_is_kept(state: State, shown: tuple[Event, ...]) -> None:
    kept = [record.event for record in state.store]
    for event in shown:
        require(event in kept, else_say=f"{event.key} was shown, and is not kept")


def _ended_well(state: State, process: Process, ended: str) -> None:
    if not ended and not process.waiting:
        raise Violation("a driver waits for nothing")
    if ended == "ProviderError: The turn was cancelled.":
        require(state.cancels, else_say="nobody cancelled it")
    elif ended not in ("", "returned", "CancelledError"):
        raise Violation(f"a driver died of {ended}")


def at_the_end(story: Story, state: State, whole: tuple[Message, ...] | None) -> None:
    """Check the conversation at the end.

    Args:
        story: the conversation.
        state: the last state.
        whole: the messages of the run without faults.
    """
    machine = folded(state)
    require(machine.phase is Phase.IDLE and machine.turn, else_say="the run never ends")
    messages = tuple(machine.transcript)
    answered = messages[-1].role == "assistant"
    require(answered or machine.can_try_again, else_say="nobody has the last word")
    _accepted(messages)
    doubts = _truthful(story, state, messages)
    # A cancelled recovery closes no turn.
    cancels = state.cancels if story.after != "recover" else 0
    if not cancels:
        require(machine.status is Status.COMPLETED, else_say=f"it ended as {machine.status}")
        said = messages[-1].text
        require(
            said == "I know: " + " | ".join(texts_of_results(messages)),
            else_say=f"the answer knows something else: {said}",
        )
    if whole is not None and not doubts and not cancels and story.after != "message":
        require(messages == whole, else_say=f"other messages than undisturbed: {messages}")


def _truthful(story: Story, state: State, messages: tuple[Message, ...]) -> int:
    """Count the results with an unknown outcome; every other result must be true."""
    doubts, said = 0, iter(texts_of_results(messages))
    for iteration, names in enumerate(story.replies):
        for index, name in enumerate(names):
            key = f"t1.i{iteration}.tool.{index}"
            text = next(said, None)
            if text in (IN_DOUBT_TEXT.format(name=name), WITHHELD_DOUBT_TEXT):
                disturbed = state.crashes + state.overlaps + state.cancels
                may_doubt = story.tools[name].effect == "write" or story.after == "message"
                require(disturbed, else_say=f"{key} is in doubt, and nothing happened to it")
                may_doubt = may_doubt or bool(state.cancels and story.after != "recover")
                require(may_doubt, else_say=f"{key} is no write, and in doubt")
                doubts += 1
            elif text in (f"{name} did {key}", WITHHELD_TEXT):
                require(text != WITHHELD_TEXT or story.filters, else_say=f"{key} is withheld")
                require(state.acts.get(key), else_say=f"{key} has a result, and never ran")
            elif text is None or text == NOT_RUN_TEXT.format(name=name):
                # A driver that lost its lease may still run reading tools until it notices.
                may_have = state.overlaps and story.tools[name].effect != "write"
                known = may_have or not state.acts.get(key)
                require(known, else_say=f"{key} ran, and is said not to have run")
            else:
                raise Violation(f"the result of {key} is {text!r}")
    return doubts


def _tool_of(story: Story, key: str) -> str:
    """Return the name of the tool of a key such as `t1.i0.tool.2`."""
    parts = key.split(".")
    if len(parts) < 4 or parts[2] != "tool":
        return ""
    return story.replies[int(parts[1][1:])][int(parts[3])]


@cache
def _codecs() -> tuple[Codec, ...]:
    from holdfast.codecs.anthropic.codec import AnthropicCodec
    from holdfast.codecs.gemini.codec import Gemini
    from holdfast.codecs.openai_chat.codec import OpenAIChat
    from holdfast.codecs.openai_responses.codec import ResponsesCodec

    return (OpenAIChat(), ResponsesCodec(), AnthropicCodec(), Gemini())


_taken: set[bytes] = set()


def _accepted(messages: tuple[Message, ...]) -> None:
    """Check that each wire can encode the history. Most histories were checked before."""
    if (name := msgspec.json.encode(messages)) in _taken:
        return
    request = ModelRequest(model="m", messages=messages)
    for codec in _codecs():
        codec.encode(request)
    _taken.add(name)
