"""How a call takes a question and the schema of its answer, as its signature says.

A method of an SDK has keywords for a conversation and for a schema: the wire's codec writes their values. Any
other function takes a text, and then the schema and the problems of a wrong answer stand in that text. Nothing is
sent here, and no argument of the user is changed except by adding to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import EndpointProfile, find_endpoint_dialects
from holdfast.codecs.output_mode import (
    OutputMethod,
    choose_output_method,
    format_schema_instruction,
    offer_output_tools,
)
from holdfast.codecs.quoted_texts import SentTexts, list_output_parts
from holdfast.codecs.schemas.request_schemas import find_native_problem
from holdfast.codecs.schemas.rewriting import Rewritings
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest, OutputSchema, ToolSpec
from holdfast.models.presets import PRESETS
from holdfast.models.resolve import load_codec
from holdfast.resilience.cache.decision import account_scope

_Object: TypeAlias = dict[str, object]

_MOST_SENT_BACK = 50_000
"""The characters of a wrong answer that are sent back; a longer one costs more than it helps."""
_TOOL_OF_USER: Final = ToolSpec("tool", "", {"type": "object"})
"""Stands for the tools of the user, which only matter for the choice of the mode."""


_OF_WIRES: Final = frozenset(
    {
        "function", "function_declarations", "functions", "json_schema", "response_format", "role", "schema", "tool",
        "tool_choice", "tools", "type",
    }
)  # fmt: skip
"""Names that the arguments of an SDK's method have without the user's doing."""


class CallForm(Struct, frozen=True):
    """The keywords of an SDK's method.

    Args:
        wire: the name of the wire.
        conversation: the keyword of the messages.
        schema: the keyword that takes the schema of an answer.
        keeps_history: the object keeps the messages itself.
    """

    wire: str
    conversation: str
    schema: str
    keeps_history: bool = False


_FORMS: Final = (
    CallForm("openai_chat", "messages", "response_format"),
    CallForm("openai_responses", "input", "text"),
    CallForm("anthropic", "messages", "output_config"),
    CallForm("gemini", "contents", "config"),
    CallForm("gemini", "message", "config", keeps_history=True),
)
_DISTINCT: Final = ("response_format", "output_config")
"""Keywords that say the wire by themselves; `text` and `config` may mean anything in a function of the user."""


class Correction(Struct, frozen=True):
    """A wrong answer, and the request for a better one."""

    answer: str
    request: str


class _Place(Struct, frozen=True):
    """Where the question stands: at a position or a keyword; moved if the user gave the only argument by position."""

    at: int | str
    value: object
    is_moved: bool = False


class AskedCall:
    """A call of the user with its arguments, which can ask for an answer of a type.

    Args:
        call: the call.
        args: its arguments.
        profile: how the endpoint differs from the vendor's; by default, what its address says.

    Attributes:
        account: what the refusals of a mode are remembered for; "" if they must not be.
        model: the model that the arguments name; "" if they name none.

    Raises:
        ConfigurationError: the call has no argument for a question.
    """

    def __init__(
        self,
        call: Callable[..., object],
        args: tuple[object, ...],
        profile: EndpointProfile | None = None,
    ) -> None:
        self._call = call
        self._args = args
        self._given = _bound_keywords(call)
        self._names = _keyword_names(call)
        self._form = _find_form(self._names)
        self._is_whole = self._form is not None and self._form.conversation in self._names
        self._place = self._find_place()
        client = getattr(_find_owner(call), "_client", None)
        address = str(getattr(client, "base_url", "") or "").rstrip("/")
        self.account = _find_account(client, address)
        wire = "" if self._form is None else self._form.wire
        self._profile = profile or _find_profile(wire, address)
        self.model = str(self._given.get("model") or "")
        self._parts: dict[str, tuple[_Object, Rewritings | None]] = {}

    @property
    def has_tools(self) -> bool:
        """Whether the user offers tools, as far as the arguments show."""
        config = self._given.get("config")
        given = self._given.get("tools") or _read_field(config, "tools")
        return isinstance(given, Sequence) and bool(given)

    @property
    def takes_tools(self) -> bool:
        """Whether the call has an argument for tools, so that this module knows those of the user."""
        return self._is_whole and ("tools" in self._names or "config" in self._names)

    def choose_method(self, output: OutputSchema) -> OutputMethod:
        """Return how the answer is asked for.

        Raises:
            ConfigurationError: the call cannot ask in the mode that the user chose.
        """
        form = self._form
        if output.mode == "native" and form is None:
            raise _no_argument("native", "for a schema")
        if output.mode == "tool" and not self.takes_tools:
            raise _no_argument("tool", "for tools")
        if form is None:
            return OutputMethod("prompt")
        offered = (_TOOL_OF_USER,) if self.has_tools else ()
        request = ModelRequest(model=self.model, messages=(), tools=offered, output=output)
        method = choose_output_method(form.wire, self._profile, request)
        if method.mode == "tool" and not self.takes_tools:
            dialects = find_endpoint_dialects(form.wire, self._profile)
            is_taken = not find_native_problem(request, dialects)
            return replace(method, mode="native" if is_taken else "prompt")
        return method

    def find_rewritings(self, output: OutputSchema, method: OutputMethod) -> Rewritings | None:
        """Return the changes that the answer needs, because the schema is sent in another form."""
        return None if method.mode == "prompt" else self._encode(output, method)[1]

    def find_texts(self, output: OutputSchema, corrections: Sequence[Correction]) -> SentTexts:
        """Return what the user wrote into the call, which an error may quote.

        Args:
            output: the schema.
            corrections: the wrong answers so far.
        """
        form = self._form
        # The history of a chat is in its object.
        owner = _find_owner(self._call) if form is not None and form.keeps_history else None
        kept = getattr(owner, "__dict__", {})
        given = (self._args, self._given, kept, *list_output_parts(output), corrections)
        return SentTexts(*given, of_wire=_OF_WIRES)

    def bind_question(
        self, output: OutputSchema, method: OutputMethod, corrections: Sequence[Correction]
    ) -> Callable[[], object]:
        """Return the call with everything that asks for this answer.

        Args:
            output: the schema.
            method: how it is asked for.
            corrections: the wrong answers so far.

        Raises:
            ConfigurationError: an argument of the user says what the schema would say.
        """
        words = format_schema_instruction(output.schema) if method.mode == "prompt" else ""
        value = self._add_words(self._place.value, words, corrections)
        args, keywords = list(self._args), dict[str, object]()
        if isinstance(self._place.at, int):
            args[self._place.at] = value
        else:
            args = [] if self._place.is_moved else args
            keywords[self._place.at] = value
        if method.mode != "prompt":
            keywords |= self._merge(self._encode(output, method)[0])
        return partial(self._call, *args, **keywords)

    def _find_place(self) -> _Place:
        form, args = self._form, self._args
        if form is not None and self._is_whole:
            name, given = form.conversation, self._given.get(form.conversation)
            at = _position_of(self._call, name)
            if at is not None and at < len(args):
                return _Place(at, args[at])
            if len(args) == 1:
                return _Place(name, args[0], is_moved=True)
            if not args and given is not None:
                return _Place(name, given)
        for index, value in enumerate(args):
            if isinstance(value, str) or _is_conversation(value):
                return _Place(index, value)
        raise ConfigurationError(
            "call",
            "has no question to which the schema and the problems of a wrong answer could be added",
            fix='Pass it as an argument: send_message(call, "Where is Porto?", output=...)',
        )

    def _add_words(self, value: object, words: str, corrections: Sequence[Correction]) -> object:
        form = self._form if self._is_whole else None
        if form is not None and form.keeps_history and corrections:
            return corrections[-1].request  # the object has the rest
        if isinstance(value, str) and (form is None or form.keeps_history):
            return "\n\n".join([value, *([words] if words else ()), *_word_last(corrections)])
        if form is not None and form.keeps_history:
            return [*(value if isinstance(value, list) else [value]), words] if words else value
        write = _write_content if form is not None and form.wire == "gemini" else _write_message
        messages = self._earlier(value)
        if isinstance(value, str):
            messages.append(write("user", f"{value}\n\n{words}" if words else value))
        elif words:
            messages.append(write("user", words))
        if self._given.get("conversation") is not None and corrections:
            return [write("user", corrections[-1].request)]  # the server has the rest
        for correction in corrections:
            if correction.answer:
                messages.append(write("assistant", correction.answer[:_MOST_SENT_BACK]))
            messages.append(write("user", correction.request))
        return messages

    def _earlier(self, value: object) -> list[object]:
        """Return the messages before the question: those of a list, or those that the call has already."""
        before = value
        if isinstance(value, str):
            before = None if self._form is None else self._given.get(self._form.conversation)
        if isinstance(before, list | tuple):
            return list(before)
        if not _is_given(before) or (before is value and isinstance(value, str)):
            return []
        return [_write_message("user", before) if isinstance(before, str) else before]

    def _encode(
        self, output: OutputSchema, method: OutputMethod
    ) -> tuple[_Object, Rewritings | None]:
        """Return the fields of a request that ask for the answer, as the wire's codec writes them."""
        if method.mode in self._parts:
            return self._parts[method.mode]
        if self._form is None:
            raise TypeError("a call that takes a text has no fields")
        asked = replace(output, mode="native", schema=output.envelope or output.schema)
        request = ModelRequest(
            model=self.model or "model", messages=(user("-"),), output=asked, stream=False
        )
        if method.mode == "tool":
            # Among tools of the user, the model chooses.
            forced = replace(method, can_force=method.can_force and not self.has_tools)
            request = offer_output_tools(replace(request, output=output), forced)
        encoded = load_codec(self._form.wire, self._profile).encode(request)
        body = msgspec.json.decode(encoded.body, type=dict[str, object])
        made = _pick_fields(body, self._form.schema, is_tool=method.mode == "tool")
        self._parts[method.mode] = made, encoded.rewritings
        return self._parts[method.mode]

    def _merge(self, fields: _Object) -> _Object:
        """Return the fields with what the user gave to the same keywords."""
        made: _Object = {}
        for name, value in fields.items():
            given = self._given.get(name)
            if not _is_given(given):
                made[name] = value
            elif name == "tools" and isinstance(given, Sequence) and isinstance(value, list):
                made[name] = [*given, *value]
            elif name in ("text", "output_config", "config") and isinstance(value, dict):
                made[name] = _merge_object(name, given, value)
            else:
                raise _has_its_own(name)
        return made


def _word_last(corrections: Sequence[Correction]) -> tuple[str, ...]:
    """Return the last wrong answer and its problems, for a text that stands alone."""
    if not corrections:
        return ()
    answer, request = corrections[-1].answer[:_MOST_SENT_BACK], corrections[-1].request
    return (f"Your answer was:\n{answer}", request) if answer else (request,)


def _bound_keywords(call: object) -> _Object:
    """Return the keywords that partial functions give to a call, also to one inside of a wrapper."""
    found: _Object = {}
    while True:
        if isinstance(call, partial):
            found = {**call.keywords, **found}
            call = call.func
        elif (inner := getattr(call, "__wrapped__", None)) is not None:
            call = inner
        else:
            return found


def _keyword_names(call: Callable[..., object]) -> dict[str, int | None]:
    """Return the names that a call takes, each with its position if it has one."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return {}
    names: dict[str, int | None] = {}
    for index, parameter in enumerate(parameters):
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            names[parameter.name] = index
        elif parameter.kind is parameter.KEYWORD_ONLY:
            names[parameter.name] = None
    return names


def _position_of(call: Callable[..., object], name: str) -> int | None:
    return _keyword_names(call).get(name)


def _find_form(names: Mapping[str, int | None]) -> CallForm | None:
    for form in _FORMS:
        if form.conversation in names and form.schema in names:
            return form
    return next(
        (form for form in _FORMS if form.schema in names and form.schema in _DISTINCT), None
    )


def _find_owner(call: object) -> object:
    """Return the object of a method; None if it shows none."""
    while not hasattr(call, "__self__"):
        inner = call.func if isinstance(call, partial) else getattr(call, "__wrapped__", None)
        if inner is None:
            return None
        call = inner
    return call.__self__


def _find_account(client: object, address: str) -> str:
    """Return a hash of the address and the headers of a client, which include the key; "" without an address."""
    headers = getattr(client, "default_headers", None) if address else None
    given = headers.values() if isinstance(headers, Mapping) else ()
    # The SDKs have objects for headers that are not sent.
    values = [value for value in given if isinstance(value, str)]
    return account_scope(address, *values) if address else ""


def _find_profile(wire: str, address: str) -> EndpointProfile:
    known = (preset for preset in PRESETS.values() if preset.wire == wire)
    found = next((preset for preset in known if address and preset.base_url == address), None)
    return EndpointProfile() if found is None else found.profile


def _is_conversation(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list of messages."""
    return isinstance(value, list | tuple) and all(
        isinstance(item, str) or _read_field(item, "role") is not None for item in value
    )


def _read_field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _write_message(role: str, text: str) -> _Object:
    return {"role": role, "content": text}


def _write_content(role: str, text: str) -> _Object:
    return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}


def _pick_fields(body: _Object, schema: str, *, is_tool: bool) -> _Object:
    """Return the fields of a body for an answer, by the keywords of the SDK."""
    if schema != "config":
        names = ("tools", "tool_choice") if is_tool else (schema,)
        return {name: body[name] for name in names if name in body}
    if is_tool:
        config = {"tools": body["tools"], "tool_config": body.get("toolConfig")}
        return {"config": {name: value for name, value in config.items() if value is not None}}
    written = cast("_Object", body["generationConfig"])
    return {
        "config": {
            "response_mime_type": written["responseMimeType"],
            "response_json_schema": written["responseJsonSchema"],
        }
    }


def _merge_object(name: str, given: object, value: _Object) -> object:
    """Return an argument of the user with the fields that ask for the answer."""
    for field in value:
        if field != "tools" and _is_given(_read_field(given, field)):
            raise _has_its_own(f"{name}.{field}")
    if isinstance(tools := value.get("tools"), list):
        of_user = _read_field(given, "tools")
        value = {**value, "tools": [*(of_user if isinstance(of_user, Sequence) else ()), *tools]}
    if isinstance(given, Mapping):
        return {**given, **value}
    fields = getattr(given, "model_fields_set", None)
    if fields is None:
        raise ConfigurationError("call", f"has the argument {name}, which is not an object")
    # The class of the SDK reads the new fields, since a copy of its object would take them as they are.
    return {**{field: getattr(given, field) for field in fields}, **value}


def _is_given(value: object) -> bool:
    """Whether an argument has a value; the SDKs have objects for "not given"."""
    return value is not None and type(value).__name__ not in ("NotGiven", "Omit")


def _has_its_own(name: str) -> ConfigurationError:
    return ConfigurationError("call", f"has {name} already", fix="Leave it to output=")


def _no_argument(mode: str, purpose: str) -> ConfigurationError:
    problem = f'is "{mode}", and the call has no argument {purpose}'
    return ConfigurationError("output.mode", problem, fix='Use "auto", or pass a method of an SDK')
