"""A process is killed between an act and its answer: a repetition finds the act, and tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.note_agent import answer
from tests.server.processes import GONE, ServedProcess
from tests.server.serving import Answer, Api

from holdfast.testing.emulator import Emulator

pytestmark = [pytest.mark.anyio, pytest.mark.slow]  # kills services


class DeadlyProcess(ServedProcess):
    """A process that kills itself at an act."""

    module = "tests.server.deadly_service"


class Killed:
    """A service that is killed at chosen acts, and started again.

    Args:
        process: the process.
        flag: the file that says when it dies.
        api: a client.
    """

    def __init__(self, process: ServedProcess, flag: Path, api: Api) -> None:
        self._process = process
        self._flag = flag
        self.api = api
        self._keys = 0

    async def send(self, method: str, path: str, body: object, key: str) -> Answer:
        """Send a request with a key."""
        data = {"data": body} if isinstance(body, bytes) else {}
        kind = {"Content-Type": "application/x-ndjson"} if data else {}
        headers = {"Idempotency-Key": key, **kind}
        return await self.api.call(method, path, None if data else body, headers=headers, **data)

    async def kill_at(
        self, moment: str, method: str, path: str, body: object = None, other: object = None
    ) -> Answer:
        """Let the process die at an act; return the answer to a repetition.

        Args:
            moment: when it dies.
            method: the method of the request.
            path: its path.
            body: its body.
            other: another body, which is refused with the same key.
        """
        self._keys += 1
        key = f"k{self._keys}"
        self._flag.write_text(moment)
        with pytest.raises(GONE):
            await self.send(method, path, body, key)
        await self._process.wait()
        self._process.start()
        first = await self.send(method, path, body, key)
        again = await self.send(method, path, body, key)
        assert first.status < 300, first.body
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["idempotency-replayed"] == "true"
        assert (first.headers.get("idempotency-replayed") == "true") == (moment != "before")
        if other is not None:
            assert (await self.send(method, path, other, key)).json["kind"] == "idempotency_key"
        return first

    async def acts(self, session: str = "ada") -> list[str]:
        """The names of the acts on a session."""
        found = (await self.api.get(f"/sessions/{session}/acts")).json
        assert {act["by"] for act in found} <= {"local"}
        return [act["act"] for act in found]

    async def talk(self, session: str, message: str) -> Any:
        """Start a turn, and wait until it rests."""
        body = {"agent": "noter", "session": session, "message": message, "wait": 30}
        return (await self.api.post("/turns", body)).json

    async def sessions(self) -> set[str]:
        """The names of all sessions."""
        return {one["session"] for one in (await self.api.get("/sessions")).json["sessions"]}


@pytest.fixture
def model() -> Iterator[Emulator]:
    with Emulator(answer) as running:
        yield running


@asynccontextmanager
async def serve_deadly(journal: str, model: Emulator, folder: Path) -> AsyncIterator[Killed]:
    with DeadlyProcess(journal, model.base_url, folder) as process:
        async with Api(process.api.removesuffix("/api/v1")) as api:
            yield Killed(process, folder / "deadly", api)


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    return str(request.getfixturevalue("url"))


async def test_copies_are_made_once(journal: str, model: Emulator, tmp_path: Path) -> None:
    async with serve_deadly(journal, model, tmp_path) as killed:
        for message in ("Note a", "Note b"):
            await killed.talk("ada", message)
        path = "/sessions/ada/fork"
        fork = await killed.kill_at("after", "POST", path, {}, {"at": 1})
        edit = {"edit": {"turn": 2, "message": "Note c"}}
        first = {"edit": {"turn": 1, "message": "Note d"}}
        edits = [
            await killed.kill_at("after", "POST", path, edit, first),
            await killed.kill_at("turn", "POST", path, edit),
            await killed.kill_at("after", "POST", path, first),
            await killed.kill_at("turn", "POST", path, first),
        ]
        lines = (await killed.api.get("/sessions/ada/export")).body
        imported = await killed.kill_at("after", "POST", "/sessions/import?session=eve", lines, b"")
        made = await killed.kill_at(
            "after", "POST", "/sessions", {"title": "Bills"}, {"title": "x"}
        )
        copies = [one.json["session"] for one in (fork, *edits, imported, made)]
        assert await killed.sessions() == {"ada", *copies}
        assert len(set(copies)) == len(copies)
        assert await killed.acts() == ["fork"] * 5
        assert await killed.acts("eve") == ["import"]
        assert await killed.acts(made.json["session"]) == ["title"]
        for one, turn in zip(edits, (2, 2, 1, 1), strict=True):
            assert one.json["turn"] == turn
            name = one.json["session"]
            turns = (await killed.api.get(f"/sessions/{name}/turns/{turn}?wait=30")).json
            assert turns["status"] == "completed", turns
            points = (await killed.api.get(f"/sessions/{name}/history")).json["points"]
            assert len(points) == turn


async def test_changes_are_made_once(journal: str, model: Emulator, tmp_path: Path) -> None:
    async with serve_deadly(journal, model, tmp_path) as killed:
        for message in ("Note a", "Note b"):
            await killed.talk("ada", message)
        rewind = await killed.kill_at("after", "POST", "/sessions/ada/rewind", {"to": 2}, {"to": 1})
        body = {"keep": 1, "summary": "They talked."}
        compact = await killed.kill_at(
            "after", "POST", "/sessions/ada/compact", body, {**body, "keep": 0}
        )
        assert (rewind.json, compact.json) == ({"number": 3}, {"number": 4})
        title = await killed.kill_at(
            "after", "PATCH", "/sessions/ada", {"title": "Bills"}, {"title": "x"}
        )
        assert title.json["title"] == "Bills"
        assert len((await killed.api.get("/sessions/ada/history")).json["points"]) == 4
        assert await killed.acts() == ["rewind", "compact", "title"]
        deleted = await killed.kill_at("after", "DELETE", "/sessions/ada")
        assert deleted.status == 204
        assert await killed.sessions() == set()
        # What was deleted is gone with its acts; a later session of the same name is another one.
        await killed.talk("ada", "Note c")
        assert await killed.acts() == ["delete"]
        assert (await killed.send("DELETE", "/sessions/ada", None, "k4")).status == 204
        assert await killed.sessions() == {"ada"}


async def test_acts_on_turns_are_done_once(journal: str, model: Emulator, tmp_path: Path) -> None:
    async with serve_deadly(journal, model, tmp_path) as killed:
        for session, act in (("ada", "cancel"), ("bob", "abandon")):
            waiting = await killed.talk(session, "Pay")
            assert waiting["status"] == "waiting"
            path = f"/sessions/{session}/{act}"
            done = await killed.kill_at("after", "POST", path)
            assert done.json == {"session": session, "turn": 1, "status": "cancelled"}
            assert await killed.acts(session) == [act]
            # A late repetition of the first request leaves the next turn alone.
            assert (await killed.talk(session, "Pay"))["status"] == "waiting"
            key = "k1" if act == "cancel" else "k2"
            assert (await killed.send("POST", path, None, key)).json == done.json
            assert (await killed.api.get(f"/sessions/{session}")).json["turn_status"] == "waiting"
        question = (await killed.api.get("/sessions/ada/questions")).json[0]
        body = {"key": question["key"], "binding": question["binding"], "answer": "approve"}
        path = "/sessions/ada/answers"
        given = await killed.kill_at("after", "POST", path, body, {**body, "answer": "deny"})
        assert given.json["accepted"]
        turn = (await killed.api.get("/sessions/ada/turns/2?wait=30")).json
        assert turn["status"] == "completed"
        assert (tmp_path / "paid").read_text().split() == ["paid"]
        assert await killed.acts() == ["cancel", "answer"]


async def test_the_cancellation_of_a_queued_turn_leaves_the_next_one(
    url: str, model: Emulator, tmp_path: Path
) -> None:
    (tmp_path / "front").touch()
    async with serve_deadly(url, model, tmp_path) as killed:
        for message in ("Note a", "Note b"):
            body = {"agent": "noter", "session": "ada", "message": message}
            await killed.api.post("/turns", body)
        done = await killed.kill_at("after", "POST", "/sessions/ada/cancel")
        assert done.json == {"session": "ada", "turn": 0, "status": "cancelled"}
        found = (await killed.api.get("/queue/entries?session=ada")).json["entries"]
        states = {one["entry"]: one["state"] for one in found}
        assert [states[entry] for entry in sorted(states)] == ["dropped", "ready"]


async def test_what_was_not_done_is_done_after_a_restart(model: Emulator, tmp_path: Path) -> None:
    """Nobody else uses a file, so a repetition does not wait for the process that died."""
    async with serve_deadly(f"sqlite:///{tmp_path / 'journal.db'}", model, tmp_path) as killed:
        await killed.talk("ada", "Note a")
        fork = await killed.kill_at("before", "POST", "/sessions/ada/fork", {}, {"at": 1})
        assert await killed.sessions() == {"ada", fork.json["session"]}
        rewind = await killed.kill_at("before", "POST", "/sessions/ada/rewind", {"to": 0})
        assert rewind.json == {"number": 2}
        assert await killed.acts() == ["fork", "rewind"]
