"""Elicitation: a server asks a person for input while its tool runs, as a durable question of the call.

The result of the server that asks is plain data: its state is saved with the question, and the same call is made again
with the answer, in any process. This module must never open an address, never ask for a nested form, and never answer
for a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolFailedError
from holdfast.core.questions import ElicitationQuestion, Elicited
from holdfast.core.redaction import redact
from holdfast.tools.context import ToolContext
from holdfast.tools.tool_failures import ToolError

_MOST_ROUNDS: Final = 10
_MOST_FORMS: Final = 10
_MOST_FIELDS: Final = 50
_LONGEST_MESSAGE: Final = 4_000
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
}


class Continuation(Struct, frozen=True):
    """The answers with which a call is made again, by the names of the server, and the server's state."""

    responses: Mapping[str, Mapping[str, object]]
    state: str | None


Send: TypeAlias = Callable[[Continuation | None], Awaitable[Any]]
"""Makes the call; with the answers to the result that asked, if there is one."""


async def call_with_questions(
    context: ToolContext[Any], server: str, send: Send, *, is_once: bool
) -> Any:
    """Return the result of a call, after a person has given the input that the server asks for.

    Args:
        context: the context of the call, with the questions that it asked before.
        server: the name of the server.
        send: makes the call.
        is_once: whether the call must not be made twice.

    Raises:
        Suspended: the run does not wait for the answer.
        ToolError: the server asks for something else, or too often.
        ToolFailedError: the server does not accept the state of an earlier process any more, so the call is in doubt.
    """
    saved = context.asked_before(ElicitationQuestion)
    questions = [one for one in saved if one.state == saved[-1].state]
    is_saved = bool(saved)
    for _ in range(_MOST_ROUNDS):
        continuation = await _ask_all(context, questions) if questions else None
        try:
            result = await send(continuation)
        except ToolError as error:
            if not is_saved:
                raise
            if is_once:
                # Whoever asked may have made the call with the answer before it ended.
                raise _make_doubt(server, context.tool, error) from error
            questions, is_saved = [], False
            continue
        if getattr(result, "content", None) is not None:
            return result
        questions, is_saved = _read_questions(server, context.tool, result), False
    raise ToolError(f"The server {server} asked for input {_MOST_ROUNDS} times, and was left.")


async def _ask_all(context: ToolContext[Any], questions: list[ElicitationQuestion]) -> Continuation:
    responses = {}
    for question in questions:
        responses[question.name] = make_response(question, await context.ask(question))
    return Continuation(responses, questions[0].state)


def make_response(question: ElicitationQuestion, answer: Elicited) -> Mapping[str, object]:
    """Return an answer as the server reads it.

    Raises:
        ToolError: the answer does not fit the form.
    """
    if answer.action != "accept":
        return {"action": answer.action}
    if question.url:
        return {"action": "accept"}
    fields = _read_fields(question.form)
    required = question.form.get("required")
    missing = (
        [one for one in required if one not in answer.content] if isinstance(required, list) else []
    )
    wrong = [
        name
        for name, value in answer.content.items()
        if name not in fields or not _fits(fields[name], value)
    ]
    if missing or wrong:
        names = ", ".join(str(one) for one in [*missing, *wrong])
        raise ToolError(f"The answer of a person does not fit the form of the server: {names}.")
    return {"action": "accept", "content": dict(answer.content)}


def _fits(field: Mapping[str, object], value: object) -> bool:
    kind = _TYPES.get(str(field.get("type", "string")), str)
    if isinstance(value, bool) and kind is not bool:
        return False
    choices = field.get("enum")
    return isinstance(value, kind) and (not isinstance(choices, list) or value in choices)


def _read_questions(server: str, tool: str, result: Any) -> list[ElicitationQuestion]:
    """Return the questions of a result that asks. Raises ToolError if it asks for something else."""
    requests = dict(result.input_requests or {})
    if not requests or len(requests) > _MOST_FORMS:
        raise ToolError(f"The server {server} asks for input in a form that is not supported.")
    questions = []
    for name, request in requests.items():
        params = request.params
        mode = getattr(params, "mode", None)
        if getattr(request, "method", "") != "elicitation/create" or mode not in ("form", "url"):
            raise ToolError(f"The server {server} asks for something that is not supported.")
        form = {} if mode == "url" else _check_form(server, params.requested_schema)
        questions.append(
            ElicitationQuestion(
                server=server,
                tool=tool,
                message=redact(params.message)[:_LONGEST_MESSAGE],
                form=form,
                url=params.url if mode == "url" else "",
                name=name,
                state=result.request_state,
            )
        )
    return questions


def _check_form(server: str, schema: Any) -> dict[str, object]:
    """Return a flat form. Raises ToolError if it is nested."""
    form = (
        schema if isinstance(schema, dict) else schema.model_dump(by_alias=True, exclude_none=True)
    )
    fields = _read_fields(form)
    given = form.get("properties")
    nested = not isinstance(given, dict) or len(fields) != len(given) or len(fields) > _MOST_FIELDS
    if nested or any(one.get("type", "string") not in _TYPES for one in fields.values()):
        raise ToolError(f"The server {server} asks for a form that is not flat, which is refused.")
    return form


def _read_fields(form: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    given = form.get("properties")
    if not isinstance(given, Mapping):
        return {}
    return {str(name): one for name, one in given.items() if isinstance(one, Mapping)}


def _make_doubt(server: str, tool: str, error: ToolError) -> ToolFailedError:
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR,
        landed=Landed.UNKNOWN,
        safe=f"The MCP server {server} does not know the question of '{tool}' any more.",
        private=str(error),
        code="mcp",
    )
    return ToolFailedError(tool, f"MCP server {server}: {error}", info=info)
