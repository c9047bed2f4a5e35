"""Tries every order in which a conversation can fail, the shortest first.

A move lets a process continue at one of its gates, kills it, cancels it, or starts another driver.
States with the same future are explored once. A violation is reported with the shortest list of
moves that leads to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import msgspec
from tests.crash.explored_turns import Story
from tests.crash.invariants import Violation, after_move, at_the_end, before_act, folded
from tests.crash.process import CANCEL, CHANGED, OUTAGE, Log, View, view
from tests.crash.protocol import Process, Rules, State

from holdfast.core.events import Status
from holdfast.core.messages import Message
from holdfast.core.session_state import Phase
from holdfast.runtime.questions import question_records

Move = tuple[str, int, str]
"""What is done, to the how-manieth process that is there, and at which gate."""


@dataclass(frozen=True)
class Found:
    """What the explorer found in one story."""

    states: int
    ends: int
    moves: int
    violation: str = ""
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.violation:
            return f"{self.states} states, {self.moves} moves, {self.ends} ends"
        return "\n".join((self.violation, *(f"  {n}. {m}" for n, m in enumerate(self.path, 1))))


@dataclass
class Explorer:
    """Explores one story under one set of rules."""

    story: Story
    rules: Rules = field(default_factory=Rules)
    views: dict[object, View] = field(default_factory=dict)

    def explore(self) -> Found:
        """Explore breadth first, so that the first violation is a shortest one."""
        # A driver runs again for each move, and its events are compared.
        with patch.object(question_records, "new_nonce", lambda: "nonce"):
            return self._explore()

    def _explore(self) -> Found:
        whole = self._undisturbed()
        first = State()
        known: dict[object, tuple[object, str]] = {first.place: (None, "")}
        queue = deque([first])
        moves = ends = 0
        while queue:
            state = queue.popleft()
            here, stuck = state.place, True
            move = None
            try:
                for move in self._moves(state):
                    stuck = False
                    moves += 1
                    after = self._after(state, move)
                    if (place := after.place) not in known:
                        known[place] = (here, _said(state, move))
                        queue.append(after)
                if stuck:
                    ends += 1
                    at_the_end(self.story, state, whole)
            except Violation as error:
                last = (_said(state, move),) if move else ()
                return Found(len(known), ends, moves, str(error), (*_path(known, here), *last))
        return Found(len(known), ends, moves)

    def _undisturbed(self) -> tuple[Message, ...] | None:
        """Return the messages without any fault; None if even that run has a wrong end."""
        state = State()
        try:
            while moves := list(self._steps(state)) or list(self._begins(state)):
                state = self._after(state, moves[0])
        except Violation:
            return None
        return tuple(folded(state).transcript)

    def _moves(self, state: State) -> Iterator[Move]:
        yield from self._steps(state)
        yield from self._begins(state)
        for number, process in enumerate(state.processes):
            if process.ended:
                continue
            if state.crashes < self.story.crashes:
                yield ("kill", number, "")
            if self._may_fail(state, process):
                yield from (("fail", number, one) for one in process.waiting if _asks_model(one))
            if self._may_cancel(state, process):
                yield ("cancel", number, "")
                for label in process.waiting:
                    if label.startswith("keep"):
                        yield ("cancel", number, label)

    def _may_cancel(self, state: State, process: Process) -> bool:
        fits = self.story.after != "recover" or process.begins == "recover"
        return fits and state.cancels < self.story.cancels and CANCEL not in dict(process.log)

    def _may_fail(self, state: State, process: Process) -> bool:
        return process.begins == "recover" and state.outages < self.story.outages

    def _steps(self, state: State) -> Iterator[Move]:
        for number, process in enumerate(state.processes):
            if not process.ended:
                for label in sorted(process.waiting):
                    yield ("step", number, label)

    def _begins(self, state: State) -> Iterator[Move]:
        alive = any(not process.ended for process in state.processes)
        if not alive and not self._is_over(state):
            yield ("begin", 0, "")
        elif alive and self._may_overlap(state):
            yield ("begin", 1, "")

    def _may_overlap(self, state: State) -> bool:
        left = state.store and state.overlaps < self.story.overlaps
        return bool(left) and not self._is_over(state)

    def _is_over(self, state: State) -> bool:
        """Whether no process needs to start: the turn of the last message is closed."""
        machine = folded(state)
        if machine.phase is not Phase.IDLE or not machine.turn:
            return False
        if self.story.after != "message" or not state.crashes + state.overlaps:
            return True
        # A new message is sent until it is answered.
        return machine.turn > 1 and machine.status is Status.COMPLETED

    def _after(self, state: State, move: Move) -> State:
        what, number, label = move
        if what == "begin":
            return self._begun(state, overlap=bool(number))
        process = state.processes[number]
        if what == "kill":
            return self._killed(state, number)
        if what == "cancel":
            return self._cancelled(state, number, label)
        word, _, key = label.rstrip("'").partition(" ")
        if word == "read":
            return self._told(state, number, label, state.store)
        if word == "claim":
            state = self._claimed(state, number)
            return self._told(state, number, label, state.lease)
        if word == "keep":
            state, outcome = self._append(state, number, label)
            return self._told(state, number, label, outcome)
        if word == "act" and what == "fail":
            state = replace(state, outages=state.outages + 1)
            return self._told(state, number, label, OUTAGE)
        if word == "act":
            before_act(self.story, state, process, label, self.rules.kind)
            acts = {**state.acts, key: state.acts.get(key, 0) + 1}
            state = replace(state, acts=acts)
        return self._told(state, number, label, None)

    def _begun(self, state: State, *, overlap: bool) -> State:
        begins = self.story.after if state.store else "run"
        processes = tuple(one for one in state.processes if not one.ended)
        process = Process(state.begun + 1, begins, ())
        state = replace(
            state,
            begun=state.begun + 1,
            overlaps=state.overlaps + overlap,
            processes=(*processes, process),
        )
        return self._looked(state, len(processes), process, ())

    def _claimed(self, state: State, number: int) -> State:
        token = self.rules.claim(state)
        process = replace(state.processes[number], token=token)
        before, after = state.processes[:number], state.processes[number + 1 :]
        return replace(state, lease=token, processes=(*before, process, *after))

    def _append(
        self, state: State, number: int, label: str, *, is_acked: bool = True
    ) -> tuple[State, object]:
        """Save an append; with a version, claim the run in the same moment, if it has that."""
        event, effect, marker, version = state.processes[number].waiting[label]
        if version is not None:
            if not self.rules.has_version(state, version):
                return state, CHANGED
            state = self._claimed(state, number)
        process = state.processes[number]
        change, outcome = self.rules.append(state, process, event, effect, marker)
        if not is_acked:
            change.pop("acked", None)
        is_begun = version is not None and outcome is None
        return replace(state, **change), process.token if is_begun else outcome

    def _killed(self, state: State, number: int) -> State:
        left = tuple(one for at, one in enumerate(state.processes) if at != number)
        kept = state.store[: len(state.store) - state.lost_at_crash]
        after = replace(
            state, processes=left, store=kept, lost_at_crash=0, crashes=state.crashes + 1
        )
        for key in state.acked - set(after.keys):
            raise Violation(f"{key} was acknowledged, and is lost")
        return after

    def _cancelled(self, state: State, number: int, label: str) -> State:
        """A cancelled append is saved or it is not; `label` names one that is."""
        if label:
            state, _ = self._append(state, number, label, is_acked=False)
        state = replace(state, cancels=state.cancels + 1)
        return self._told(state, number, CANCEL, None)

    def _told(self, state: State, number: int, label: str, outcome: object) -> State:
        process = state.processes[number]
        return self._looked(state, number, process, (*process.log, (label, outcome)))

    def _looked(self, state: State, number: int, process: Process, log: Log) -> State:
        seen = self._view(process.begins, log)
        process = replace(process, log=log, waiting=seen.waiting, ended=seen.ended)
        before, after = state.processes[:number], state.processes[number + 1 :]
        state = replace(state, processes=(*before, process, *after))
        after_move(self.story, state, process, seen, self.rules.kind)
        return state

    def _view(self, begins: str, log: Log) -> View:
        name = (begins, tuple((label, _name(outcome)) for label, outcome in log))
        found = self.views.get(name)
        if found is None:
            found = self.views[name] = view(self.story, begins, log, self.rules.kind)
        return found


def _asks_model(label: str) -> bool:
    return label.startswith("act ") and label.rstrip("'").endswith(".model")


def _path(known: dict[object, tuple[object, str]], place: object) -> tuple[str, ...]:
    path: list[str] = []
    while place is not None:
        place, said = known[place]
        path.append(said)
    return tuple(reversed(path[:-1]))


def _name(outcome: object) -> object:
    return msgspec.json.encode(outcome) if isinstance(outcome, tuple) else outcome


def _said(state: State, move: Move) -> str:
    what, number, label = move
    if what == "begin":
        return f"driver {state.begun + 1} begins"
    return " ".join(filter(None, (f"driver {state.processes[number].number}:", what, label)))
