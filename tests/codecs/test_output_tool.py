"""The tool whose call is the answer: how it is offered, and what its call becomes."""

from __future__ import annotations

import pytest

from holdfast.codecs.output_mode import (
    OutputMethod,
    offer_output_tools,
    replace_output_call,
    truncation_error,
)
from holdfast.core.messages import (
    FinishReason,
    Opaque,
    Part,
    Reasoning,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
    user,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

MINE = ToolSpec("weather", "", {"type": "object"})
ONE = OutputSchema("Trip", {}, tools=(ToolSpec("final_answer", "", {}),))
TWO = OutputSchema(
    "answer",
    {},
    tools=(ToolSpec("final_answer_Trip", "", {}), ToolSpec("final_answer_Question", "", {})),
    tags=("Trip", "Question"),
)


def asked(
    output: OutputSchema, *tools: ToolSpec, choice: str | None = None, force: bool = True
) -> ModelRequest:
    request = ModelRequest(
        model="m",
        messages=(user("Hi"),),
        tools=tools,
        output=output,
        settings=ModelSettings(tool_choice=choice),
    )
    return offer_output_tools(request, OutputMethod("tool", force))


@pytest.mark.parametrize(
    ("output", "mine", "choice", "force", "told"),
    [
        (ONE, False, None, True, "final_answer"),
        (TWO, False, None, True, "required"),
        (ONE, False, "auto", True, "final_answer"),
        (ONE, False, None, False, None),
        (ONE, True, None, True, None),
        (ONE, True, "auto", True, "auto"),
        (ONE, True, "weather", True, "weather"),
        (ONE, True, "none", True, "final_answer"),
        (TWO, True, "none", True, "required"),
        (ONE, True, "none", False, None),
    ],
)
def test_the_answer_is_forced_where_nothing_else_can_be_called(
    output: OutputSchema, mine: bool, choice: str | None, force: bool, told: str | None
) -> None:
    made = asked(output, *([MINE] if mine else []), choice=choice, force=force)
    assert made.settings.tool_choice == told
    assert made.output is None
    assert made.tools[-len(output.tools) :] == output.tools
    assert (MINE in made.tools) == (mine and choice != "none")


def reply(*parts: Part, **more: object) -> Reply:
    given: dict[str, object] = {"finish": FinishReason.TOOL_CALLS, "usage": Usage(1, 2), **more}
    return Reply(parts, **given)  # type: ignore[arg-type]


def test_the_call_becomes_text_and_what_belonged_to_it_goes() -> None:
    made = replace_output_call(
        reply(
            Reasoning("Hm.", "sig", "anthropic", {"id": "r"}),
            Reasoning("", "sig", "anthropic"),
            Text("Here it is:"),
            Opaque("openai_responses", {"type": "x"}),
            ToolCall("a", "final_answer", ' {"days": 3}\n'),
        ),
        ONE,
    )
    assert made.parts == (Reasoning("Hm."), Text('{"days": 3}'))
    assert (made.finish, made.kind, made.usage) == (
        FinishReason.STOP,
        ReplyKind.COMPLETE,
        Usage(1, 2),
    )


def test_the_text_says_which_alternative_was_called() -> None:
    made = replace_output_call(reply(ToolCall("a", "final_answer_Question", '{"text": "?"}')), TWO)
    assert made.text == '{"Question":{"text": "?"}}'


def test_an_answer_beside_other_calls_waits_for_their_results() -> None:
    other, answer = ToolCall("a", "weather", "{}"), ToolCall("b", "final_answer", "{}")
    made = replace_output_call(reply(Text("Both."), answer, other), ONE)
    assert made.parts == (Text("Both."), other)
    assert made.finish is FinishReason.TOOL_CALLS


def test_two_answers_are_one_only_when_they_are_the_same() -> None:
    same = reply(ToolCall("a", "final_answer", "{}"), ToolCall("b", "final_answer", "{}"))
    assert replace_output_call(same, ONE).text == "{}"
    two = reply(ToolCall("a", "final_answer", "[1]"), ToolCall("b", "final_answer", "[2]"))
    assert replace_output_call(two, ONE).text == "[1]\n[2]"


def test_broken_arguments_go_to_the_output_parser() -> None:
    made = replace_output_call(
        reply(ToolCall("a", "final_answer", "{'days': 3,}"), kind=ReplyKind.MALFORMED_CALL), ONE
    )
    assert (made.text, made.kind) == ("{'days': 3,}", ReplyKind.COMPLETE)
    assert replace_output_call(reply(ToolCall("a", "final_answer", "")), ONE).text == "{}"


def test_a_cut_answer_is_an_error_and_a_cut_call_is_left_to_the_machine() -> None:
    answer = reply(ToolCall("a", "final_answer", '{"da'), kind=ReplyKind.TRUNCATED)
    made = replace_output_call(answer, ONE)
    assert made.kind is ReplyKind.TRUNCATED
    error = truncation_error(made)
    assert error is not None
    assert error.partial == made
    assert (
        truncation_error(reply(ToolCall("a", "weather", '{"da'), kind=ReplyKind.TRUNCATED)) is None
    )
    assert truncation_error(reply(Text("x"))) is None


def test_a_reply_without_the_call_stays_as_it_is() -> None:
    plain = reply(Text("x"), ToolCall("a", "weather", "{}"))
    assert replace_output_call(plain, ONE) is plain
