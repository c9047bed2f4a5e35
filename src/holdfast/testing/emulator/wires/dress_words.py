"""How endpoints of the Chat Completions wire word their refusals: texts with placeholders, and bodies.

The dresses name these words; each text has a source there, or in `tests/wire/refusal_table.py`. This module must never
decide what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.request_rules import (
    FieldFault,
    FieldPlace,
    format_brackets,
    word_openai,
)


class ErrorForm(Struct, frozen=True, kw_only=True):
    """How an endpoint words its refusals: texts with placeholders, and a body with a placeholder for the text.

    The placeholders of a text are `{field}`, `{value}`, `{index}` (of the message), `{location}` (a Python tuple),
    `{input}` and `{json}` (the value as Python and as JSON). A text that is empty is that of OpenAI.

    Args:
        unknown: for a field that it does not take.
        role: for a role of a message.
        format: for a type of `response_format`.
        part: for a part of a content.
        order: for roles that do not alternate.
        tool_choice: for a `tool_choice`.
        body: the body, with `{text}`, `{status}` and `{kind}`; a text that begins with `json:` is JSON
            inside of a text. None for that of OpenAI.
        status: the status.
        template_status: that for a role and for the order of roles, which chat templates judge; the same if 0.

    >>> from holdfast.testing.emulator.wires.request_rules import ANY
    >>> form = ErrorForm(unknown="no {field}", body={"error": "{text}"})
    >>> form(FieldFault("unknown", ("top_k",), ANY)).body
    {'error': 'no top_k'}
    """

    unknown: str = ""
    role: str = ""
    format: str = ""
    part: str = ""
    order: str = ""
    tool_choice: str = ""
    body: Mapping[str, object] | None = None
    status: int = 400
    template_status: int = 0

    def __call__(self, fault: FieldFault) -> MalformedRequest:
        """Return the refusal of a fault in the words of the endpoint."""
        usual = word_openai(fault)
        subject = _find_subject(fault)
        template: str = getattr(self, subject) if subject else ""
        text = template.format(**_find_values(fault)) if template else str(usual)
        judged_by_template = subject in ("role", "order")
        status = (self.template_status if judged_by_template else 0) or self.status
        if self.body is None:
            return MalformedRequest(text, status=status, param=usual.param, code=usual.code)
        body: Any = _fill_body(self.body, text, status)
        return MalformedRequest(text, status=status, body=body)


def _find_subject(fault: FieldFault) -> str:
    """Return the field of `ErrorForm` for a fault; "" for any other value."""
    if fault.kind in ("unknown", "order"):
        return fault.kind
    match fault.place:
        case ("response_format" | "tool_choice" as field, *_):
            return {"response_format": "format"}.get(field, field)
        case ("messages", _):
            return "role" if fault.kind == "tag" else ""
        case ("messages", _, _, "content", *_):
            return "part" if fault.kind == "tag" else ""
        case _:
            return ""


def _find_values(fault: FieldFault) -> dict[str, object]:
    """Return the values of the placeholders of a text."""
    return {
        "field": fault.place[-1],
        "value": fault.value,
        "index": next((step for step in fault.place if isinstance(step, int)), 0),
        "location": ("body", *_to_plain_steps(fault.place)),
        "input": repr(fault.value),
        "json": msgspec.json.encode(fault.value).decode(),
    }


def _to_plain_steps(place: FieldPlace) -> tuple[str | int, ...]:
    return tuple(step if isinstance(step, int) else str(step) for step in place)


def _fill_body(template: object, text: str, status: int) -> object:
    """Fill the message and the status into a template of a body; a text that begins with JSON holds JSON."""
    match template:
        case "{text}":
            return text
        case "{status}":
            return status
        case "{kind}":
            return "server_error" if status >= 500 else "invalid_request_error"
        case str() if template.startswith("json:"):
            inner = msgspec.json.decode(template.removeprefix("json:"))
            return msgspec.json.encode(_fill_body(inner, text, status)).decode()
        case str():
            return template.replace("{text}", text)
        case Mapping():
            return {name: _fill_body(value, text, status) for name, value in template.items()}
        case list():
            return [_fill_body(value, text, status) for value in template]
        case _:
            return template


def word_mistral(fault: FieldFault) -> MalformedRequest:
    """Return the refusal of Mistral's server; its body was recorded."""
    if fault.kind != "unknown":
        return word_openai(fault)
    text = "Extra inputs are not permitted"
    place = ["body", *fault.place]
    detail = {"type": "extra_forbidden", "loc": place, "msg": text, "input": fault.value}
    body = {
        "object": "error",
        "message": {"detail": [detail]},
        "type": "invalid_request_error",
        "param": None,
        "code": None,
        "raw_status_code": 422,
    }
    return MalformedRequest(f"{format_brackets(fault.place)}: {text}", status=422, body=body)


def word_groq(fault: FieldFault) -> MalformedRequest:
    """Return the refusal of Groq's server: "property 'stream_options' is unsupported"."""
    if fault.kind != "unknown":
        return word_openai(fault)
    text = f"property '{fault.place[-1]}' is unsupported"
    if fault.place[0] == "messages":
        place = ".".join(map(str, fault.place[:2]))
        text = f"'{place}' : for 'role:assistant' the following must be satisfied[('{place}' : {text})]"
    body = {"error": {"message": text, "type": "invalid_request_error"}}
    return MalformedRequest(text, body=body)


def word_cerebras(fault: FieldFault) -> MalformedRequest:
    """Return the refusal of Cerebras's server: "body.store: property 'body.store' is unsupported"."""
    if fault.kind != "unknown":
        return word_openai(fault)
    path = ".".join(map(str, ("body", *fault.place)))
    text = f"{path}: property '{path}' is unsupported"
    body = {
        "message": text,
        "type": "invalid_request_error",
        "param": "validation_error",
        "code": "wrong_api_format",
    }
    return MalformedRequest(text, status=422, body=body)


def word_reasoning(fault: FieldFault) -> MalformedRequest:
    """Return OpenAI's refusal of a field that a reasoning model does not take: recorded, and fast-agent#279."""
    if fault.kind != "unknown":
        return word_openai(fault)
    field = str(fault.place[-1])
    text = f"Unsupported parameter: '{field}' is not supported with this model."
    if field == "max_tokens":
        text += " Use 'max_completion_tokens' instead."
    return MalformedRequest(text, param=field, code="unsupported_parameter")


class SchemaForm(Struct, frozen=True, kw_only=True):
    """How an endpoint words its refusal of a schema.

    The placeholders of a text are `{problem}`; `{place}`, the part as a JSON pointer, and `{at}`, the same with a colon
    after it unless it is the whole; `{name}`, of the tool or the output; and `{field}`, the path in the request.

    Args:
        output: for the schema of an output.
        tool: for that of a tool; the same if "".
        body: the body, as in `ErrorForm`.
        tool_body: that for a tool; the same if None.
        statuses: the status for each rule of a dialect that has another one than 400.

    >>> form = SchemaForm(output="{at}{problem}", body={"error": "{text}"})
    >>> form.refuse(SchemaProblem("unknown key", "keywords", "/a", "trip", "response_format")).body
    {'error': '/a: unknown key'}
    """

    output: str = "Invalid schema: {field}: {at}{problem}"
    tool: str = ""
    body: Mapping[str, object] | None = None
    tool_body: Mapping[str, object] | None = None
    statuses: Mapping[str, int] = {}

    def refuse(self, problem: SchemaProblem) -> MalformedRequest:
        """Return the refusal of a schema in the words of the endpoint."""
        is_tool = problem.field != "response_format"
        template = (is_tool and self.tool) or self.output
        text = template.format(
            problem=problem.problem,
            place=problem.place,
            at=f"{problem.place}: " if problem.place else "",
            name=problem.name,
            field=problem.field,
        )
        status = self.statuses.get(problem.rule, 400)
        form = self.tool_body if is_tool and self.tool_body is not None else self.body
        if form is None:
            return MalformedRequest(text, status=status)
        body: Any = _fill_body(form, text, status)
        return MalformedRequest(text, status=status, body=body)


class SchemaProblem(Struct, frozen=True):
    """What is wrong with a schema of a request.

    Args:
        problem: the fault, in words.
        rule: the broken rule of the dialect.
        place: the part of the schema, as a JSON pointer.
        name: the name of the tool or of the output.
        field: the path of the schema in the request.
    """

    problem: str
    rule: str
    place: str
    name: str
    field: str
