"""The questions of a probe, and how their answers are understood: right, or unknown, and never wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.obedient import obey

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.probe_answers import EndpointAnswer
from holdfast.codecs.openai_chat.probing import (
    MOST_QUESTIONS,
    TRAITS,
    EndpointQuestion,
    ProbeResult,
    Trait,
    probe_steps,
)
from holdfast.core.messages import Reasoning
from holdfast.testing.emulator import DRESSES, Dress, MalformedRequest
from holdfast.testing.emulator.script import as_reply
from holdfast.testing.emulator.wires import openai_chat
from holdfast.testing.emulator.wires.emulator_wire import Rendering
from holdfast.testing.emulator.wires.request_checks import CHECKS
from holdfast.testing.emulator.wires.request_rules import choice

Server = Callable[[EndpointQuestion], EndpointAnswer]

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


def play(dress: Dress) -> Server:
    """An endpoint in a dress, without a network."""

    def answer(question: EndpointQuestion) -> EndpointAnswer:
        try:
            request = openai_chat.parse_request("", {}, question.encoded.body)
            CHECKS["openai_chat"](request, dress)
        except MalformedRequest as error:
            refused = openai_chat.invalid_request(error)
            body = msgspec.json.encode(refused.body)
            return EndpointAnswer(status=refused.status, headers=JSON, body=body)
        request = dress.read_request(request)
        reply = as_reply(obey(request), 1, "openai_chat")
        if dress.reasoning_field[0] in "<[":
            reply = msgspec.structs.replace(reply, parts=(Reasoning("Hm."), *reply.parts))
        rendering = Rendering(model="m", include_usage=request.include_usage, dress=dress)
        if request.stream:
            chunks = openai_chat.render_chunks(reply, rendering)
            return EndpointAnswer(status=200, headers=EVENTS, body=b"".join(chunks))
        return EndpointAnswer(
            status=200, headers=JSON, body=openai_chat.render_whole(reply, rendering)
        )

    return answer


def probe(server: Server, base: EndpointProfile | None = None) -> ProbeResult:
    steps = probe_steps("m", base or EndpointProfile())
    answer: EndpointAnswer | None = None
    while True:
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            result: ProbeResult = end.value
            return result
        answer = server(question)


def scripted(*answers: EndpointAnswer) -> Server:
    left: Iterator[EndpointAnswer] = iter(answers)
    plain = play(Dress())
    return lambda question: next(left, None) or plain(question)


def told(status: int, message: str) -> EndpointAnswer:
    body = msgspec.json.encode({"error": {"message": message}})
    return EndpointAnswer(status=status, headers=JSON, body=body)


PAGE = EndpointAnswer(
    status=200, headers={"content-type": "text/html"}, body=b"<html>Sign in</html>"
)


def answers_of(result: ProbeResult) -> dict[str, str]:
    return {one.trait: one.answer for one in result.findings}


ONLY_WORDS = choice("none auto required")


def takes_names(dress: Dress) -> bool:
    return dress.named_choice and dress.own.get("tool_choice") != ONLY_WORDS


def check_truth(result: ProbeResult, dress: Dress, base: EndpointProfile) -> None:
    """Each answer of a probe is true of the dress, and an unknown one changes nothing."""
    profile = result.profile
    refuses, gone = {*dress.refuses}, {*dress.refuses, *dress.ignores}
    found = answers_of(result)
    if found["system_role"] == "yes":
        assert profile.system_role in dress.roles
    truths: dict[Trait, tuple[bool, bool]] = {
        # whether "yes" is true, and whether "no" is
        "max_tokens_field": (
            profile.max_tokens_field not in gone,
            {"max_tokens", "max_completion_tokens"} <= refuses,
        ),
        "stream_usage": ("stream_options" not in refuses, "stream_options" in refuses),
        "tools": ("tools" not in refuses, "tools" in refuses),
        "tool_choice": (
            "tool_choice" not in gone
            and (profile.forces_tools == "required" or takes_names(dress)),
            "tool_choice" in gone,
        ),
        "parallel_tool_calls": (
            "parallel_tool_calls" not in refuses,
            "parallel_tool_calls" in refuses,
        ),
        "response_format": (
            "json_schema" in dress.formats and "response_format" not in gone,
            "json_schema" not in dress.formats or "response_format" in gone,
        ),
        "images": (dress.images, not dress.images),
        "alternating_roles": (dress.alternates, not dress.alternates),
    }
    for trait, (is_yes, is_no) in truths.items():
        said = f"{trait}: {found[trait]}: {result.find(trait).words}"
        assert found[trait] != "yes" or is_yes, said
        assert found[trait] != "no" or is_no, said
    for trait in TRAITS:
        if found[trait] == "unknown" and trait not in ("tools", "parallel_tool_calls"):
            name = "forces_tools" if trait == "tool_choice" else trait
            assert getattr(profile, name) == getattr(base, name), trait
    assert len(result.calls) <= MOST_QUESTIONS
    assert base.change_fields(result.changes, "openai_chat") == profile


@pytest.mark.parametrize("name", DRESSES)
def test_the_answer_in_a_dress_is_the_dress(name: str) -> None:
    dress = DRESSES[name]
    result = probe(play(dress))
    if dress.fields is not None:
        known = {"max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls"}
        dress = msgspec.structs.replace(dress, refuses=(*dress.refuses, *(known - dress.fields)))
    check_truth(result, dress, EndpointProfile())
    unknown = {trait for trait, answer in answers_of(result).items() if answer == "unknown"}
    # Without tools there is nothing to force, or to call at once.
    without_tools = {"tool_choice", "parallel_tool_calls"} if "tools" in dress.refuses else set()
    assert unknown == without_tools


WORDS = [dress.words for dress in DRESSES.values()]
FIELDS = [
    *("max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls"),
    *("tools", "tool_choice", "response_format"),
]


@st.composite
def mixtures(draw: st.DrawFn) -> Dress:
    refuses = draw(st.lists(st.sampled_from(FIELDS), unique=True, max_size=3))
    free = [name for name in FIELDS if name not in refuses and name != "tools"]
    formats = draw(st.sampled_from([("text", "json_schema"), ("text", "json_object"), ("text",)]))
    roles = ["user", "assistant", "tool"]
    roles += draw(st.sampled_from([["system"], ["system", "developer"], ["developer"], []]))
    return Dress(
        refuses=tuple(refuses),
        ignores=tuple(draw(st.lists(st.sampled_from(free), unique=True, max_size=2))),
        roles=tuple(roles),
        formats=draw(st.sampled_from([Dress().formats, formats])),
        images=draw(st.booleans()),
        alternates=draw(st.booleans()),
        words=draw(st.sampled_from(WORDS)),
        usage=draw(st.sampled_from(["asked", "always", "never"])),
        finish_field=draw(st.sampled_from(["finish_reason", "native_finish_reason", ""])),
        named_choice=draw(st.booleans()),
        own=draw(st.sampled_from([{}, {"tool_choice": ONLY_WORDS}])),
        end_marker=draw(st.booleans()),
        reasoning_field=draw(st.sampled_from(["reasoning_content", "<think>", "[THINK]"])),
    )


@pytest.mark.slow  # takes half a second or more
@given(mixtures())
def test_a_mixture_of_dresses_is_read_right_or_is_unknown(dress: Dress) -> None:
    base = EndpointProfile()
    check_truth(probe(play(dress), base), dress, base)


DISTURBANCES = [
    PAGE,
    EndpointAnswer(status=400, headers={"content-type": "text/html"}, body=b"<html>Blocked</html>"),
    EndpointAnswer(
        status=502, headers={"content-type": "text/html"}, body=b"<html>Bad gateway</html>"
    ),
    EndpointAnswer(
        status=200, headers=JSON, body=b'{"choices": [{"mess', problem="the body was cut"
    ),
    EndpointAnswer(problem="no response within 60 seconds"),
    EndpointAnswer(status=200, headers=JSON, body=b"null"),
    told(429, "Rate limit reached for max_tokens"),
    told(401, "invalid key: the role developer is not supported"),
    told(500, "internal error"),
    told(200, "overloaded"),
]


@given(mixtures(), st.lists(st.none() | st.sampled_from(DISTURBANCES), max_size=MOST_QUESTIONS))
def test_a_disturbed_question_is_unknown(
    dress: Dress, disturbed: Sequence[EndpointAnswer | None]
) -> None:
    left = iter(disturbed)
    server = play(dress)
    base = EndpointProfile()
    check_truth(probe(lambda question: next(left, None) or server(question), base), dress, base)


@pytest.mark.parametrize("first", DISTURBANCES)
def test_after_no_first_answer_all_is_unknown(first: EndpointAnswer) -> None:
    result = probe(scripted(first))
    assert len(result.calls) == 1
    assert {*answers_of(result).values()} == {"unknown"}
    assert result.changes == {}


def test_the_word_required_is_tried_where_a_name_has_no_effect() -> None:
    for dress in (DRESSES["llamacpp"], DRESSES["lmstudio"]):
        result = probe(play(dress))
        assert result.profile.forces_tools == "required"
        assert result.find("tool_choice").words == 'a call came that was forced by "required"'
    neither = Dress(ignores=("tool_choice",))
    assert probe(play(neither)).profile.forces_tools == ""
    assert probe(play(Dress())).profile.forces_tools == "named"


def test_a_limit_of_calls_later_is_unknown_and_ends_the_probe() -> None:
    plain = play(Dress())
    asked: list[EndpointQuestion] = []

    def server(question: EndpointQuestion) -> EndpointAnswer:
        asked.append(question)
        return plain(question) if len(asked) < 3 else told(429, "Too many requests")

    result = probe(server)
    assert len(asked) == 3
    assert answers_of(result)["stream_usage"] == "yes"
    assert answers_of(result)["tools"] == "unknown"
    assert result.find("images").words == "not asked: status 429: Too many requests"


def test_a_refusal_that_names_nothing_is_no_proof() -> None:
    dress = Dress(
        refuses=("max_tokens", "max_completion_tokens"),
        roles=("user", "assistant", "tool"),
        words=lambda _: MalformedRequest("Input validation error"),
    )
    result = probe(play(dress))
    assert result.find("max_tokens_field").answer == "unknown"
    assert result.find("system_role").answer == "unknown"
    assert result.changes == {}


def test_an_endpoint_that_refuses_everything_has_no_profile() -> None:
    result = probe(lambda _: told(400, "Invalid model: m"))
    assert {*answers_of(result).values()} == {"unknown"}
    assert result.changes == {}
    assert len(result.calls) <= MOST_QUESTIONS


def test_a_stream_that_ends_early_is_not_called_complete() -> None:
    cut = Dress(finish_field="", end_marker=False)
    assert probe(play(cut)).profile.ends_without_finish is False
    marked = Dress(finish_field="")
    assert probe(play(marked)).profile.ends_without_finish is True


def test_what_beside_the_profile_is_seen_is_noted() -> None:
    whole = play(Dress())

    def server(question: EndpointQuestion) -> EndpointAnswer:
        body: Any = msgspec.json.decode(question.encoded.body)
        answer = whole(question)
        if body.get("stream"):
            body = {
                "choices": [{"message": {"content": "<think>Hm.</think>Hi.", "reasoning": "Hm."}}]
            }
            return EndpointAnswer(status=200, headers=JSON, body=msgspec.json.encode(body))
        return answer

    assert probe(server).notes == (
        "reasoning stands in the field reasoning",
        "a request for a stream is answered by a whole reply",
    )


@pytest.mark.parametrize("tag", ["<think>", "<thinking>", "[THINK]"])
def test_the_tags_of_thinking_are_part_of_the_profile(tag: str) -> None:
    result = probe(play(Dress(reasoning_field=tag)))
    assert result.changes == {"thinking_tags": [tag]}
    assert {one.answer for one in result.findings if one.trait != "alternating_roles"} == {"yes"}


def test_a_reply_that_begins_inside_of_thinking_is_seen() -> None:
    body = {"choices": [{"message": {"content": "Hm.</think>Hi."}, "finish_reason": "stop"}]}
    answer = EndpointAnswer(status=200, headers=JSON, body=msgspec.json.encode(body))
    assert probe(scripted(answer)).changes == {"thinking_tags": ["</think>"]}


def test_each_trait_has_a_finding() -> None:
    assert get_args(Trait) == TRAITS
    assert [one.trait for one in probe(play(Dress())).findings] == [*TRAITS]
