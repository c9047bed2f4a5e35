"""Finds the next form of a request when an endpoint refuses the form that its profile chose.

Servers differ in words for the same meaning: the role of instructions, the name of the output limit, and two
fields that may be left out. A server that refuses one of them names it, in `param`, in `loc` or in its message.
The next form is found only if the error is about a role or a field that the profile chose in this very request.
What the user set has no other form: it is never changed and never left out.

What an error only quotes of the user's texts asks for nothing (see `codecs.quoted_texts`). This module must never
change a request itself, and remembers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import EndpointProfile, reads_field
from holdfast.codecs.quoted_texts import LARGEST_TEXT, SentTexts, names_subject
from holdfast.codecs.wire import Failure
from holdfast.core.model_request import ModelRequest

FormField: TypeAlias = Literal[
    "system_role", "max_tokens_field", "stream_usage", "parallel_calls", "stream"
]
"""The fields of a profile whose values have another form of the same meaning; and whether a reply is streamed."""

_STATUSES: Final = (400, 422)
_MOST_ENTRIES: Final = 100


class FormChange(Struct, frozen=True):
    """Another form of the same meaning: `before` was refused, and `after` follows.

    Both are words of the wire, such as "developer" and "system"; "" leaves the field out.
    """

    field: FormField
    before: str
    after: str

    def apply(self, profile: EndpointProfile) -> EndpointProfile:
        """Return the profile that sends `after`; `stream` is no matter of the profile.

        >>> FormChange("stream_usage", "stream_options", "").apply(EndpointProfile()).stream_usage
        False
        """
        if self.field == "stream":
            return profile
        value: object = bool(self.after) if self.field == "stream_usage" else self.after
        return replace(profile, **{self.field: value})


class SentForm(Struct, frozen=True):
    """A request as it was sent.

    Args:
        request: the request.
        body: its encoded body.
        wire: the codec's name.
        profile: the profile by which it was encoded.
        tried: the changes that led to this form.
    """

    request: ModelRequest
    body: bytes
    wire: str
    profile: EndpointProfile
    tried: tuple[FormChange, ...] = ()


def find_next_form(failure: Failure, sent: SentForm) -> FormChange | None:
    """Return the change that a refusal asks for; None if it is about anything else.

    Args:
        failure: the error response.
        sent: the request that was refused.

    >>> from holdfast.core.messages import user
    >>> from holdfast.core.model_request import ModelSettings
    >>> request = ModelRequest(model="m", messages=[user("Hi")], settings=ModelSettings(max_tokens=9))
    >>> body = b'{"error": {"message": "Unknown parameter: max_tokens"}}'
    >>> sent = SentForm(request, b"{}", "openai_chat", EndpointProfile())
    >>> find_next_form(Failure(status=400, body=body), sent).after
    'max_completion_tokens'
    """
    if failure.status not in _STATUSES:
        return None
    changes = list(_list_changes(sent))
    entries = _read_entries(failure.body) if changes else []
    if not entries:
        return None
    texts = _SentBody(sent.body)
    return next((one for one in changes if _is_asked_for(one, entries, texts)), None)


def _list_changes(sent: SentForm) -> Iterator[FormChange]:
    """Yield the next form of each role and field that the profile chose in a request."""
    tried = {(one.field, value) for one in sent.tried for value in (one.before, one.after)}
    for field, before, others in _find_chosen(sent):
        after = next((one for one in others if (field, one) not in tried), None)
        if after is not None and reads_field(sent.wire, field):
            yield FormChange(field, before, after)


def _find_chosen(sent: SentForm) -> Iterator[tuple[FormField, str, tuple[str, ...]]]:
    """Yield what the profile chose in a request, with the other forms in their order."""
    request, profile, settings = sent.request, sent.profile, sent.request.settings
    extra: Mapping[str, object] = settings.extra or {}
    role, limit = profile.system_role, profile.max_tokens_field
    # Within a text of the user the quotes would be escaped.
    if f'{{"role":"{role}"'.encode() in sent.body:
        yield "system_role", role, _ROLES[role]
    if settings.max_tokens is not None and extra.keys().isdisjoint(_LIMITS):
        yield "max_tokens_field", limit, (_LIMITS[limit],)
    if request.stream and profile.stream_usage and "stream_options" not in extra:
        yield "stream_usage", "stream_options", ("",)
    is_set = settings.parallel_tool_calls is not None or "parallel_tool_calls" in extra
    # Without the field a server allows parallel calls, so leaving out "forbid" would change its meaning.
    if profile.parallel_calls == "allow" and request.tools and not is_set:
        yield "parallel_calls", "parallel_tool_calls", ("",)


_ROLES: Final = {"developer": ("system", "user"), "system": ("user",), "user": ()}
_LIMITS: Final = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}


def names_stream(error: str, body: bytes) -> bool:
    """Whether an error is about streaming, and does not only quote what was sent.

    Args:
        error: the text of the error.
        body: the body of the request.

    >>> sent = b'{"messages": [{"role": "user", "content": "Where can I stream it?"}]}'
    >>> names_stream("This model cannot stream.", sent), names_stream("Bad text: can I stream it", sent)
    (True, False)
    """
    return names_subject(_STREAM, error, lambda: _SentBody(body))


_STREAM: Final = re.compile(r"(?<![^\W_])stream(?!_options)")


class _Complaint(Struct, frozen=True):
    """One complaint of an error: the place that it names, its kinds, and its words."""

    path: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    text: str = ""


# OpenRouter has the words of its provider in `metadata.raw`.
_NESTS: Final = ("error", "detail", "errors", "message", "metadata")
_WORDS: Final = ("message", "msg", "detail", "error", "raw")


def _read_entries(body: bytes) -> list[_Complaint]:
    """Read the complaints of an error response; none of a page of a proxy."""
    text = body[: 16 * LARGEST_TEXT].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return []
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return [_Complaint(text=_clean(text))] if text else []
    entries: list[_Complaint] = []
    _collect_entries(value, entries, 0)
    return entries


def _collect_entries(value: object, entries: list[_Complaint], depth: int) -> None:
    if depth > 4 or len(entries) >= _MOST_ENTRIES:
        return
    if isinstance(value, str):
        entries.append(_Complaint(text=_clean(value)))
    elif isinstance(value, list):
        for inner in value[:_MOST_ENTRIES]:
            _collect_entries(inner, entries, depth + 1)
    elif isinstance(value, dict):
        kinds = (value.get(key) for key in ("code", "type"))
        words = (value.get(key) for key in _WORDS)
        entry = _Complaint(
            path=_read_path(value),
            kinds=tuple(one.lower() for one in kinds if isinstance(one, str)),
            text=_clean("\n".join(one for one in words if isinstance(one, str))),
        )
        if entry.path or entry.text:
            entries.append(entry)
        for key in _NESTS:
            if isinstance(inner := value.get(key), dict | list):
                _collect_entries(inner, entries, depth + 1)


def _read_path(error: Mapping[str, object]) -> tuple[str, ...]:
    """Return the place that `param` or `loc` names, below the body."""
    given = error.get("loc", error.get("param"))
    words = " ".join(map(str, given[:20])) if isinstance(given, list) else given
    if not isinstance(words, str):
        return ()
    path = tuple(re.findall(r"\w+", words[:300]))
    return path[1:] if path[:1] == ("body",) else path


def _clean(text: str) -> str:
    lines = text[:LARGEST_TEXT].replace("\\", "").lower().splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


class _SentBody(SentTexts):
    """The words that a user may have written into a body: every text and name below its top, but the roles of messages."""

    def __init__(self, body: bytes) -> None:
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            value = {}
        if not isinstance(value, dict):
            value = {}
        super().__init__(*value.values(), of_wire=frozenset({"role"}))
        messages = value.get("messages", value.get("input"))
        self.roles: list[object] = []
        if isinstance(messages, list):
            self.roles = [one.get("role") if isinstance(one, dict) else None for one in messages]


def _is_asked_for(change: FormChange, entries: Collection[_Complaint], texts: _SentBody) -> bool:
    if change.field == "system_role":
        return any(_refuses_role(change.before, entry, texts) for entry in entries)
    return any(_refuses_field(change, entry, texts) for entry in entries)


_UNKNOWN: Final = r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected|extra|additional|deprecated)"
_NOUN: Final = r"(?:parameter|field|argument|key|property|properties|option|name|input)"
_GAP: Final = r"(?:(?!value|larger|greater|less|above|below|than|must|exceed)[^.;\d\n]){0,60}?"
_NOT: Final = (
    r"(?:not\s+(?:supported|permitted|allowed|recogni[sz]ed|implemented|available)"
    r"(?!\s+(?:to|above|below|value|for\s+value))"
    r"|unsupported|unexpected|unknown|unrecogni[sz]ed|deprecated|does\s+not\s+exist"
    r"|not\s+a\s+(?:valid|known|recogni[sz]ed)\s+" + _NOUN + r"|extra\s+(?:inputs|fields))"
)
_KINDS: Final = re.compile(
    r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected)_?(?:parameter|field|argument|key|property)"
    r"|extra_forbidden|value_error\.extra|additional_?properties"
)
_PLAIN_WORDS: Final = re.compile(
    rf"{_UNKNOWN}\s+(?:\w+\s+)?{_NOUN}|extra\s+(?:inputs|fields)|{_NOT}|not permitted"
)
_NAMES: Final = {
    "stream_options": r"(?:stream_options(?:\.include_usage)?|include_usage)",
    "parallel_tool_calls": r"parallel[ _]tool[ _](?:calls|calling|use)",
}


@cache
def _compile_field_phrases(name: str, other: str) -> tuple[re.Pattern[str], ...]:
    """Return the phrases by which servers refuse a field; `other` is the name that they may suggest."""
    bare = _NAMES.get(name, re.escape(name))
    named = rf"(?<![\w.\-\]/#$])(?:body\.|#/|/|\$\.)?['\"`]?{bare}['\"`]?(?![\w\-\[]|\.\w)"
    phrases = [
        rf"{_UNKNOWN}\s+(?:(?:request|keyword|body|query|json)\s+)?{_NOUN}s?(?:\(s\))?{_GAP}{named}",
        rf"{named}{_GAP}{_NOT}",
        rf"(?:not|n't)\s+(?:support|accept|recogni[sz]e|allow)\s+(?:\w+\s+){{0,2}}{_GAP}{named}",
    ]
    if other:
        phrases.append(rf"{named}[^;\n]{{0,120}}?\buse\s+['\"`]?{other}['\"`]?")
    return tuple(map(re.compile, phrases))


def _refuses_field(change: FormChange, entry: _Complaint, texts: _SentBody) -> bool:
    """Whether a complaint says that the endpoint does not know a field, and not that its value is wrong."""
    if entry.path[:1] == (change.before,):
        if not change.after:
            return True
        if len(entry.path) == 1 and (
            any(map(_KINDS.search, entry.kinds)) or _is_plain_complaint(entry.text)
        ):
            return True
    if texts.are_one(change.before):
        return False
    found = (one.search(entry.text) for one in _compile_field_phrases(change.before, change.after))
    return any(match is not None and not texts.contain(match[0]) for match in found)


def _is_plain_complaint(text: str) -> bool:
    """Whether words that stand beside the name of a field say that it is unknown; a number says that it is not."""
    return _PLAIN_WORDS.search(text) is not None and re.search(r"\d", text) is None


@cache
def _compile_role_phrases(role: str) -> tuple[re.Pattern[str], ...]:
    """Return the phrases by which servers and chat templates refuse a role."""
    quoted = rf"(?:['\"`]{role}['\"`](?:\s+(?:role|message|prompt|instruction)s?)?"
    noun = rf"|\b{role}\s+(?:role|message|prompt|instruction)s?|\brole\s+{role}\b)"
    bad = r"(?:invalid|unknown|unsupported|unexpected|unrecogni[sz]ed|incorrect|illegal)"
    refused = (
        r"(?:not\s+(?:supported|allowed|permitted|valid|recogni[sz]ed|accepted|available|one\s+of"
        r"|an?\s+(?:valid|allowed|supported))|unsupported|invalid|unknown|unrecogni[sz]ed)"
    )
    phrases = [
        rf"{bad}\s+(?:message\s+|chat\s+)?(?:role|variant|value)s?[^\w\n]{{0,4}}{role}\b",
        rf"{quoted}{noun}\s+(?:(?:is|are|was)\s+)?{refused}",
        rf"(?:not|n't)\s+(?:support|accept|allow|handle)\s+(?:the\s+|a\s+)?{quoted}{noun}",
        rf"\b{role}\s+is\s+not\s+one\s+of\b",
        rf"\brole\b[^\n]{{0,100}}\bgot\W{{1,3}}{role}\b",
        rf"\bonly\s+(?:(?!{role})[\w ,'\"`]){{3,60}}\s+roles?\s+(?:are|is)\s+(?:supported|allowed)",
    ]
    if role == "developer":
        phrases.append(
            rf"{bad}\s+(?:message\s+)?role\b(?!\W{{0,4}}(?:system|user|assistant|tool)\b)"
        )
    return tuple(map(re.compile, phrases))


_ROLE_PLACE: Final = re.compile(r"\bmessages\W{1,4}(\d{1,6})\W{1,4}(?:\w{1,60}\W{1,4})?role\b")


def _refuses_role(role: str, entry: _Complaint, texts: _SentBody) -> bool:
    """Whether a complaint is about the role of instructions."""
    path = entry.path
    if len(path) > 2 and path[0] in ("messages", "input") and path[-1] == "role":
        return _has_role(role, path[1], texts)
    place = _ROLE_PLACE.search(entry.text)
    if place is not None and not texts.contain(place[0]):
        return _has_role(role, place[1], texts)
    if texts.are_one(role):
        return False
    found = (one.search(entry.text) for one in _compile_role_phrases(role))
    return any(match is not None and not texts.contain(match[0]) for match in found)


def _has_role(role: str, index: str, texts: _SentBody) -> bool:
    """Whether the message at an index was sent with the role of instructions."""
    at = int(index) if index.isdecimal() and len(index) < 7 else -1
    return 0 <= at < len(texts.roles) and texts.roles[at] == role
