"""The emulated model: it reads answers by a few rules, words the texts that it is given, and judges pictures.

It is as obedient, and as unreliable, as a script makes it; `make_faults` lets it fail, answer nonsense
and break off. A picture that is mostly green shows no person, but a pitch, so tests and the demo can make pictures
of both kinds. It must never need a network or a key, never keep a picture, and never know the server's next decision.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TypeAlias

import msgspec
from PIL import Image, ImageStat

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
    """Return the reply of the emulated model."""
    if any(tool.name == "submit_answer" for tool in request.tools):
        return [call("submit_answer", read_message(request.text, _instructions(request)))]
    picture = _picture_of(request)
    if picture is not None:
        return msgspec.json.encode(judge_picture(picture)).decode()
    instructions = _instructions(request)
    to_say = _TO_SAY.search(instructions)
    if to_say is None:
        return answer_generally(request.text)
    answer: dict[str, object] = {"agent_final_response": to_say[1]}
    step = _STEP.search(instructions)
    if step is not None:
        answer["routine_number"] = int(step[1])
    return msgspec.json.encode(answer).decode()


def read_message(message: str, instructions: str) -> dict[str, object]:
    """Return the arguments of `submit_answer` for a parent's message.

    Args:
        message: the message of the parent.
        instructions: those of the model, which name the fields that were answered before.
    """
    text = message.strip()
    if _QUESTION.match(text):
        return {"understood": False, "question": text}
    corrected = _find_field(text, instructions) if _CORRECTION.search(text) else None
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
    """Faults as of `make_faults`, and how often each occurred.

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


def _find_field(text: str, instructions: str) -> str | None:
    listed = _FIELDS.search(instructions)
    known = listed[1].split(", ") if listed else []
    lowered = text.lower()
    for words, field in _WORDS_OF_FIELD.items():
        if words in lowered and field in known:
            return field
    return None


def judge_picture(picture: Media) -> dict[str, object]:
    """Return the verdict, as the arguments of `PhotoVerdict`."""
    with Image.open(BytesIO(picture.data or b"")) as image:
        red, green, blue = ImageStat.Stat(image.convert("RGB").resize((16, 16))).mean
    if green > 1.3 * max(red, blue):
        return {"acceptable": False, "reason": "I can see a pitch, but no person."}
    return {"acceptable": True, "reason": ""}
