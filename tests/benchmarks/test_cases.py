"""Both sides of a benchmark do equal work: the same requests, the same things read."""

from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from benchmarks.case import Case, Seen, Side
from benchmarks.cases import CASES
from benchmarks.cases.tool_iterations import RESULT
from benchmarks.replies import ANSWER, render
from benchmarks.server import serve

from benchmarks import built_ins
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.hooks import AFTER, BEFORE, WRAP, Middleware

LONG = ["stream-200", "paced-200", "drip-200", "burst-1000", "closing-20"]
two_sided = [case for case in CASES if isinstance(case, Case)]


class Served:
    """The server, and the bodies of the requests that it saw."""

    def __init__(self, url: str, bodies: list[bytes]) -> None:
        self.url = url
        self.bodies = bodies

    async def turn(self, side: Side, scenario: str) -> tuple[Seen, list[dict[str, object]]]:
        self.bodies.clear()
        async with side(self.url) as turn:
            seen = await turn(scenario)
        return seen, [msgspec.json.decode(body) for body in self.bodies]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    bodies: list[bytes] = []
    async with serve(bodies.append) as url:
        yield Served(url, bodies)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("case", two_sided, ids=lambda case: case.name)
async def test_both_sides_send_the_same_and_read_the_same(case: Case, served: Served) -> None:
    floor, floor_bodies = await served.turn(case.floor, case.scenario)
    ours, our_bodies = await served.turn(case.ours, case.scenario)

    assert ours == floor
    assert floor.text.startswith(ANSWER[:10])
    # A side may have asked before, to have a history.
    if case.same_requests:
        assert our_bodies[-len(floor_bodies) :] == floor_bodies


@pytest.mark.parametrize(
    ("name", "requests", "results"),
    [("one-turn", 1, 0), ("tool-iteration", 11, 10), ("parallel-call", 2, 8), ("delta", 1, 0)],
)
async def test_the_floor_does_the_work_of_its_scenario(
    name: str, requests: int, results: int, served: Served
) -> None:
    (case,) = (case for case in two_sided if case.name == name)
    seen, bodies = await served.turn(case.floor, case.scenario)

    assert len(bodies) == requests
    assert msgspec.json.encode(bodies[-1]).count(RESULT.encode()) == results
    assert seen.input_tokens == 120 * requests


@pytest.mark.parametrize(("made", "hooked"), [(built_ins.idle, 16), (built_ins.working, 15)])
def test_the_built_ins_are_as_many_as_the_table_says(
    made: Callable[[], list[AnyMiddleware]], hooked: int
) -> None:
    middlewares = made()
    assert len(middlewares) == 20
    names = (*BEFORE, *WRAP, *AFTER)
    assert hooked == sum(
        any(getattr(type(one), name) is not getattr(Middleware, name) for name in names)
        for one in middlewares
    )


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("scenario", ["text", "tools-1", "parallel-8", *LONG])
def test_the_server_frames_its_answer_as_it_announces(scenario: str, streamed: bool) -> None:
    head, _, body = b"".join(render(scenario, 0, streamed)).partition(b"\r\n\r\n")

    if streamed:
        assert b"transfer-encoding: chunked" in head
        assert body.endswith(b"\r\n0\r\n\r\n")
        assert body.count(b"data: ") == body.count(b"\n\n")
    else:
        assert f"content-length: {len(body)}".encode() in head
        assert msgspec.json.decode(body)["usage"]["total_tokens"] == 144
