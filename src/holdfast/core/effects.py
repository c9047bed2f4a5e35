"""Acts on the outside world that a run asks for, as values. The shell performs them.

An effect is named by its key, which is made of numbers that the run itself counts, never of a
position in time and never of a provider's id: a finished effect is found again after a crash
whatever order its siblings finished in. This module must never perform anything.
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
from holdfast.core.messages import ToolCall


class CallModel(Struct, frozen=True, tag="call_model"):
    """Ask the model to go on from the first `length` messages of the history."""

    key: str
    iteration: int
    length: int


class RunTool(Struct, frozen=True, tag="run_tool", omit_defaults=True):
    """Run one tool. `unfinished` says that the reply was cut, so that the call must not be run."""

    key: str
    call: ToolCall
    index: int
    unfinished: bool = False


class CloseTurn(Struct, frozen=True, tag="close_turn", omit_defaults=True):
    """Everything is done: end the turn with this status."""

    key: str
    status: Status
    error: ErrorInfo | None = None


class CheckOutput(Struct, frozen=True, tag="check_output"):
    """Check the answer that ends the first `length` messages of the history against its type."""

    key: str
    length: int


Effect: TypeAlias = CallModel | RunTool | CheckOutput | CloseTurn

_encode = msgspec.json.Encoder(order="deterministic").encode


def effect_digest(effect: Effect) -> str:
    """A short fingerprint of a planned effect; the same key with another digest is a mismatch.

    >>> effect_digest(CallModel("t1.i0.model", 0, 1)) == effect_digest(CallModel("t1.i0.model", 0, 1))
    True
    """
    try:
        data = _encode(effect)
    except UnicodeEncodeError:  # arguments with half a character, which no tool takes
        data = json.dumps(msgspec.to_builtins(effect), sort_keys=True).encode()
    return blake2b(data, digest_size=8).hexdigest()


def turn_key(turn: int) -> str:
    """`t1`"""
    return f"t{turn}"


def nested_run_id(run_id: str, key: str) -> str:
    """The run of an agent that is the tool `key` of another run, and goes on with that one.

    >>> nested_run_id("ada", tool_key(1, 0, 2))
    'ada/t1.i0.tool.2'
    """
    return f"{run_id}/{key}"


def nested_run_ids(first: str) -> Iterator[str]:
    """The runs of all attempts of one call, without end.

    Args:
        first: the run of the first one, as `nested_run_id` names it.

    >>> next(nested_run_ids("ada/t1.i0.tool.2"))
    'ada/t1.i0.tool.2'
    """
    yield first
    for number in count(1):
        yield f"{first}.again.{number}"


def is_nested_run(run_id: str) -> bool:
    """Whether a run is a part of another one, so that it is nobody's session.

    >>> is_nested_run("ada/t1.i0.tool.2"), is_nested_run("ada/tea")
    (True, False)
    """
    return _WITHIN.search(run_id) is not None


_WITHIN = re.compile(r"/t\d+\.i\d+\.tool\.\d+(\.again\.\d+)?$")


def model_key(turn: int, iteration: int) -> str:
    """`t1.i0.model`"""
    return f"t{turn}.i{iteration}.model"


def tool_key(turn: int, iteration: int, index: int) -> str:
    """`t1.i0.tool.2`: the index of the call in its reply, not the provider's id."""
    return f"t{turn}.i{iteration}.tool.{index}"


def call_index(key: str) -> int:
    """The index of the call in its reply, out of the key of its effect.

    >>> call_index(tool_key(1, 0, 2))
    2
    """
    return int(key.rpartition(".")[2])


def begun_key(turn: int, iteration: int) -> str:
    """`t1.i0.begun`"""
    return f"t{turn}.i{iteration}.begun"


def extended_key(turn: int, iteration: int) -> str:
    """`t1.i10.extended`: at most one extension at each iteration."""
    return f"t{turn}.i{iteration}.extended"


def resumed_key(turn: int, number: int) -> str:
    """`t1.resumed.0`: the first time that an answer is taken up which nobody waited for."""
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
