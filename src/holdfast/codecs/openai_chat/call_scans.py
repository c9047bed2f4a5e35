"""Reads one tool call in a text, from behind its mark to its end, in each of the forms of `text_calls`.

A scan takes the text in pieces, and a piece at every letter gives the same call as the whole. It reads no
more than one call, or one list of calls, and never looks for a mark. A call that is not whole gets arguments that
are not JSON. The arguments of Qwen 3 Coder are texts, which become values by the schema of the tool. This module
never repairs a call, and the work of a scan is linear in its text.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.json_strict import NotJson, read_strict_json

Schemas: TypeAlias = Mapping[str, Mapping[str, object]]

LONGEST_CALL: Final = 16 * 1024 * 1024
"""The most characters of one call, which is kept until its end."""

LONGEST_HEAD: Final = 512
"""The most characters between a mark and the arguments."""

FUNCTION: Final = "<function="

_MOST_ENDS = 8
"""How many end tags are tried; more than one is an end tag inside of an argument."""

LONGEST_GAP: Final = 512
"""The most white space before what a call begins with, where anything else would be text."""


class TextCall(Struct, frozen=True):
    """A call in a text. The arguments of a call that must not run are not JSON."""

    name: str
    arguments: str


class CallScan(ABC):
    """Reads what follows the mark of a call.

    Attributes:
        calls: the calls that were found.
        text: the text that turned out to be no call.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._pieces: list[str] = []
        self._size = 0
        self._is_lost = False
        self.calls: list[TextCall] = []
        self.text = ""

    @property
    def is_closable(self) -> bool:
        """Whether an end tag may follow that belongs to no mark."""
        return False

    def feed(self, text: str) -> str | None:
        """Take more text; return the rest behind the call, or None if it is not at its end."""
        if self._is_lost or self._size > LONGEST_CALL:
            self._lose(text)
            return None
        return self._read(text)

    def end(self) -> None:
        """End the reply: what is not whole is refused."""
        self._end()

    @abstractmethod
    def _read(self, text: str) -> str | None:
        """Take more text of a call whose end may be found."""

    def _end(self) -> None:
        self._refuse()

    def _keep(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)

    def _take(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return text

    def _refuse(self, rest: str = "") -> None:
        """Add a call that does not run: its arguments begin with the mark, so they are not JSON."""
        raw = self._take() + rest
        named = _NAMED.search(raw)
        mark = self._mark.strip() or BARE
        self.calls.append(TextCall(named[1] or named[2] if named else "", mark + raw))

    def _lose(self, text: str) -> None:
        """Refuse everything up to the end of the reply, because nobody knows where the call ends."""
        self._is_lost = True
        if self._size < LONGEST_CALL:
            self._keep(text)

    def _give_back(self, rest: str) -> str:
        """Make everything text that has come, without the mark being looked at again."""
        self.text = self._mark + self._take()
        return rest


BARE = "<|python_tag|>"
"""Stands before a refused call that has no mark."""

_NAMED = re.compile(r'"name"\s{0,9}:\s{0,9}"([^"\\]{1,128})"|<function=([^<>\s]{1,128})>')


class _JsonEnd:
    """Finds where a JSON object or array ends that arrives in pieces."""

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False

    def find(self, text: str, at: int = 0) -> int:
        """Return the index behind the last bracket; -1 if it has not come."""
        size = len(text)
        while at < size:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_IN_STRING if self._in_string else _OUTSIDE).search(text, at)
            if found is None:
                return -1
            at, char = found.end(), found[0]
            if char == "\\":
                self._escaped = True
            elif char == '"':
                self._in_string = not self._in_string
            elif char in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return at
        return -1


_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')


_NO_VALUE = msgspec.Raw()


class _WrittenCall(Struct):
    name: str
    arguments: msgspec.Raw = _NO_VALUE
    parameters: msgspec.Raw = _NO_VALUE


_decode_call = msgspec.json.Decoder(_WrittenCall).decode


def _read_call(text: str, *, needs_arguments: bool = False) -> TextCall | None:
    """Return the call that an object describes; its arguments stay as they were written."""
    try:
        if not isinstance(read_strict_json(text), dict):
            return None
        written = _decode_call(text)
    except (NotJson, ValueError, RecursionError):
        return None
    arguments = bytes(written.arguments or written.parameters).decode()
    if not written.name or (needs_arguments and not arguments):
        return None
    if arguments[:1] == '"':
        # The arguments as a text, as in the field `tool_calls`.
        arguments = str(json.loads(arguments))
    return TextCall(written.name, arguments)


class HermesScan(CallScan):
    """Reads `{...}</tool_call>`."""

    _END = "</tool_call>"

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self._json: _JsonEnd | None = None
        self._object = ""
        self._tail = ""

    def _read(self, text: str) -> str | None:
        if self._json is None:
            rest = text.lstrip()
            self._keep(text[: len(text) - len(rest)])
            if not rest:
                return None
            if rest[0] != "{":
                return self._give_back(rest)
            self._json, text = _JsonEnd(), rest
        if not self._object:
            end = self._json.find(text)
            self._keep(text if end < 0 else text[:end])
            if end < 0:
                return None
            self._object, text = self._take(), text[end:]
        return self._find_end(text)

    def _find_end(self, text: str) -> str | None:
        text, self._tail = self._tail + text, ""
        at = text.find(self._END)
        if at < 0:
            held = count_prefix(text, (self._END,))
            self._keep(text[: len(text) - held])
            self._tail = text[len(text) - held :]
            return None
        self._keep(text[:at])
        between, rest = self._take(), text[at + len(self._END) :]
        call = _read_call(self._object)
        if call is None or between.strip():
            self._keep(self._object + between + self._END)
            self._refuse()
        else:
            self.calls.append(call)
        return rest

    def _end(self) -> None:
        self._pieces = [self._object, *self._pieces, self._tail]
        self._refuse()


class MistralScan(CallScan):
    """Reads `[{...}, ...]`, or a name and `{...}`."""

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self._json: _JsonEnd | None = None
        self._head = ""
        self._name = ""

    def _read(self, text: str) -> str | None:
        if self._json is None:
            head = self._head + text
            begun = _MISTRAL_HEAD.match(head)
            if begun is None:
                self._head = head
                if len(head) < LONGEST_HEAD and _MISTRAL_BEGINNING.fullmatch(head):
                    return None
                self._head = ""
                return self._give_back(head)
            self._keep(head[: begun.end()])
            self._name, self._head = begun[1] or "", ""
            self._json, text = _JsonEnd(), head[begun.end() :]
        end = self._json.find(text)
        self._keep(text if end < 0 else text[:end])
        if end < 0:
            return None
        self._read_calls()
        return text[end:]

    def _end(self) -> None:
        self._keep(self._head)
        self._refuse()

    def _read_calls(self) -> None:
        raw = "".join(self._pieces)
        body = raw[len(self._pieces[0]) :]
        if self._name:
            self.calls.append(TextCall(self._name, body))
            return None
        try:
            entries = _decode_entries(body) if body[0] == "[" else [msgspec.Raw(body.encode())]
        except (ValueError, RecursionError):
            return self._refuse()
        calls = [_read_call(bytes(entry).decode()) for entry in entries]
        if not calls or None in calls:
            return self._refuse()
        self.calls += [call for call in calls if call is not None]
        return None


_decode_entries = msgspec.json.Decoder(list[msgspec.Raw]).decode
_MISTRAL_HEAD = re.compile(
    r"\s{0,64}(?:([A-Za-z0-9_.-]{1,128})(?:\[CALL_ID\][A-Za-z0-9]{1,64})?(?:\[ARGS\])?\s{0,64}(?=\{)|(?=[\[{]))"
)
_MISTRAL_BEGINNING = re.compile(
    r"\s{0,64}(?:[A-Za-z0-9_.-]{1,128}(?:\[[A-Z_]{0,8}\]?(?:[A-Za-z0-9]{1,64}(?:\[[A-Z]{0,4}\]?)?)?)?\s{0,64})?"
)


class LlamaScan(CallScan):
    """Reads objects with semicolons between them.

    Args:
        mark: `<|python_tag|>`, or the white space before an object without a mark.
        bare: there is no mark.
        tools: the schemas of the tools, if they are known: without a mark, any other object is text.
    """

    def __init__(self, mark: str, *, bare: bool, tools: Schemas | None) -> None:
        super().__init__(mark)
        self._bare = bare
        self._tools = tools
        self._json = _JsonEnd()
        self._inside = False
        self._between = ""
        # The beginning of an object without a mark, until its first key shows what it is.
        self._head: str | None = "" if bare else None

    def _read(self, text: str) -> str | None:
        if self._head is not None:
            self._head += text
            if _OPEN_KEY.fullmatch(self._head):
                return None
            text, self._head = self._head, None
            key = _FIRST_KEY.match(text)
            if key is None or key[1] not in _CALL_KEYS:
                self._keep(text[0])
                return self._give_back(text[1:])
        while text:
            if not self._inside:
                rest = self._begin_object(text)
                if rest is None or rest[:1] != "{":
                    return rest
                text = rest
            end = self._json.find(text)
            self._keep(text if end < 0 else text[:end])
            if end < 0:
                return None
            text = text[end:]
            if not self._end_object():
                return text
        return None

    def _begin_object(self, text: str) -> str | None:
        """Skip the separator before an object; None if it goes on, the rest if no object begins."""
        between = self._between + text
        found = _SEPARATOR.match(between)
        end = found.end() if found else 0
        if end == len(between) and end <= LONGEST_GAP:
            self._between = between
            return None
        self._between = ""
        if between[end : end + 1] == "{" and end <= LONGEST_GAP:
            self._inside, self._json = True, _JsonEnd()
            return between[end:]
        if self.calls:
            return between  # text behind the calls
        self._lose(between)  # other code than JSON
        return None

    def _end_object(self) -> bool:
        """Read an object that has ended; returns whether another may follow."""
        self._inside = False
        raw = self._take()
        call = _read_call(raw, needs_arguments=True)
        if call is not None and (not self._bare or self._tools is None or call.name in self._tools):
            self.calls.append(call)
            return True
        self._keep(raw)
        if self._bare and not self.calls:
            self._give_back("")
        else:
            self._refuse()
        return False

    def _end(self) -> None:
        if self._head is not None:
            self._keep(self._head)
            key = self._head.partition('"')[2]
            if any(known.startswith(key) for known in _CALL_KEYS):
                self._refuse()
            else:
                self._give_back("")
        elif self._inside or self._is_lost or not self.calls:
            self._refuse()


_OPEN_KEY = re.compile(r'\{\s{0,32}(?:"[^"\\]{0,24})?')
_FIRST_KEY = re.compile(r'\{\s{0,32}"([^"\\]{0,24})"')
_CALL_KEYS = frozenset({"arguments", "id", "name", "parameters", "type"})
_SEPARATOR = re.compile(r"\s*;?\s*")


class QwenScan(CallScan):
    """Reads `<function=...>` up to `</tool_call>`, or up to `</function>` if its own tag was the mark.

    Args:
        mark: the mark.
        tools: the schemas by which the texts of the arguments become values.
    """

    def __init__(self, mark: str, tools: Schemas | None) -> None:
        super().__init__(mark)
        self._tools = tools or {}
        self._end_tag = "</tool_call>" if mark == "<tool_call>" else "</function>"
        self._tail = ""
        self._head: str | None = "" if mark == "<tool_call>" else None
        self._tried = 0

    @property
    def is_closable(self) -> bool:
        """Whether the end tag may follow whose opening tag the model left out."""
        return self._mark == FUNCTION

    def _read(self, text: str) -> str | None:
        if self._head is not None:
            room = LONGEST_HEAD - len(self._head)
            self._head, rest = self._head + text[:room], text[room:]
            begun = self._head.lstrip()
            if len(self._head) < LONGEST_HEAD and FUNCTION.startswith(begun):
                return None
            if not begun.startswith(FUNCTION):
                self._keep(self._head[: len(self._head) - len(begun)])
                return self._give_back(begun + rest)
            text, self._head = self._head + rest, None
        return self._find_end(text)

    def _find_end(self, text: str) -> str | None:
        text, self._tail = self._tail + text, ""
        at = 0
        while (found := text.find(self._end_tag, at)) >= 0 and self._tried < _MOST_ENDS:
            after = found + len(self._end_tag)
            self._keep(text[at:after])
            at = after
            self._tried += 1
            raw = self._take()
            call = _read_function(raw, self._mark, self._tools)
            if call is not None:
                self.calls.append(call)
                return text[after:]
            self._keep(raw)
        held = count_prefix(text[at:], (self._end_tag,))
        self._keep(text[at : len(text) - held])
        self._tail = text[len(text) - held :]
        return None

    def _end(self) -> None:
        self._pieces = [self._head or "", *self._pieces, self._tail]
        self._refuse()


_VALUE_END = re.compile(r"</parameter>(?=\s*(?:<parameter=|\Z))")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]{1,128})>")
_FUNCTION_HEAD = re.compile(r"\s*<function=([^<>\s]{1,128})>")


def _read_function(raw: str, mark: str, tools: Schemas) -> TextCall | None:
    """Return a call whose text ends here; None if it is not whole."""
    text = raw.removesuffix("</tool_call>").rstrip() if mark == "<tool_call>" else mark + raw
    head = _FUNCTION_HEAD.match(text)
    if head is None or not text.endswith("</function>"):
        return None
    body = text[head.end() : -len("</function>")]
    fields = tools.get(head[1], {}).get("properties")
    schemas = fields if isinstance(fields, dict) else {}
    values: dict[str, object] = {}
    at = 0
    while (begun := _PARAMETER.match(body, at)) is not None:
        ended = _VALUE_END.search(body, begun.end())
        if ended is None or begun[1] in values:
            return None
        value = body[begun.end() : ended.start()].removeprefix("\n").removesuffix("\n")
        values[begun[1]] = _to_value(value, schemas.get(begun[1]), tools.get(head[1], {}))
        at = ended.end()
    if body[at:].strip():
        return None
    return TextCall(head[1], json.dumps(values, ensure_ascii=False))


def _to_value(text: str, schema: object, root: Mapping[str, object]) -> object:
    """Return the value that a text stands for by its schema; the text if the schema allows one, or is not known."""
    kinds = _find_kinds(schema, root, 0)
    word = text.strip()
    if "null" in kinds and word.lower() in ("null", "none"):
        return None
    if not kinds or "string" in kinds:
        return text
    if "boolean" in kinds and word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return read_strict_json(word)
    except NotJson:
        return text


def _find_kinds(schema: object, root: Mapping[str, object], depth: int) -> frozenset[str]:
    """Return the names of the types that a schema allows; none if it does not say."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return frozenset()
    kinds: set[str] = set()
    named = schema.get("type")
    kinds.update([named] if isinstance(named, str) else named if isinstance(named, list) else ())
    for value in schema.get("enum", [schema["const"]] if "const" in schema else []):
        kinds.add(_KINDS.get(type(value), "object"))
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        inner: object = root
        for step in reference[2:].split("/"):
            inner = inner.get(step) if isinstance(inner, dict) else None
        kinds |= _find_kinds(inner, root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(word)
        for choice in choices if isinstance(choices, list) else ():
            kinds |= _find_kinds(choice, root, depth + 1)
    return frozenset(kinds)


_DEEPEST = 8
_KINDS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
}


def count_prefix(text: str, words: tuple[str, ...]) -> int:
    """Return how many characters at the end of a text may begin one of the words.

    >>> count_prefix("Wait <to", ("<tool_call>",)), count_prefix("Wait", ("<tool_call>",))
    (3, 0)
    """
    longest = min(max(map(len, words)) - 1, len(text))
    for size in range(longest, 0, -1):
        end = text[-size:]
        if any(len(word) > size and word.startswith(end) for word in words):
            return size
    return 0
