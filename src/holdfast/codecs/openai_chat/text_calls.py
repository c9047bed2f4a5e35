"""Reads tool calls that a model writes into its text, in the one form that a profile names.

Servers normally parse these forms themselves. One that was started without its parser sends them as text:

- "hermes": `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, also of Qwen 2.5 and Qwen 3;
- "llama3_json": `<|python_tag|>{"name": ..., "parameters": {...}}`, or only the object, as the whole reply;
- "mistral": `[TOOL_CALLS][{"name": ..., "arguments": {...}}]`, or `[TOOL_CALLS]name[ARGS]{...}`;
- "qwen3_coder": `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`.

The names are those of vLLM's parsers. A form inside of code or quotes is text. A call that is cut, or that can
be read in two ways, is returned with arguments that are not JSON, so that it never runs and the model is told.
This module never repairs a call, and its work is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.codecs.openai_chat.call_scans import (
    BARE,
    FUNCTION,
    LONGEST_GAP,
    CallScan,
    HermesScan,
    LlamaScan,
    MistralScan,
    QwenScan,
    Schemas,
    TextCall,
    count_prefix,
)


class TextCallReader:
    """Separates the calls in the text of one reply from the rest.

    Args:
        form: the form of the calls.
        tools: the schemas of the tools that were offered, by their names; None if they are not known.

    >>> reader = TextCallReader("hermes", None)
    >>> reader.feed('Wait. <tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>')
    'Wait. '
    >>> reader.close()
    ''
    >>> reader.calls
    [TextCall(name='look', arguments='{"at": 1}')]
    """

    __slots__ = (
        "_begun",
        "_code",
        "_form",
        "_is_closable",
        "_is_suspect",
        "_last",
        "_pending",
        "_scan",
        "_tools",
        "calls",
    )

    def __init__(self, form: str, tools: Schemas | None) -> None:
        self._form = _FORMS[form]
        self._tools = tools
        self._pending = ""
        self._scan: CallScan | None = None
        self._begun = False
        self._is_closable = False
        # The characters that close the code in which the text is; "" outside of code.
        self._code = ""
        self._last = ""
        # The text behind a mark inside of code that may not be code.
        self._is_suspect = False
        self.calls: list[TextCall] = []

    def feed(self, text: str) -> str:
        """Return the text to show, as far as it is known to be no part of a call."""
        shown: list[str] = []
        rest: str | None = text
        while rest:
            if self._scan is not None:
                rest = self._feed_scan(self._scan, rest, shown)
            else:
                rest = self._read_text(self._pending + rest, shown)
        return "".join(shown)

    def close(self, *, cut: bool = False) -> str:
        """End the reply, and return the text that was held back.

        Args:
            cut: the text was cut, so the beginning of a mark at its end is a cut call.
        """
        shown, self._pending = self._pending, ""
        if self._form.tokens.fullmatch(shown) and shown[0] in "`~":
            self._read_code(shown)
        if cut and self._form.count_mark(shown):
            shown = ""
            self._is_suspect = True
        if self._scan is not None:
            scan, self._scan = self._scan, None
            scan.end()
            self.calls += scan.calls
            shown += scan.text
        self._refuse_suspect()
        return shown

    @property
    def holds_back(self) -> bool:
        """Whether text is held back, or a call was found."""
        return bool(self._pending or self._scan is not None or self.calls or self._is_suspect)

    def _feed_scan(self, scan: CallScan, text: str, shown: list[str]) -> str | None:
        rest = scan.feed(text)
        if rest is None:
            return None
        self._scan = None
        self.calls += scan.calls
        self._is_closable = scan.is_closable
        self._last = scan.text[-1:]
        shown.append(scan.text)
        return rest

    def _read_text(self, text: str, shown: list[str]) -> str | None:
        """Show text up to the next mark of a call; return the rest behind it, or None."""
        self._pending = ""
        if self._is_closable or not self._begun:
            rest = self._drop_end_tag(text) if self._is_closable else self._begin(text)
            if rest is None or self._scan is not None:
                return rest
            text = rest
        for found in self._form.tokens.finditer(text):
            token, start = found[0], found.start()
            if token[0] in "`~" and found.end() == len(text) and len(token) < _LONGEST_RUN:
                break  # the run may go on
            if token in self._form.ends:
                self._take_stray_end(token)
            elif token not in self._form.marks:
                self._read_code(token)
            elif self._code:
                self._is_suspect = True
            elif (text[start - 1] if start else self._last) not in _QUOTES:
                shown.append(text[:start])
                self._scan = self._form.make(token, False, self._tools)
                return text[found.end() :]
        end = len(text) - self._form.count_held(text)
        shown.append(text[:end])
        self._pending = text[end:]
        self._last = text[end - 1] if end else self._last
        return None

    def _begin(self, text: str) -> str | None:
        """Begin the text, which may be a call without a mark; None if that is not known."""
        rest = text.lstrip()
        gap = len(text) - len(rest)
        is_near = self._form.begins_bare and gap <= LONGEST_GAP
        if is_near and not rest:
            self._pending = text
            return None
        self._begun = True
        if is_near and rest[0] == "{":
            self._scan = self._form.make(text[:gap], True, self._tools)
            return rest
        return text

    def _drop_end_tag(self, text: str) -> str | None:
        """Drop the end tag of a call whose opening tag the model left out; None if it may go on."""
        rest = text.lstrip()
        is_near = len(text) - len(rest) <= LONGEST_GAP
        if is_near and len(rest) < len(_END_TAG) and _END_TAG.startswith(rest):
            self._pending = text
            return None
        self._is_closable = False
        return rest[len(_END_TAG) :] if is_near and rest.startswith(_END_TAG) else text

    def _read_code(self, token: str) -> None:
        """Follow Markdown: a run of backticks is closed by an equal one, in the same line if it is short."""
        if token.isspace():  # a line ends
            if self._code and len(self._code) < _FENCE:
                self._code = ""
                self._refuse_suspect()
        elif not self._code:
            self._code = token
        elif token[0] == self._code[0] and (
            len(token) == len(self._code) or len(token) > len(self._code) >= _FENCE
        ):
            self._code, self._is_suspect = "", False

    def _take_stray_end(self, token: str) -> None:
        """An end tag without its beginning shows that the call before it had other ends inside of it."""
        if self._code or not self.calls:
            return
        last = self.calls[-1]
        self.calls[-1] = TextCall(last.name, token + last.arguments)

    def _refuse_suspect(self) -> None:
        if self._is_suspect:
            self._is_suspect = False
            self._refuse()

    def _refuse(self) -> None:
        self.calls.append(TextCall("", self._form.marks[0]))


_END_TAG = "</tool_call>"
_FENCE = 3
_LONGEST_RUN = 16
_QUOTES = frozenset("\"'\u201c\u2018\u00ab")


class _CallForm(Struct, frozen=True):
    """How a form is found.

    Args:
        marks: they begin a call.
        make: makes a scan of what follows a mark, and is told whether there is no mark.
        tokens: everything that matters in a text: marks, end tags, code and lines.
        ends: the end tags that never stand alone.
        begins_bare: a call may be the beginning of the reply, without a mark.
    """

    marks: tuple[str, ...]
    make: Callable[[str, bool, Schemas | None], CallScan]
    tokens: re.Pattern[str]
    ends: tuple[str, ...] = ()
    begins_bare: bool = False

    def count_held(self, text: str) -> int:
        """Return how many characters at the end of a text may belong to a mark or to a run of code."""
        last = text[-1:]
        run = len(text) - len(text.rstrip(last)) if last in ("`", "~") else 0
        if 0 < run < _LONGEST_RUN:
            return run
        return count_prefix(text, (*self.marks, *self.ends))

    def count_mark(self, text: str) -> int:
        """Return how many characters at the end of a text may begin a mark."""
        return count_prefix(text, self.marks)


def _make_call_form(
    marks: tuple[str, ...],
    make: Callable[[str, bool, Schemas | None], CallScan],
    ends: tuple[str, ...] = (),
    *,
    begins_bare: bool = False,
) -> _CallForm:
    words = "|".join(map(re.escape, (*marks, *ends)))
    tokens = re.compile(rf"{words}|`{{1,{_LONGEST_RUN}}}|~{{3,{_LONGEST_RUN}}}|\n")
    return _CallForm(marks, make, tokens, ends, begins_bare)


_FORMS: Final[Mapping[str, _CallForm]] = {
    "hermes": _make_call_form(("<tool_call>",), lambda mark, _bare, _tools: HermesScan(mark)),
    "llama3_json": _make_call_form(
        (BARE,),
        lambda mark, bare, tools: LlamaScan(mark, bare=bare, tools=tools),
        begins_bare=True,
    ),
    "mistral": _make_call_form(("[TOOL_CALLS]",), lambda mark, _bare, _tools: MistralScan(mark)),
    "qwen3_coder": _make_call_form(
        ("<tool_call>", FUNCTION),
        lambda mark, _bare, tools: QwenScan(mark, tools),
        ("</tool_call>", "</function>", "</parameter>"),
    ),
}
