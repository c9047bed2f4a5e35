"""Effects: requests of a run to the outside world, as values. The runtime performs them.

An effect is named by its key. The key is made of numbers that the run itself counts, never of an
order of events and never of a provider's id. So a finished effect is found again after a crash,
whatever the order in which the others finished. This module must never perform anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorInfo
from holdfast.core.events import Status
from holdfast.core.messages import ToolCall, ToolResult


class AcceptTurn(Struct, frozen=True, tag="accept_turn"):
    """Call the hooks before the turn, except the first `hooks_called`, which were called already."""

    key: str
    hooks_called: int


class CallModel(Struct, frozen=True, tag="call_model"):
    """Call the model with the first `length` messages of the history."""

    key: str
    iteration: int
    length: int


class RunTool(Struct, frozen=True, tag="run_tool", omit_defaults=True):
    """Run one tool.

    `unfinished` means that the reply was cut, so the call must not run. `by_code` means that code made
    the call, not the model.
    """

    key: str
    call: ToolCall
    index: int
    unfinished: bool = False
    by_code: bool = False


class CopyResult(Struct, frozen=True, tag="copy_result", omit_defaults=True):
    """Give a call the result of the same call in its reply, whose key is `same_as`. No tool runs."""

    key: str
    index: int
    same_as: str
    result: ToolResult
    error: ErrorInfo | None = None


class CloseTurn(Struct, frozen=True, tag="close_turn", omit_defaults=True):
    """End the turn with this status."""

    key: str
    status: Status
    error: ErrorInfo | None = None


class CheckOutput(Struct, frozen=True, tag="check_output"):
    """Check the output, the last of the first `length` messages of the history, against its type."""

    key: str
    length: int


Effect: TypeAlias = AcceptTurn | CallModel | RunTool | CopyResult | CheckOutput | CloseTurn
"""A request of a run to its surroundings."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def effect_digest(effect: Effect) -> str:
    """Return a short digest of a planned effect. The same key with another digest is a mismatch.

    >>> effect_digest(CallModel("t1.i0.model", 0, 1)) == effect_digest(CallModel("t1.i0.model", 0, 1))
    True
    """
    try:
        data = _encode(effect)
    except UnicodeEncodeError:  # arguments with a lone surrogate, which no tool accepts
        data = json.dumps(msgspec.to_builtins(effect), sort_keys=True).encode()
    return blake2b(data, digest_size=8).hexdigest()


def turn_key(turn: int) -> str:
    """`t1`"""
    return f"t{turn}"


def accepted_key(turn: int) -> str:
    """`t1.accepted`: the hooks before a turn."""
    return f"t{turn}.accepted"


def nested_run_id(run_id: str, key: str) -> str:
    """Return the run id of an agent that runs as the tool `key` of another run.

    >>> nested_run_id("ada", tool_key(1, 0, 2))
    'ada/t1.i0.tool.2'
    """
    return f"{run_id}/{key}"


def nested_run_ids(first: str) -> Iterator[str]:
    """Yield the run ids of all attempts of one call, without end.

    Args:
        first: the run id of the first attempt, as `nested_run_id` returns it.

    >>> next(nested_run_ids("ada/t1.i0.tool.2"))
    'ada/t1.i0.tool.2'
    """
    yield first
    for number in count(1):
        yield f"{first}.again.{number}"


def is_nested_run(run_id: str) -> bool:
    """Whether a run is nested in another one, and so is not a session.

    >>> is_nested_run("ada/t1.i0.tool.2"), is_nested_run("ada/tea")
    (True, False)
    """
    return _WITHIN.search(run_id) is not None


TITLES = "/:title"
"""The end of the name of a run that has the titles of a session."""


def find_root_run_id(run_id: str) -> str:
    """Return the run id of the session in which a run is nested, or the run id itself.

    >>> find_root_run_id("ada/t1.i0.tool.2/t1.i3.tool.0.again.1"), find_root_run_id("ada/tea")
    ('ada', 'ada/tea')
    """
    while (outer := _WITHIN.sub("", run_id)) != run_id:
        run_id = outer
    return run_id


_WITHIN = re.compile(r"/t\d+\.i\d+\.tool\.\d+(\.again\.\d+)?$")


def model_key(turn: int, iteration: int) -> str:
    """`t1.i0.model`"""
    return f"t{turn}.i{iteration}.model"


def tool_key(turn: int, iteration: int, index: int) -> str:
    """`t1.i0.tool.2`: the index of the call in its reply, not the provider's id."""
    return f"t{turn}.i{iteration}.tool.{index}"


def call_index(key: str) -> int:
    """Return the index of a call in its reply, read from the key of its effect.

    >>> call_index(tool_key(1, 0, 2))
    2
    """
    return int(key.rpartition(".")[2])


def check_key(key: str, number: int) -> str:
    """Return the key of a check of a tool call: `t1.i0.tool.2.check.0`."""
    return f"{key}.check.{number}"


def begun_key(turn: int, iteration: int) -> str:
    """`t1.i0.begun`"""
    return f"t{turn}.i{iteration}.begun"


def after_key(turn: int, iteration: int) -> str:
    """`t1.i0.after`: the hooks after an iteration."""
    return f"t{turn}.i{iteration}.after"


def asking_scopes(turn: int, iteration: int) -> tuple[str, ...]:
    """Return the keys, besides those of pending effects, under which a turn may ask questions.

    The hooks between two effects ask under them. When the hooks after an iteration are called, the
    machine may count the next iteration already.

    >>> asking_scopes(1, 1)
    ('t1', 't1.i1.begun', 't1.i1.after', 't1.i0.after')
    """
    return (
        turn_key(turn),
        begun_key(turn, iteration),
        after_key(turn, iteration),
        after_key(turn, iteration - 1),
    )


def withheld_key(turn: int, iteration: int) -> str:
    """`t1.i1.withheld`: the request of an iteration is made at most once without the new results."""
    return f"t{turn}.i{iteration}.withheld"


def extended_key(turn: int, iteration: int) -> str:
    """`t1.i10.extended`: at most one extension at each iteration."""
    return f"t{turn}.i{iteration}.extended"


def resumed_key(turn: int, number: int) -> str:
    """`t1.resumed.0`: the first time that a turn resumes with an answer that arrived meanwhile."""
    return f"t{turn}.resumed.{number}"


def interrupted_key(turn: int) -> str:
    """`t1.interrupted`"""
    return f"t{turn}.interrupted"


def stopped_key(turn: int) -> str:
    """`t1.stopped`"""
    return f"t{turn}.stopped"


def closed_key(turn: int) -> str:
    """`t1.closed`"""
    return f"t{turn}.closed"


def output_key(turn: int, iteration: int) -> str:
    """`t1.i0.output`"""
    return f"t{turn}.i{iteration}.output"


def plan_acceptance(turn: int, hooks_called: int) -> dict[str, Effect]:
    """Plan the hooks that are left before a turn begins, under their key."""
    key = accepted_key(turn)
    return {key: AcceptTurn(key, hooks_called)}


def plan_model(turn: int, iteration: int, messages: int) -> dict[str, Effect]:
    """Plan a call of the model with so many messages, under its key."""
    key = model_key(turn, iteration)
    return {key: CallModel(key, iteration, messages)}


def plan_check(turn: int, iteration: int, messages: int) -> dict[str, Effect]:
    """Plan the check of an output, under its key."""
    key = output_key(turn, iteration)
    return {key: CheckOutput(key, messages)}


def plan_closing(turn: int, status: Status, error: ErrorInfo | None) -> dict[str, Effect]:
    """Plan the end of a turn, under its key."""
    key = closed_key(turn)
    return {key: CloseTurn(key, status, error)}
