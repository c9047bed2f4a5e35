"""Each rule of the encoders for histories, broken: a judge of the property notices.

A mutant replaces a function or a text of an encoder, or a field of a preset's profile. The histories are the same in
every run. What no judge says of a sound encoder, one must say of the mutant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace
from tests.codecs.any_histories import (
    OTHER_MEDIA,
    TAKEN_MEDIA,
    given_histories,
    machine_histories,
)
from tests.codecs.history_judges import (
    Endpoint,
    Objection,
    ask_emulator,
    ask_sdk,
    codec_of,
    find_refusal,
)

from holdfast.codecs.anthropic import encode as anthropic_encode
from holdfast.codecs.anthropic import history as anthropic_history
from holdfast.codecs.gemini import encode as gemini_encode
from holdfast.codecs.gemini import history as gemini_history
from holdfast.codecs.openai_chat import encode as chat_encode
from holdfast.codecs.openai_chat import history as chat_history
from holdfast.codecs.openai_responses import encode as responses_encode
from holdfast.codecs.openai_responses import history as responses_history
from holdfast.core.messages import Message, Reasoning
from holdfast.core.model_request import ModelSettings
from holdfast.models.presets import PRESETS

HISTORIES = 700


@cache
def draw_histories() -> Sequence[Sequence[Message]]:
    """Return the same histories in every run."""
    found: list[Sequence[Message]] = []

    @settings(
        max_examples=HISTORIES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(machine_histories() | given_histories((*TAKEN_MEDIA, *OTHER_MEDIA)))
    def collect(messages: Sequence[Message]) -> None:
        found.append(messages)

    collect()
    return found


class Mutant(msgspec.Struct, frozen=True):
    """One broken rule, and the endpoint that notices.

    `swaps` are replaced attributes of a module or class, `profile` other fields of the preset's profile.
    """

    rule: str
    endpoint: Endpoint
    swaps: tuple[tuple[ModuleType | type, str, object], ...] = ()
    profile: Mapping[str, object] = {}
    judge: Objection = ask_emulator

    def planted(self) -> ExitStack:
        """Put the mutant in place."""
        stack = ExitStack()
        for owner, name, value in self.swaps:
            stack.enter_context(patch.object(owner, name, value))
        if self.profile:
            preset = PRESETS[self.endpoint.preset]
            changed = replace(preset, profile=preset.profile.change_fields(self.profile))
            others = {**PRESETS, preset.name: changed}
            stack.enter_context(patch("tests.codecs.history_judges.PRESETS", others))
        codec_of.cache_clear()
        stack.callback(codec_of.cache_clear)
        return stack


def without(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return the function without some fields of what it returns."""

    def mutant(*given: Any, **named: Any) -> Any:
        made = function(*given, **named)
        return {name: value for name, value in made.items() if name not in names}

    return mutant


def unchanged(value: Any, *_: object) -> Any:
    return value


def send_any_thought(part: Reasoning) -> dict[str, object]:
    return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}


def send_any_thought_of_gemini(part: Reasoning) -> dict[str, object]:
    signed = {"thoughtSignature": part.signature} if part.signature else {}
    return {"text": part.text, "thought": True, **signed}


def send_any_reasoning(part: Reasoning, *, stored: bool) -> dict[str, object]:
    return dict(part.extra or {"type": "reasoning", "id": "rs", "summary": []})


def say_anything(arguments: str) -> str:
    return arguments.encode("utf-8", "replace").decode() or "null"


def read_json(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except ValueError:
        return False


CLAUDE = Endpoint("anthropic", "claude-sonnet-4-5")
OPUS = Endpoint("anthropic", "claude-opus-4-6")
THINKING = Endpoint("anthropic", "claude-sonnet-4-5", ModelSettings(reasoning_tokens=2048))
OPENAI = Endpoint("openai", "gpt-5.2")
MISTRAL = Endpoint("mistral", "mistral-large-latest")
DEVSTRAL = Endpoint("mistral", "devstral-2512")
DEEPSEEK = Endpoint("deepseek", "deepseek-reasoner")
RESPONSES = Endpoint("openai-responses", "gpt-5.2")
GEMINI = Endpoint("gemini", "gemini-2.5-flash")
GEMINI_3 = Endpoint("gemini", "gemini-3-pro")

A, G, C, R = anthropic_history, gemini_history, chat_history, responses_history
MUTANTS = (
    Mutant("blank text is left out", CLAUDE, ((A, "_is_blank", lambda text: False),)),
    Mutant("an empty message is a line of text", CLAUDE, ((A, "EMPTY_MESSAGE", ""),)),
    Mutant("a failed result has content", CLAUDE, ((A, "_FAILED", ""),)),
    Mutant("results are in one message", CLAUDE, ((anthropic_encode, "arrange_results", unchanged),)),
    Mutant("results are in one message", OPENAI, ((chat_encode, "arrange_results", unchanged),)),
    Mutant("results have the names of calls", GEMINI, ((gemini_encode, "arrange_results", unchanged),)),
    Mutant("abandoned calls are left out", CLAUDE, ((anthropic_encode, "find_abandoned_calls", lambda *_: frozenset()),)),
    Mutant("no thinking after calls without a thought", THINKING, ((anthropic_encode, "begins_calls_unthought", lambda _: False),)),
    Mutant("thoughts stay on their wire", CLAUDE, ((A, "_thinking_block", send_any_thought),)),
    Mutant("ids are those that the wire accepts", CLAUDE, ((anthropic_encode, "check_new_pairs", lambda *_: True),)),
    Mutant("a reply at the end is not a beginning", OPUS, ((anthropic_encode, "_encode_tail", lambda *_: b"]}"),)),
    *(
        Mutant("names are those that the wire accepts", endpoint, ((module, "to_wire_name", unchanged),))
        for endpoint, module in ((CLAUDE, A), (OPENAI, C), (RESPONSES, R), (GEMINI, G))
    ),
    *(
        Mutant("arguments are an object", endpoint, ((module, "sendable_arguments", say_anything),))
        for endpoint, module in ((CLAUDE, A), (OPENAI, C), (RESPONSES, R), (GEMINI, G))
    ),
    Mutant("ids have nine letters and digits", MISTRAL, ((C.HistoryEncoder, "_wire_ids", lambda self, ids: ids),)),
    Mutant("signatures of Google go to Google", OPENAI, profile={"state_fields": ["extra_content"]}),
    Mutant("sound is known by its id to few", Endpoint("groq", "m"), profile={"audio_by_id": True}),
    Mutant("a provider may take no videos", OPENAI, profile={"videos": True}),
    Mutant("reasoning must not be absent", DEEPSEEK, profile={"reasoning_required": False}),
    Mutant("roles alternate after results", DEVSTRAL, profile={"alternating_roles": False}),
    Mutant("a reply at the end has a mark", MISTRAL, ((chat_encode, "_MARKED", ()),)),
    Mutant("reasoning is followed by something", RESPONSES, ((R, "_leave_out_last_reasoning", unchanged),)),
    Mutant("reasoning stays on its wire", RESPONSES, ((R, "_encode_reasoning", send_any_reasoning),)),
    Mutant("ids are not too long", RESPONSES, ((responses_encode, "_accepts_id", lambda call: True),)),
    Mutant("a text has annotations", RESPONSES, ((R, "_content_part", without(R._content_part, "annotations")),), judge=ask_sdk),
    Mutant("a picture has a detail", RESPONSES, ((R, "_encode_media", without(R._encode_media, "detail")),), judge=ask_sdk),
    Mutant("calls follow the user", GEMINI, ((gemini_encode, "_begins_with_calls", lambda *_: False),)),
    Mutant("contents end with the user", GEMINI, ((gemini_encode, "_GO_ON", b"]}"),)),
    Mutant("results are not too deep", GEMINI, ((G, "is_plain_object", read_json),)),
    Mutant("thoughts stay on their wire", GEMINI, ((G, "_encode_thought", send_any_thought_of_gemini),)),
    Mutant("the first call is signed", GEMINI_3, ((gemini_encode, "encode_message_for_signers", G.encode_message),)),
)  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.slow  # draws 700 histories, which takes 15 seconds
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.rule}: {one.endpoint.preset}")
def test_each_broken_rule_is_noticed(mutant: Mutant) -> None:
    with mutant.planted():
        assert next(objections(mutant), ""), "no judge objects"


def objections(mutant: Mutant) -> Iterator[str]:
    for messages in draw_histories():
        if said := find_refusal(mutant.endpoint, messages, mutant.judge):
            yield said


@pytest.mark.timeout(600)
@pytest.mark.slow  # as above
def test_no_judge_objects_to_the_encoders() -> None:
    for mutant in MUTANTS:
        assert list(objections(mutant)) == []
