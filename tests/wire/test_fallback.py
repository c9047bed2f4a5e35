"""From one wire to another in the middle of a turn: the history goes along, the state of a wire stays."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from tests.wire.rig import (
    ANSWER,
    MODELS,
    MODES,
    PATIENT,
    QUESTION,
    Seen,
    agent_for,
    forecaster,
    turn,
)

from holdfast import ErrorCategory
from holdfast.core.errors import HoldfastError
from holdfast.models.http_model import Model
from holdfast.models.resolve import ModelAt, resolve_model
from holdfast.testing.emulator import (
    EmulatedRequest,
    Emulator,
    ErrorResponse,
    Fault,
    ResetBeforeHeaders,
    ReusedToolIds,
)
from holdfast.testing.emulator.faults import FaultEntry
from holdfast.testing.emulator.wires.emulator_wire import WIRES
from holdfast.transport.http import HttpTransport

PAIRS = tuple(permutations(WIRES, 2))
both_modes = pytest.mark.parametrize("mode", MODES)
every_pair = pytest.mark.parametrize(("first", "second"), PAIRS)


def other(wire: str, emulator: Emulator) -> Model:
    at = ModelAt(MODELS[wire], base_url=emulator.base_url_for(wire), api_key="k", timeouts=PATIENT)
    return resolve_model(at, HttpTransport)


def fails_to_answer(fault: Fault) -> object:
    """A script that lets tools be called, and never lets their results be answered."""

    def script(request: EmulatedRequest) -> FaultEntry:
        return [ReusedToolIds(), fault] if request.tool_results else ReusedToolIds()

    return script


# More than 40 cases: two wires and a fault are a conversation of their own over HTTP.
@pytest.mark.slow  # takes half a second or more
@both_modes
@every_pair
@pytest.mark.parametrize("fault", [ErrorResponse("bad_key"), ResetBeforeHeaders()])
async def test_the_other_wire_answers_what_the_first_one_began(
    first: str, second: str, mode: str, fault: Fault
) -> None:
    seen = Seen()
    faults = fails_to_answer(fault)
    async with Emulator(forecaster, faults=faults) as broken, Emulator(forecaster) as sound:  # type: ignore[arg-type]
        agent = agent_for(first, broken, seen, fallback=[other(second, sound)])
        for _ in range(2):
            result = await turn(agent, mode, seen, session="alice")
            assert result.output == ANSWER
            assert mode == "whole" or seen.shown.endswith(ANSWER)
        assert [entry.problem for entry in (*broken.requests, *sound.requests)] == [""] * (
            len(broken.requests) + 2
        )
        bodies = [msgspec.json.encode(entry.body).decode() for entry in sound.requests]
        assert (broken.requests[0].wire, sound.requests[0].wire) == (first, second)
    assert sorted(seen.ran) == ["Faro", "Faro", "Porto", "Porto"]
    # Signatures of the first wire are not sent to the second; everything else is.
    assert "emulated" not in bodies[0]
    assert [body.count(QUESTION) for body in bodies] == [1, 2]
    assert [body.count("sunny in Porto") for body in bodies] == [1, 3]


@both_modes
@every_pair
async def test_the_first_wire_continues_the_history_of_the_other(
    first: str, second: str, mode: str
) -> None:
    down = {"now": True}

    def script(request: EmulatedRequest) -> FaultEntry:
        return ErrorResponse("overloaded") if down["now"] else None

    async with Emulator(forecaster, faults=script) as shaky, Emulator(forecaster) as sound:
        agent = agent_for(first, shaky, fallback=[other(second, sound)])
        assert (await turn(agent, mode, session="alice")).output == ANSWER
        down["now"] = False
        assert (await turn(agent, mode, session="alice")).output == ANSWER
        assert [entry.problem for entry in shaky.requests if entry.problem] == []
        assert len(sound.requests) == 2
        assert shaky.requests[-1].status == 200


@both_modes
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_wrong_with_the_request_is_not_asked_elsewhere(wire: str, mode: str) -> None:
    second = WIRES[WIRES.index(wire) - 1]
    faults = [ErrorResponse("content_filtered")]
    async with Emulator(forecaster, faults=faults) as strict, Emulator(forecaster) as sound:
        agent = agent_for(wire, strict, fallback=[other(second, sound)])
        with pytest.raises(HoldfastError) as caught:
            await turn(agent, mode)
        assert caught.value.info.category is ErrorCategory.CONTENT_FILTERED
        assert sound.requests == []
