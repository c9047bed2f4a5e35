"""Checks an answer before it is accepted: whether it belongs to the question, and whether it fits.

This module must never accept an answer to another question, however similar the two are.
"""

from __future__ import annotations

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import (
    AnyAnswer,
    AnyQuestion,
    Approved,
    PermissionQuestion,
    plain_form,
    validate_answer,
)
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.open_question import Receipt
from holdfast.tools.argument_wording import RefusedCall
from holdfast.tools.tool import Tool


def check_answer(plan: AgentPlan, question: AnyQuestion, answer: AnyAnswer) -> AnyAnswer | Receipt:
    """Return the answer as it is saved, or a receipt with the reason why it is not accepted.

    Args:
        plan: the agent that asks.
        question: the question, with its key and its binding.
        answer: the answer.

    Raises:
        AnswerTypeError: the question asks for another type; it stays open.
        ConfigurationError: the edited arguments do not fit the tool; the question stays open.
    """
    if (answer.key, answer.binding) != (question.key, question.binding):
        return Receipt("mismatch")
    if answer.expires_at is not None and plan.clock.now() >= answer.expires_at:
        return Receipt("late")
    value = validate_answer(question, answer.value)
    if isinstance(question, PermissionQuestion) and isinstance(value, Approved):
        value = _with_validated_arguments(plan.registry.get(question.tool), value)
    return msgspec.structs.replace(answer, value=value)


def _with_validated_arguments(tool: Tool | None, value: Approved) -> Approved:
    """Return the approval with its arguments as the tool would receive them.

    The run validates what it reads, so the approval must contain what was validated: a default that
    is made anew each time would otherwise differ from what was approved.
    """
    if value.arguments is None or tool is None:
        return value
    text = msgspec.json.encode(plain_form(value.arguments)).decode()
    try:
        checked = tool.signature.check(text, edited=True)
    except Exception as error:  # REASON: validators are the user's code
        raise _arguments_error(tool, f"{type(error).__name__} in a validator") from error
    if isinstance(checked, RefusedCall):
        raise _arguments_error(tool, checked.text)
    return msgspec.structs.replace(value, arguments=msgspec.json.decode(checked.text))


def _arguments_error(tool: Tool, why: str) -> ConfigurationError:
    problem = why.removesuffix("\nCorrect them and call it again.")  # that is for a model
    return ConfigurationError(
        "arguments",
        f"do not fit the tool {tool.name!r}: {problem}",
        fix="Correct them and answer again; the question is still open",
    )
