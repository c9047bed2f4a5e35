"""What the requests of OpenAI's protocols become: the type of the output, decisions, and joined messages."""

from __future__ import annotations

import pytest

from holdfast.core.events import QuestionAsked
from holdfast.core.messages import Message, assistant, user
from holdfast.core.questions import Answer, Approved, Continued, Denied, PermissionQuestion
from holdfast.server.problem_responses import ProblemError
from holdfast.server.protocols.chat.chat_bodies import ResponseFormat, SchemaFormat
from holdfast.server.protocols.chat.chat_input import make_output
from holdfast.server.protocols.responses.response_bodies import ApprovalItem
from holdfast.server.protocols.responses.response_input import _join
from holdfast.server.protocols.responses.response_targets import _to_decision

SCHEMA: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}


def test_a_chat_without_a_form_has_an_output_of_text() -> None:
    assert make_output(None) is None
    assert make_output(ResponseFormat("text")) is None


def test_the_form_of_a_chat_is_any_object_or_one_of_a_schema() -> None:
    anything = make_output(ResponseFormat("json_object"))
    wanted = make_output(ResponseFormat("json_schema", SchemaFormat("trip", schema=SCHEMA)))
    assert anything is not None
    assert wanted is not None
    assert anything.schema == {"type": "object"}
    assert wanted.schema == SCHEMA


@pytest.mark.parametrize("form", [None, SchemaFormat("trip")], ids=["no form", "no schema"])
def test_the_form_of_a_schema_needs_the_schema(form: SchemaFormat | None) -> None:
    with pytest.raises(ProblemError, match="is missing"):
        make_output(ResponseFormat("json_schema", form))


@pytest.mark.parametrize(
    ("kind", "item", "decision"),
    [
        (PermissionQuestion, ApprovalItem("a", approve=True), Approved()),
        (PermissionQuestion, ApprovalItem("a", approve=False), Denied()),
        (PermissionQuestion, ApprovalItem("a", approve=False, reason="No."), Denied(reason="No.")),
        (Answer, ApprovalItem("a", approve=True), Continued()),
    ],
    ids=["yes", "no", "no with a reason", "yes to a continuation"],
)
def test_an_approval_answers_the_question_that_was_asked(
    kind: type, item: ApprovalItem, decision: object
) -> None:
    asked = QuestionAsked("t1.i0.tool.0.ask.0.asked", 0.0, kind.__name__, {})
    assert _to_decision(asked, item) == decision


def test_messages_of_one_role_that_follow_each_other_are_joined() -> None:
    messages: list[Message] = []
    for message in (user("Hi"), user("there"), assistant("Hello."), user("Go on.")):
        _join(messages, message)
    assert [(one.role, [part.text for part in one.parts]) for one in messages] == [  # type: ignore[union-attr]  # REASON: texts
        ("user", ["Hi", "there"]),
        ("assistant", ["Hello."]),
        ("user", ["Go on."]),
    ]
