"""The emulated model: it reads answers by a few rules, and words what it is told to say.

It is as obedient, and as unreliable, as a script makes it; `make_faults` lets it fail, answer nonsense
and break off. It must never need a network or a key, and never know what the server will decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast import Media, ToolCall
from holdfast.testing.emulator import (
    CutToolArguments,
    Delay,
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    Html200,
    ResetBeforeHeaders,
    TruncatedJson,
    call,
    chaos,
)
from registration.emulators.pictures import judge_picture

MODEL = "gpt-4.1"

ModelFaults: TypeAlias = Callable[[EmulatedRequest], Fault | None]
"""Returns the fault that a request to the model meets."""

_CORRECTION = re.compile(
    r"\b(?:wrong|mistake|actually|correction|should be|change my|change the)\b", re.IGNORECASE
)
_QUESTION = re.compile(
    r"^(?:why|what|how|who|when|where|do you|does|can|could|is it|are)\b.*\?$", re.IGNORECASE
)
_TO_SAY = re.compile(r"^---\n(.*)\n---$", re.DOTALL | re.MULTILINE)
_STEP = re.compile(r"`routine_number` (\d+)")
_FIELDS = re.compile(r"The fields: ([a-z_, ]+)\.")

_WORDS_OF_FIELD: Mapping[str, str] = {
    "mobile": "parent_phone",
    "phone": "parent_phone",
    "number is": "parent_phone",
    "email": "parent_email",
    "e-mail": "parent_email",
    "postcode": "parent_postcode",
    "birth": "child_born",
    "born": "child_born",
    "my name": "parent_name",
    "name": "child_name",
    "gender": "gender",
    "medical": "medical",
}


def choose_reply(request: EmulatedRequest) -> str | Sequence[ToolCall]:
    """Return what the emulated model replies."""
    if any(tool.name == "submit_answer" for tool in request.tools):
        return [call("submit_answer", read_message(request.text, _instructions(request)))]
    picture = _picture_of(request)
    if picture is not None:
        return msgspec.json.encode(judge_picture(picture)).decode()
    told = _instructions(request)
    to_say = _TO_SAY.search(told)
    if to_say is None:
        return answer_generally(request.text)
    answer: dict[str, object] = {"agent_final_response": to_say[1]}
    step = _STEP.search(told)
    if step is not None:
        answer["routine_number"] = int(step[1])
    return msgspec.json.encode(answer).decode()


def read_message(message: str, told: str) -> dict[str, object]:
    """Return the arguments of `submit_answer` for what a parent wrote.

    Args:
        message: what the parent wrote.
        told: the instructions, which name the fields that were answered before.
    """
    text = message.strip()
    if _QUESTION.match(text):
        return {"understood": False, "question": text}
    corrected = _find_field(text, told) if _CORRECTION.search(text) else None
    if corrected is not None:
        value = re.split(r"\b(?:is|be|to)\b", text)[-1].strip(" .!")
        return {"understood": True, "value": value, "wants_to_change": corrected}
    return {"understood": bool(text), "value": text}


def answer_generally(message: str) -> str:
    """Return an answer of the universal agent."""
    if "code" in message.lower():
        return "The manager or coach of your child's team gives you a registration code."
    return "Happy to help. To register a child, type the code that the team's manager gave you."


def make_faults(share: float, seed: int) -> ModelFaults:
    """Return the faults of a provider of which a share of the calls fails.

    Args:
        share: from 0 to 1.
        seed: of the random numbers.
    """
    return chaos(seed=seed, share=share, faults=FAULTS)


class CountedFaults:
    """Faults as of `make_faults`, and what was counted of them.

    Args:
        share: which share of the calls fails, from 0 to 1.
        seed: of the random numbers.
    """

    def __init__(self, share: float, seed: int) -> None:
        self._choose = make_faults(share, seed)
        self.requests = 0
        self.happened: Counter[str] = Counter()

    def __call__(self, request: EmulatedRequest) -> Fault | None:
        """Return the fault that a request meets, and count it."""
        self.requests += 1
        fault = self._choose(request)
        if fault is not None:
            self.happened[name_fault(fault)] += 1
        return fault


def name_fault(fault: Fault) -> str:
    """Return the name of a fault as a person reads it.

    >>> name_fault(ErrorResponse("rate_limit")), name_fault(CutToolArguments())
    ('rate limit', 'cut tool arguments')
    """
    name = fault.kind if isinstance(fault, ErrorResponse) else type(fault).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])|_", " ", name).lower()


FAULTS: tuple[Fault, ...] = (
    ErrorResponse("rate_limit", {"retry-after": "1"}),
    ErrorResponse("overloaded"),
    ErrorResponse("server_error"),
    ResetBeforeHeaders(),
    DropAfter(30),
    Html200(),
    TruncatedJson(),
    CutToolArguments(),
    Delay(1.0),
)


def _instructions(request: EmulatedRequest) -> str:
    return "\n".join(one.text for one in request.messages if one.role == "system")


def _picture_of(request: EmulatedRequest) -> Media | None:
    for message in reversed(request.messages):
        for part in message.parts:
            if isinstance(part, Media):
                return part
    return None


def _find_field(text: str, told: str) -> str | None:
    listed = _FIELDS.search(told)
    known = listed[1].split(", ") if listed else []
    lowered = text.lower()
    for words, field in _WORDS_OF_FIELD.items():
        if words in lowered and field in known:
            return field
    return None
