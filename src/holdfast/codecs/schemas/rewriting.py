r"""Turns JSON that follows a converted schema into JSON that follows the original one.

A converted schema may have other names of properties, and may require a property that was optional:
the model then writes null for an absent one. A `RewriteNode` says how to undo both. `JsonRewriter`
does it while the text arrives, and `RewritingDecoder` for the values of a reply, so that nobody sees
the sent names. Only the name of a property is held back, and a null that may have to be removed. This
module must never change a value, and never make valid JSON of a text that is not JSON.

An object with a repeated name stays one: readers refuse it as ambiguous, and must still do so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.deltas import (
    Decoder,
    Delta,
    EndMissing,
    ErrorReceived,
    NoChoices,
    NotAReply,
    ReplyFinished,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.json_strict import NotJson, dump_json, read_value_at


class RewriteNode(Struct, eq=False):
    """The changes of one value of a converted schema and of the values inside it.

    The nodes of a recursive schema form cycles. A name is the one that is sent, except where it says
    otherwise.

    Args:
        names: the original name of each property that is sent under another name. A name that stands
            for itself here is sent, too, and is no other way to write a renamed property.
        optional: the properties whose null means that the property is absent.
        children: the nodes of properties.
        others: the node of all other properties.
        items: the node of the items of a list.
    """

    names: dict[str, str] = {}
    optional: set[str] = set()
    children: dict[str, RewriteNode] = {}
    others: RewriteNode | None = None
    items: RewriteNode | None = None


def rewrite_value(node: RewriteNode | None, value: object) -> object:
    """Return a JSON value with the original names, and without the nulls of absent properties.

    Args:
        node: the changes; None for no change.
        value: the value as the model wrote it. It is not changed.

    Raises:
        RecursionError: the value has more levels than the interpreter allows.

    >>> node = RewriteNode(names={"top": "$top"}, optional={"skip"})
    >>> rewrite_value(node, {"top": 5, "skip": None})
    {'$top': 5}
    """
    if node is None:
        return value
    if isinstance(value, list):
        return [rewrite_value(node.items, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    names = _Names(node)
    made: dict[str, object] = {}
    seen: set[str] = set()
    for name, inner in value.items():
        original, child = names.find(name)
        if names.is_optional(name):
            is_first = original not in seen
            seen.add(original)
            if inner is None and is_first:
                continue
        made[original] = rewrite_value(child, inner)
    return made


class Rewritings(Struct, frozen=True):
    """The changes in the values of one reply.

    Args:
        tools: the changes in the arguments of each tool that has any, by its name.
        output: the changes in a typed output that is the text of the reply.
    """

    tools: Mapping[str, RewriteNode] = {}
    output: RewriteNode | None = None


class _Names:
    """The names of the properties of a node: as they are sent, and the original ones."""

    __slots__ = ("_node", "_sent_names", "has_optional", "is_empty", "longest")

    def __init__(self, node: RewriteNode) -> None:
        self._node = node
        # A model also uses the original names, which stand in the calls of the history.
        self._sent_names = {original: sent for sent, original in node.names.items()}
        self.has_optional = bool(node.optional)
        known = (*node.names, *node.names.values(), *node.optional, *node.children)
        self.longest = _LONGEST_ESCAPE * max(map(len, known), default=0)
        """A longer name, as it is written, is not one of these."""
        self.is_empty = not known

    def is_optional(self, name: str) -> bool:
        """Whether a null of a property is removed."""
        sent = name if name in self._node.names else self._sent_names.get(name, name)
        return sent in self._node.optional

    def find(self, name: str) -> tuple[str, RewriteNode | None]:
        """Return the original name of a property, and the node of its value."""
        node = self._node
        original = node.names.get(name)
        sent = name if original is not None else self._sent_names.get(name, name)
        return name if original is None else original, node.children.get(sent, node.others)


class _Frame:
    """An object or a list that is not closed yet."""

    __slots__ = ("child", "count", "is_object", "names", "node", "removed", "seen")

    def __init__(self, node: RewriteNode | None, names: _Names | None, *, is_object: bool) -> None:
        self.node = node
        self.names = names
        """The names to look for; None if nothing in this object has another name or an absent value."""
        self.is_object = is_object
        self.child: RewriteNode | None = None
        """The node of the value that is being read."""
        self.count = 0
        """How many properties were kept."""
        self.seen: set[str] = set()
        """The optional properties so far."""
        self.removed: dict[str, str] = {}
        """The optional properties that were removed, with their text."""


_DEEPEST: Final = 512  # readers refuse a text with more levels
_LONGEST_ESCAPE: Final = 12  # a surrogate pair: \uXXXX\uXXXX
_LONGEST_SPACE: Final = 256
_LONGEST_WORD: Final = 64
_SPACE: Final = " \t\r\n"
_OPENING = re.compile(r"[{\[]")
_BLANKS = re.compile(r"[ \t\r\n]+")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_HEX = re.compile(r"[0-9a-fA-F]+")
_WORD_CHARACTERS = re.compile(r"[A-Za-z0-9+.\-]+")
_WORD = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MORE_DIGITS = re.compile(r"(?<=[0-9][0-9])[0-9]+")
_NULL: Final = "null"


class JsonRewriter:
    r"""Rewrites the pieces of one JSON text as they arrive.

    The result is the same for all sizes of the pieces. Text around the value is not changed; if another
    value follows, it is rewritten too. A text is not changed from the place where it is not JSON, or has
    more than 512 levels. The time is proportional to the length of the text, and the memory does not grow with it.

    Args:
        node: the changes of the value.

    >>> rewriter = JsonRewriter(RewriteNode(names={"top": "$top"}, optional={"skip"}))
    >>> rewriter.feed('{"to'), rewriter.feed('p": 5, "skip": nu'), rewriter.feed("ll}")
    ('{', '"$top": 5', '}')
    >>> rewriter.close()
    ''
    """

    __slots__ = (
        "_escape_left", "_frames", "_held_rest", "_known_names", "_name_pieces", "_name_size",
        "_node", "_original", "_out", "_separator", "_state", "_word",
    )  # fmt: skip

    def __init__(self, node: RewriteNode) -> None:
        self._node = node
        self._state = "outside"
        self._frames: list[_Frame] = []
        self._out: list[str] = []
        self._known_names: dict[int, _Names] = {}
        # The text that is held back, in this order: a comma and blanks, a name, the rest up to a null.
        self._separator = ""
        self._name_pieces: list[str] = []
        self._name_size = 0
        self._held_rest: str | None = None
        self._original = ""
        # How much of an escape is missing: -1 for the character after the backslash.
        self._escape_left = 0
        self._word = ""

    def feed(self, text: str) -> str:
        """Return the next piece of the rewritten text; it may be empty."""
        at, end = 0, len(text)
        while at < end:
            at = _STATES[self._state](self, text, at)
        made = "".join(self._out)
        self._out.clear()
        return made

    def close(self) -> str:
        """Return the text that is held back, since no more of it is expected; if it follows, it is not changed."""
        if self._state == "null":
            self._held_rest = (self._held_rest or "") + self._word
        self._release(with_comma=False)
        made = "".join(self._out)
        self._out.clear()
        if made:
            self._state = "unchanged"
        return made

    def _pass(self, text: str, at: int) -> int:
        self._out.append(text[at:])
        return len(text)

    def _give_up(self, text: str, at: int) -> int:
        """Pass on everything from here: the text is not JSON."""
        self._release(with_comma=True)
        self._state = "unchanged"
        return self._pass(text, at)

    def _release(self, *, with_comma: bool) -> None:
        """Pass on the text that is held back, as far as it was read.

        Args:
            with_comma: keep a comma even if all properties before it were removed.
        """
        if with_comma:
            self._out.append(self._separator)
        else:
            self._out.append(self._visible_separator())
        self._out += self._name_pieces
        self._out.append(self._held_rest or "")
        self._forget_held()

    def _forget_held(self) -> None:
        self._separator, self._held_rest = "", None
        self._name_pieces, self._name_size = [], 0

    def _visible_separator(self) -> str:
        """Return the comma and blanks before a property; no comma before the first one that is kept."""
        if self._separator.startswith(",") and not self._frames[-1].count:
            return self._separator[1:]
        return self._separator

    def _seek_opening(self, text: str, at: int) -> int:
        found = _OPENING.search(text, at)
        if found is None:
            return self._pass(text, at)
        self._out.append(text[at : found.start()])
        return self._open(text, found.start(), self._node)

    def _open(self, text: str, at: int, node: RewriteNode | None) -> int:
        if len(self._frames) == _DEEPEST:
            return self._give_up(text, at)
        is_object = text[at] == "{"
        names = self._find_names(node) if node is not None and is_object else None
        self._frames.append(_Frame(node, names, is_object=is_object))
        self._out.append(text[at])
        self._state = "first"
        return at + 1

    def _find_names(self, node: RewriteNode) -> _Names | None:
        names = self._known_names.get(id(node))
        if names is None:
            names = self._known_names[id(node)] = _Names(node)
        return None if names.is_empty and node.others is None else names

    def _after_opening(self, text: str, at: int) -> int:
        if text[at] in _SPACE:
            return self._add_blanks(text, at)
        if text[at] in "}]":
            return self._close_bracket(text, at)
        self._state = "name" if self._frames[-1].is_object else "value"
        return at

    def _add_blanks(self, text: str, at: int) -> int:
        """Read blanks, which are held back with the property that they belong to."""
        end = _match_end(_BLANKS, text, at)
        if self._separator or self._holds_separators():
            room = _LONGEST_SPACE - len(self._separator)
            self._separator += text[at : min(end, at + max(room, 0))]
        else:
            self._out.append(text[at:end])
        return end

    def _holds_separators(self) -> bool:
        """Whether the next property may have to be removed, with the comma before it."""
        names = self._frames[-1].names
        return names is not None and names.has_optional

    def _close_bracket(self, text: str, at: int) -> int:
        frame = self._frames[-1]
        if text[at] != ("}" if frame.is_object else "]"):
            return self._give_up(text, at)
        self._release(with_comma=True)
        self._out.append(text[at])
        self._frames.pop()
        self._state = "after" if self._frames else "outside"
        return at + 1

    def _before_name(self, text: str, at: int) -> int:
        if text[at] in _SPACE:
            return self._add_blanks(text, at)
        if text[at] != '"':
            return self._give_up(text, at)
        if self._frames[-1].names is None:
            self._frames[-1].child = None
            self._out.append('"')
            self._state = "passing name"
        else:
            self._name_pieces, self._name_size = ['"'], 1
            self._state = "held name"
        return at + 1

    def _in_passing_name(self, text: str, at: int) -> int:
        at = self._read_characters(text, at, self._out)
        return self._end_string(text, at, "colon")

    def _end_string(self, text: str, at: int, following: str) -> int:
        """Pass on the quotation mark at the end of a string, if it has arrived."""
        if at == len(text):
            return at
        self._out.append('"')
        self._state = following
        return at + 1

    def _in_held_name(self, text: str, at: int) -> int:
        pieces = self._name_pieces
        start = at
        at = self._read_characters(text, at, pieces)
        if self._state == "unchanged":
            return at
        self._name_size += at - start
        names = self._frames[-1].names
        if names is not None and self._name_size - 1 > names.longest:
            # It is none of the names, so that nothing of it has to be held back.
            self._frames[-1].child = self._frames[-1].node.others if self._frames[-1].node else None
            self._keep_property("".join(pieces))
            self._state = "passing name"
            return at
        if at == len(text):
            return at
        pieces.append('"')
        return self._end_name(text, at + 1)

    def _end_name(self, text: str, at: int) -> int:
        written = "".join(self._name_pieces)
        frame = self._frames[-1]
        try:
            name = str(read_value_at(written, 0)[0])
        except NotJson:
            return self._give_up(text, at)
        names = frame.names
        original, frame.child = names.find(name) if names is not None else (name, None)
        rendered = written if original == name else dump_json(original)
        self._state = "colon"
        if names is None or not names.is_optional(name):
            self._keep_property(rendered)
            return at
        self._original = original
        self._name_pieces = [rendered]
        self._held_rest = ""
        return at

    def _keep_property(self, rendered: str, rest: str = "") -> None:
        """Pass on the separator and the name of a property that stays."""
        self._out += (self._visible_separator(), rendered, rest)
        self._frames[-1].count += 1
        self._forget_held()

    def _expect_colon(self, text: str, at: int) -> int:
        if text[at] in _SPACE:
            return self._add_rest(text, at, _match_end(_BLANKS, text, at))
        if text[at] != ":":
            return self._give_up(text, at)
        self._state = "value"
        return self._add_rest(text, at, at + 1)

    def _add_rest(self, text: str, at: int, end: int) -> int:
        """Pass on the text between a name and its value, or hold it back with the name."""
        if self._held_rest is None:
            self._out.append(text[at:end])
        else:
            room = max(_LONGEST_SPACE - len(self._held_rest), int(text[at] == ":"))
            self._held_rest += text[at : min(end, at + room)]
        return end

    def _before_value(self, text: str, at: int) -> int:
        head = text[at]
        if head in _SPACE:
            return self._add_rest(text, at, _match_end(_BLANKS, text, at))
        if self._held_rest is not None:
            if head == "n":
                self._word, self._state = "", "null"
                return at
            self._keep_optional()
        frame = self._frames[-1]
        if not frame.is_object:
            frame.child = None if frame.node is None else frame.node.items
        if head in "{[":
            return self._open(text, at, frame.child)
        if head == '"':
            self._out.append('"')
            self._state = "text"
            return at + 1
        if _WORD_CHARACTERS.match(head):
            self._word, self._state = "", "word"
            return at
        return self._give_up(text, at)

    def _keep_optional(self) -> None:
        """Pass on an optional property. If it was removed before, its name is repeated as in the text."""
        frame, rest = self._frames[-1], self._held_rest or ""
        rendered, original = "".join(self._name_pieces), self._original
        if original in frame.removed:
            rendered = f"{frame.removed.pop(original)},{rendered}"
        frame.seen.add(original)
        self._keep_property(rendered, rest)

    def _in_null(self, text: str, at: int) -> int:
        """Read the null of an optional property; it is removed if the property stands there once."""
        if len(self._word) < len(_NULL):
            if text[at] != _NULL[len(self._word)]:
                return self._give_up_word(text, at)
            self._word += text[at]
            return at + 1
        if text[at] not in _SPACE and text[at] not in ",}":
            return self._give_up_word(text, at)
        frame = self._frames[-1]
        if self._original in frame.seen:
            self._keep_optional()
            self._out.append(_NULL)
        else:
            frame.seen.add(self._original)
            frame.removed[self._original] = f"{self._name_pieces[0]}{self._held_rest}{_NULL}"
            self._forget_held()
        self._state = "after"
        return at

    def _give_up_word(self, text: str, at: int) -> int:
        self._held_rest = (self._held_rest or "") + self._word
        return self._give_up(text, at)

    def _in_word(self, text: str, at: int) -> int:
        """Read a number, true, false or null. Of many digits, only the first two are remembered."""
        end = _match_end(_WORD_CHARACTERS, text, at)
        if end > at:
            self._out.append(text[at:end])
            self._word = _MORE_DIGITS.sub("", self._word + text[at:end])
            if len(self._word) <= _LONGEST_WORD:
                return end
        elif _WORD.fullmatch(self._word):
            self._state = "after"
            return end
        return self._give_up(text, end)

    def _in_text(self, text: str, at: int) -> int:
        at = self._read_characters(text, at, self._out)
        return self._end_string(text, at, "after")

    def _read_characters(self, text: str, at: int, pieces: list[str]) -> int:
        """Add characters of a string to the pieces, up to its end; at an invalid one the text is passed on."""
        end = len(text)
        while at < end:
            if self._escape_left:
                stop = self._read_escape(text, at)
            elif text[at] == '"':
                return at
            elif text[at] == "\\":
                self._escape_left = -1
                stop = at + 1
            else:
                stop = _match_end(_PLAIN, text, at)
            if stop == at:
                return self._give_up(text, at)
            pieces.append(text[at:stop])
            at = stop
        return at

    def _read_escape(self, text: str, at: int) -> int:
        """Return where the part of an escape ends that stands here; `at` if it is not one."""
        if self._escape_left < 0:
            if text[at] not in '"\\/bfnrtu':
                return at
            self._escape_left = 4 if text[at] == "u" else 0
            return at + 1
        found = _HEX.match(text, at, at + self._escape_left)
        if found is None:
            return at
        self._escape_left -= found.end() - at
        return found.end()

    def _after_value(self, text: str, at: int) -> int:
        head = text[at]
        if head in _SPACE:
            end = _match_end(_BLANKS, text, at)
            self._out.append(text[at:end])
            return end
        if head in "}]":
            return self._close_bracket(text, at)
        if head != ",":
            return self._give_up(text, at)
        if self._holds_separators():
            self._separator = ","
        else:
            self._out.append(",")
        self._state = "name" if self._frames[-1].is_object else "value"
        return at + 1


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


_STATES: Final = {
    "unchanged": JsonRewriter._pass,
    "outside": JsonRewriter._seek_opening,
    "first": JsonRewriter._after_opening,
    "name": JsonRewriter._before_name,
    "passing name": JsonRewriter._in_passing_name,
    "held name": JsonRewriter._in_held_name,
    "colon": JsonRewriter._expect_colon,
    "value": JsonRewriter._before_value,
    "null": JsonRewriter._in_null,
    "word": JsonRewriter._in_word,
    "text": JsonRewriter._in_text,
    "after": JsonRewriter._after_value,
}


_ENDS = (ReplyFinished, StreamEnded, EndMissing, ErrorReceived, NotAReply, NoChoices)


class RewritingDecoder:
    r"""A decoder that returns the values of a reply as the original schemas describe them.

    Args:
        inner: decodes the reply.
        rewritings: the changes, which the codec returned with the request.

    >>> class Calls:
    ...     def feed(self, data):
    ...         return [ToolCallDelta(0, "1", "find", '{"top": 5}')]
    ...     def close(self):
    ...         return []
    >>> decoder = RewritingDecoder(Calls(), Rewritings({"find": RewriteNode(names={"top": "$top"})}))
    >>> decoder.feed(b"")[0].arguments
    '{"$top": 5}'
    """

    __slots__ = ("_calls", "_inner", "_nameless", "_output", "_texts", "_tools")

    def __init__(self, inner: Decoder, rewritings: Rewritings) -> None:
        self._inner = inner
        self._tools = rewritings.tools
        self._output = rewritings.output
        self._calls: dict[int, JsonRewriter | None] = {}
        self._texts: dict[int, JsonRewriter] = {}
        self._nameless: dict[int, list[str]] = {}
        """The arguments of calls whose name has not arrived."""

    def feed(self, data: bytes) -> list[Delta]:
        """Return the rewritten deltas that these bytes complete."""
        return self._rewrite(self._inner.feed(data))

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        made = self._rewrite(self._inner.close())
        self._release(made)
        return made

    def _rewrite(self, deltas: list[Delta]) -> list[Delta]:
        made: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, ToolCallDelta):
                self._take_call(delta, made)
            elif isinstance(delta, TextDelta) and self._output is not None:
                rewriter = self._texts.get(delta.index)
                if rewriter is None:
                    rewriter = self._texts[delta.index] = JsonRewriter(self._output)
                if text := rewriter.feed(delta.text):
                    made.append(TextDelta(text, delta.index))
            else:
                if isinstance(delta, _ENDS):
                    self._release(made)
                made.append(delta)
        return made

    def _take_call(self, delta: ToolCallDelta, made: list[Delta]) -> None:
        index, arguments = delta.index, delta.arguments
        if index not in self._calls:
            if not delta.name:
                self._nameless.setdefault(index, []).append(arguments)
                if delta.id or delta.extra:
                    made.append(replace(delta, arguments=""))
                return
            node = self._tools.get(delta.name)
            self._calls[index] = None if node is None else JsonRewriter(node)
            arguments = "".join(self._nameless.pop(index, ())) + arguments
        rewriter = self._calls[index]
        if rewriter is not None:
            arguments = rewriter.feed(arguments)
        if arguments == delta.arguments:
            made.append(delta)
        elif arguments or delta.id or delta.name or delta.extra:
            made.append(replace(delta, arguments=arguments))

    def _release(self, made: list[Delta]) -> None:
        """Add the text that was held back: the reply ends, so that no more of it follows."""
        for index, pieces in self._nameless.items():
            if arguments := "".join(pieces):
                made.append(ToolCallDelta(index, arguments=arguments))
        self._nameless.clear()
        for index, rewriter in self._calls.items():
            if rewriter is not None and (rest := rewriter.close()):
                made.append(ToolCallDelta(index, arguments=rest))
        for index, rewriter in self._texts.items():
            if rest := rewriter.close():
                made.append(TextDelta(rest, index))
