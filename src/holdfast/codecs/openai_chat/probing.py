"""Asks an endpoint of Chat Completions, with few small requests, how its form of the wire differs.

The steps are a generator: it yields a question, takes the answer, and returns what it found. A field or a role
counts as refused only if the same request without it was answered, or if the server named it and then went on to
another complaint. All else that could not be asked is unknown, and changes nothing. This module must never guess
by the name of a model or of a server, and sends nothing itself.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Generator, Iterator, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_chat.probe_answers import (
    PROBE_LIMIT,
    AnswerReading,
    EndpointAnswer,
    describe_reply,
    is_over_limit,
    read_answer,
    was_cut,
)
from holdfast.codecs.openai_chat.vocabulary import WIRE
from holdfast.codecs.refused_forms import FormChange, SentForm, find_next_form
from holdfast.codecs.wire import EncodedRequest, Failure
from holdfast.core.messages import Media, Message, Text, user
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

MOST_QUESTIONS: Final = 8
_ENOUGH: Final = 128
"""Tokens: enough for any other answer, and few for a small machine."""

Trait: TypeAlias = Literal[
    "system_role",
    "max_tokens_field",
    "stream_usage",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "images",
    "alternating_roles",
]
TRAITS: Final[tuple[Trait, ...]] = (
    "system_role",
    "max_tokens_field",
    "stream_usage",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "images",
    "alternating_roles",
)


class EndpointQuestion(Struct, frozen=True):
    """One small request to an endpoint.

    Args:
        about: what it asks, in words.
        encoded: the request as it is sent.
    """

    about: str
    encoded: EncodedRequest


class ProbeCall(Struct, frozen=True):
    """One call of a probe: what it asked, and what the answer showed."""

    about: str
    showed: str


class TraitFinding(Struct, frozen=True):
    """What a probe found about one trait of an endpoint.

    Args:
        trait: a field of the profile, or a field of the request.
        answer: whether the endpoint takes it; "unknown" if that could not be asked.
        words: how that was seen.
    """

    trait: Trait
    answer: Literal["yes", "no", "unknown"]
    words: str


class ProbeResult(Struct, frozen=True, kw_only=True):
    """What a probe found.

    Args:
        model: the model that was asked.
        base_url: the address.
        profile: the profile of the endpoint.
        changes: its fields that differ from the profile that such an address begins with.
        findings: one for each trait.
        calls: the calls, in order.
        notes: what was seen beside that.
    """

    model: str
    base_url: str = ""
    profile: EndpointProfile
    changes: Mapping[str, object]
    findings: tuple[TraitFinding, ...]
    calls: tuple[ProbeCall, ...]
    notes: tuple[str, ...] = ()

    def find(self, trait: Trait) -> TraitFinding:
        """Return the finding about a trait."""
        return next(one for one in self.findings if one.trait == trait)


class _Form(Struct, frozen=True):
    """A request in one form, and the changes that led to it."""

    request: ModelRequest
    profile: EndpointProfile
    tried: tuple[FormChange, ...] = ()


class _Settled(Struct, frozen=True):
    """The end of the search for a form that is taken.

    Args:
        form: the last form.
        reading: its answer; None if it could not be asked.
        refused: the traits that are proved to be refused, with the words of the server.
        subjects: the names and roles that are proved to be refused.
        open: those that were left out without a proof.
    """

    form: _Form
    reading: AnswerReading | None
    refused: Mapping[Trait, str]
    subjects: frozenset[str]
    open: tuple[Trait, ...]

    @property
    def is_taken(self) -> bool:
        """Whether the last form was answered."""
        return self.reading is not None and self.reading.verdict == "taken"


_T = TypeVar("_T")
_Steps: TypeAlias = Generator[EndpointQuestion, EndpointAnswer, _T]
_OF_CHANGES: Final[Mapping[str, Trait]] = {
    "system_role": "system_role",
    "max_tokens_field": "max_tokens_field",
    "stream_usage": "stream_usage",
    "parallel_calls": "parallel_tool_calls",
}
_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Lisbon", "Porto"]}},
    "required": ["city"],
    "additionalProperties": False,
}
_TOOL: Final = ToolSpec("look_up_weather", "Looks up the weather of a city.", _SCHEMA)
_OUTPUT: Final = OutputSchema("place", _SCHEMA, strict=False, mode="native")
_PICTURE: Final = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAZUlEQVR4nO3PQQ0AIBDAMMC/58MCP7KkVbDtnVk/"
    "OzrgVQNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNa"
    "A1oDWgNaA1oDmlsBfzFgHlEAAAAASUVORK5CYII="
)


def probe_steps(model: str, base: EndpointProfile, used: int = 0) -> _Steps[ProbeResult]:
    """Yield questions to an endpoint, take the answers, and return what was found.

    Args:
        model: the model that is asked.
        base: the profile that an endpoint at this address begins with.
        used: how many of the questions are spent.
    """
    probe = _Probe(model, base, MOST_QUESTIONS - used)
    yield from probe.ask_role_and_limit()
    yield from probe.ask_stream()
    yield from probe.ask_tools()
    yield from probe.ask_output()
    yield from probe.ask_order()
    yield from probe.ask_image()
    return probe.make_result()


class _Probe:
    """What was asked and found so far."""

    def __init__(self, model: str, base: EndpointProfile, most: int) -> None:
        self._model = model
        self._base = base
        self._most = most
        self._profile = base
        self._found: dict[Trait, TraitFinding] = {}
        self._calls: list[ProbeCall] = []
        self._notes: list[str] = []
        self._answered = False
        self._stopped = ""

    def make_result(self) -> ProbeResult:
        """Return what was found; a trait that was not asked is unknown."""
        why = self._stopped or f"no question left of {MOST_QUESTIONS}"
        for trait in TRAITS:
            if trait not in self._found:
                self._found[trait] = TraitFinding(trait, "unknown", f"not asked: {why}")
        return ProbeResult(
            model=self._model,
            profile=self._profile,
            changes=self._profile.list_changes(self._base),
            findings=tuple(self._found[trait] for trait in TRAITS),
            calls=tuple(self._calls),
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def ask_role_and_limit(self) -> _Steps[None]:
        """Ask for the role of instructions and the name of the output limit."""
        settings = ModelSettings(max_tokens=PROBE_LIMIT)
        words = "Write the numbers from 1 to 200, separated by spaces."
        request = ModelRequest(
            model=self._model,
            messages=[user(words)],
            instructions="EndpointAnswer in plain text.",
            settings=settings,
            stream=False,
        )
        settled = yield from self._settle("instructions and a limit", _Form(request, self._profile))
        reading = settled.reading
        if reading is None or not settled.is_taken:
            # Without one answer, no later refusal would prove anything.
            self._stopped = self._stopped or (reading.words if reading else "")
            return
        profile = settled.form.profile
        # Another form was taken, although it is not known which part of the first one was refused.
        if "system_role" not in settled.open:
            self._profile = replace(self._profile, system_role=profile.system_role)
            role = profile.system_role
            self._note("system_role", "yes", f"instructions are sent with the role {role!r}")
        else:
            self._note("system_role", "unknown", "it was left out, and not named by the server")
        yield from self._check_limit(settled)

    def _check_limit(self, settled: _Settled) -> _Steps[None]:
        """Find out whether the limit that was taken has an effect."""
        form, reading = settled.form, settled.reading
        if reading is None:
            return
        field = form.profile.max_tokens_field
        if form.request.settings.max_tokens is None:
            both = {"max_tokens", "max_completion_tokens"} <= settled.subjects
            words = "neither name of the limit is taken" if both else "the limit was left out"
            self._note("max_tokens_field", "no" if both else "unknown", words)
            return
        if "max_tokens_field" in settled.open:
            self._note("max_tokens_field", "unknown", "the server did not name what it refused")
            return
        if not is_over_limit(reading):
            self._profile = replace(self._profile, max_tokens_field=field)
            self._note("max_tokens_field", "yes", _describe_limit(field, reading))
            return
        other = _other_limit(field)
        changed = replace(form.profile, max_tokens_field=other)
        second = yield from self._ask("the other name of the limit", replace(form, profile=changed))
        if second is not None and second.verdict == "taken" and not is_over_limit(second):
            self._profile = replace(self._profile, max_tokens_field=other)
            words = f"{field} has no effect; {_describe_limit(other, second)}"
            self._note("max_tokens_field", "yes", words)
            return
        self._note("max_tokens_field", "unknown", f"{field} is taken and had no effect")

    def ask_stream(self) -> _Steps[None]:
        """Ask for a stream, and for its tokens."""
        form = self._make_form("Say hello.", replace(self._profile, stream_usage=True), stream=True)
        settled = yield from self._settle("a stream with its tokens", form)
        self._note_refusals(settled, ("stream_usage",))
        reading = settled.reading
        if reading is None or reading.verdict == "unknown":
            return
        if reading.verdict == "refused":
            if self._answered:
                self._notes.append(f"replies are not streamed: {reading.words}")
                self._found.pop("stream_usage", None)
                self._note("stream_usage", "unknown", "replies are not streamed")
            return
        takes_options = "stream_usage" not in settled.refused
        self._profile = replace(self._profile, stream_usage=takes_options)
        if not reading.streamed:
            self._notes.append("a request for a stream is answered by a whole reply")
        elif not reading.finish and reading.text and reading.marker:
            self._profile = replace(self._profile, ends_without_finish=True)
            self._notes.append("a stream ends without a finish reason")
        if takes_options:
            came = "they came" if reading.tokens is not None else "no tokens came"
            self._note("stream_usage", "yes", f"stream_options is taken, and {came}")

    def ask_tools(self) -> _Steps[None]:
        """Ask for a call of a tool: forced, and one at a time."""
        form = self._make_form(
            "What is the weather in Lisbon?",
            replace(
                self._profile,
                parallel_calls="forbid",
                forces_tools=self._profile.forces_tools or "named",
            ),
            tools=(_TOOL,),
            choice=_TOOL.name,
        )
        settled = yield from self._settle("a forced call of a tool", form)
        self._note_refusals(settled, ("tools", "tool_choice", "parallel_tool_calls"))
        if not settled.is_taken or settled.reading is None or not settled.form.request.tools:
            return
        called = "it was called" if settled.reading.calls else "it was not called"
        self._note("tools", "yes", f"a tool is taken, and {called}")
        if {"parallel_tool_calls"}.isdisjoint({*settled.refused, *settled.open}):
            self._note("parallel_tool_calls", "yes", "the field is taken")
        if "tool_choice" not in settled.open:
            yield from self._check_forcing(settled.form, settled.reading)

    def _check_forcing(self, form: _Form, reading: AnswerReading) -> _Steps[None]:
        """Find out whether the choice of a tool that was taken has an effect: by its name, or by "required"."""
        if form.request.settings.tool_choice is None:
            self._profile = replace(self._profile, forces_tools="")
            return
        if not reading.calls and not was_cut(reading) and form.profile.forces_tools == "named":
            form = replace(form, profile=replace(form.profile, forces_tools="required"))
            second = yield from self._ask("a forced call by the word required", form)
            if second is None or second.verdict == "unknown":
                self._note("tool_choice", "unknown", "the name of a tool had no effect")
                return
            reading = second
        by = "a name" if form.profile.forces_tools == "named" else '"required"'
        if reading.calls:
            self._profile = replace(self._profile, forces_tools=form.profile.forces_tools)
            self._note("tool_choice", "yes", f"a call came that was forced by {by}")
        elif was_cut(reading):
            self._note("tool_choice", "unknown", "the reply was cut before a call")
        else:
            self._profile = replace(self._profile, forces_tools="")
            self._note("tool_choice", "no", "it has no effect: no forced call came")

    def ask_output(self) -> _Steps[None]:
        """Ask for a typed output by `response_format`."""
        profile = replace(self._profile, response_format="json_schema")
        form = self._make_form("Name a city, as JSON.", profile, output=_OUTPUT)
        settled = yield from self._settle("an object of a schema", form)
        self._note_refusals(settled, ("response_format",))
        if not settled.is_taken or settled.reading is None:
            return
        if "response_format" in settled.open:
            return
        is_object = _is_wanted_object(settled.reading.text)
        if "response_format" not in settled.refused and was_cut(settled.reading):
            self._note("response_format", "unknown", "the reply was cut before its end")
            return
        if "response_format" not in settled.refused and is_object:
            self._note("response_format", "yes", "an object of the schema came")
            self._profile = replace(self._profile, response_format="json_schema")
            return
        if "response_format" not in settled.refused:
            words = "json_schema is taken and had no effect: no object of the schema came"
            self._note("response_format", "no", words)
        self._profile = self._request_outputs_otherwise(settled.form)

    def _request_outputs_otherwise(self, form: _Form) -> EndpointProfile:
        """Return the profile for an endpoint without schemas: by a forced tool, or in words."""
        found = self._found.get("tool_choice")
        mode: Literal["tool", "prompt"] = "prompt"
        if found is not None and found.answer == "yes":
            mode = "tool"
        profile = replace(self._profile, output_mode=mode, output_mode_with_tools=mode)
        takes_objects = (
            form.request.output is not None and form.profile.response_format == "json_object"
        )
        return replace(profile, response_format="json_object") if takes_objects else profile

    def ask_order(self) -> _Steps[None]:
        """Ask whether two messages of the user may follow each other."""
        profile = replace(self._profile, alternating_roles=False)
        # Instructions of the user would be joined with the message after them.
        form = self._make_form("Hello.", replace(profile, system_role="system"))
        messages = [user("Hello."), user("Say hello.")]
        form = replace(form, request=replace(form.request, messages=messages))
        reading = yield from self._ask("two messages of the user in a row", form)
        if reading is None:
            return
        if reading.verdict == "taken":
            self._profile = profile
            self._note("alternating_roles", "no", "two messages of the user in a row are taken")
        elif reading.verdict == "refused" and self._answered:
            self._profile = replace(self._profile, alternating_roles=True)
            self._note("alternating_roles", "yes", reading.words)
        else:
            self._note("alternating_roles", "unknown", reading.words)

    def ask_image(self) -> _Steps[None]:
        """Ask whether a picture is taken."""
        profile = replace(self._profile, images="any")
        form = self._make_form("Which colour is this?", profile)
        picture = Media("image/png", data=_PICTURE)
        message = Message("user", (Text("Which colour is this?"), picture))
        form = replace(form, request=replace(form.request, messages=[message]))
        reading = yield from self._ask("a picture", form)
        if reading is None:
            return
        if reading.verdict == "taken":
            self._note("images", "yes", "a picture is taken")
            return
        speaks = _NO_PICTURES.search(reading.words) and not _BAD_PICTURE.search(reading.words)
        if reading.verdict == "refused" and self._answered and speaks:
            self._profile = replace(self._profile, images="none")
            self._note("images", "no", reading.words)
        else:
            self._note("images", "unknown", reading.words)

    def _make_form(
        self,
        words: str,
        profile: EndpointProfile,
        *,
        stream: bool = False,
        tools: tuple[ToolSpec, ...] = (),
        choice: str | None = None,
        output: OutputSchema | None = None,
    ) -> _Form:
        """Make a request with one message, and with a limit if the endpoint takes one."""
        limit = self._found.get("max_tokens_field")
        takes_limit = limit is not None and limit.answer == "yes"
        request = ModelRequest(
            model=self._model,
            messages=[user(words)],
            tools=tools,
            output=output,
            settings=ModelSettings(max_tokens=_ENOUGH if takes_limit else None, tool_choice=choice),
            stream=stream,
        )
        return _Form(request, profile)

    def _settle(self, about: str, form: _Form) -> _Steps[_Settled]:
        """Ask in other forms until one is taken."""
        refused: dict[Trait, str] = {}
        subjects: set[str] = set()
        pending: list[tuple[_Step, str]] = []
        while True:
            reading = yield from self._ask(about, form)
            step = None
            if reading is not None and reading.verdict == "refused":
                step = _find_step(form, reading)
            if pending and reading is not None:
                last, words = pending[-1]
                # A complaint about something else proves that what was named before is out of the way.
                went_on = step is not None and step.is_named and step.subject != last.subject
                if reading.verdict == "taken" or (went_on and last.is_named):
                    refused[last.trait] = words
                    subjects.add(last.subject)
                    pending.pop()
            if step is None or reading is None:
                open_traits = tuple(one.trait for one, _ in pending)
                return _Settled(form, reading, refused, frozenset(subjects), open_traits)
            pending.append((step, reading.words))
            form, about = step.form, f"the same in another form of {step.trait}"

    def _ask(self, about: str, form: _Form) -> _Steps[AnswerReading | None]:
        """Ask one question; None if no more may be asked."""
        if self._stopped or len(self._calls) >= self._most:
            return None
        encoded = OpenAIChat(form.profile).encode(form.request)
        answer = yield EndpointQuestion(about, encoded)
        reading = read_answer(answer)
        showed = reading.words if reading.verdict != "taken" else describe_reply(reading)
        self._calls.append(ProbeCall(about, f"{reading.verdict}: {showed}"))
        if reading.verdict == "taken":
            self._answered = True
            self._note_thinking(reading)
        elif reading.verdict == "unknown" and (
            not self._answered or answer.status in (401, 403, 429)
        ):
            self._stopped = reading.words
        return reading

    def _note_thinking(self, reading: AnswerReading) -> None:
        if reading.reasoning:
            self._notes.append(f"reasoning stands in the field {reading.reasoning}")
        tags = self._profile.thinking_tags
        if reading.tag is not None and reading.tag not in tags:
            self._profile = replace(self._profile, thinking_tags=(*tags, reading.tag))
            self._notes.append(f"replies begin with thinking: {reading.tag}")

    def _note_refusals(self, settled: _Settled, traits: tuple[Trait, ...]) -> None:
        """Note what a search proved, and what it left open."""
        reading = settled.reading
        if reading is None and not settled.refused and not settled.open:
            return
        why = "no question left" if reading is None else reading.words
        for trait in traits:
            if trait in settled.refused:
                self._note(trait, "no", settled.refused[trait])
            elif trait in settled.open or reading is None or reading.verdict != "taken":
                self._note(trait, "unknown", why)

    def _note(self, trait: Trait, answer: Literal["yes", "no", "unknown"], words: str) -> None:
        self._found[trait] = TraitFinding(trait, answer, words)


_NO_PICTURES: Final = re.compile(r"image|picture|vision|multi-?modal|content", re.IGNORECASE)
_BAD_PICTURE: Final = re.compile(
    r"invalid image|too (?:small|large)|resolution|decode|process|download|corrupt", re.IGNORECASE
)


class _Step(Struct, frozen=True):
    """The next form of a request that was refused.

    Args:
        trait: what it changes.
        subject: the name or the role that was sent so far.
        form: the next form.
        is_named: whether the server named the subject.
    """

    trait: Trait
    subject: str
    form: _Form
    is_named: bool


def _find_step(form: _Form, reading: AnswerReading) -> _Step | None:
    failure = reading.failure or Failure()
    encoded = OpenAIChat(form.profile).encode(form.request)
    sent = SentForm(form.request, encoded.body, WIRE, form.profile, form.tried)
    change = find_next_form(failure, sent)
    if change is not None and change.field in _OF_CHANGES:
        changed = replace(form, profile=change.apply(form.profile), tried=(*form.tried, change))
        return _Step(_OF_CHANGES[change.field], change.before, changed, is_named=True)
    steps = [
        _Step(trait, _name_of(trait, form), other, is_named=False)
        for trait, other in _list_other_forms(form)
    ]
    message = reading.words.lower()
    named = next((one for one in steps if one.subject in message), None)
    if named is not None:
        return replace(named, is_named=True)
    return steps[0] if steps else None


def _name_of(trait: Trait, form: _Form) -> str:
    """Return the word by which a server names what was sent."""
    words = {
        "max_tokens_field": form.profile.max_tokens_field,
        "stream_usage": "stream_options",
        "system_role": f"role {form.profile.system_role}",
    }
    return words.get(trait, trait)


def _list_other_forms(form: _Form) -> Iterator[tuple[Trait, _Form]]:
    """Yield each trait of a request with the form that it takes next."""
    request, profile, settings = form.request, form.profile, form.request.settings
    if request.instructions and profile.system_role != "user":
        yield "system_role", replace(form, profile=replace(profile, system_role="user"))
    if request.instructions and settings.max_tokens is not None:
        yield "max_tokens_field", _change_limit(form)
    if request.stream and profile.stream_usage:
        yield "stream_usage", replace(form, profile=replace(profile, stream_usage=False))
    if request.tools:
        free = replace(settings, tool_choice=None)
        if profile.parallel_calls:
            yield "parallel_tool_calls", replace(form, profile=replace(profile, parallel_calls=""))
        if settings.tool_choice is not None and profile.forces_tools == "named":
            worded = replace(profile, forces_tools="required")
            yield "tool_choice", replace(form, profile=worded)
        elif settings.tool_choice is not None:
            yield "tool_choice", replace(form, request=replace(request, settings=free))
        yield "tools", replace(form, request=replace(request, tools=(), settings=free))
    if request.output is not None:
        if profile.response_format == "json_schema":
            objects = replace(profile, response_format="json_object")
            asked = replace(request, output=replace(request.output, mode="prompt"))
            yield "response_format", _Form(asked, objects)
        else:
            yield "response_format", replace(form, request=replace(request, output=None))


def _change_limit(form: _Form) -> _Form:
    """Return the form with the other name of the limit, or without a limit after that."""
    field = form.profile.max_tokens_field
    tried = {value for one in form.tried for value in (one.before, one.after)}
    other = _other_limit(field)
    if other in tried:
        settings = replace(form.request.settings, max_tokens=None)
        return replace(form, request=replace(form.request, settings=settings))
    change = FormChange("max_tokens_field", field, other)
    return replace(form, profile=change.apply(form.profile), tried=(*form.tried, change))


def _other_limit(field: str) -> Literal["max_tokens", "max_completion_tokens"]:
    return "max_tokens" if field == "max_completion_tokens" else "max_completion_tokens"


def _describe_limit(field: str, reading: AnswerReading) -> str:
    if reading.finish == "length":
        return f"{field} ended the reply"
    return f"{field} is taken, and the reply was short"


def _is_wanted_object(text: str) -> bool:
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("city"), str)
