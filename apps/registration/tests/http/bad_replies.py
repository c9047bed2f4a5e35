"""What models have really sent in place of a reply that can be read, as a wrapper of the emulated model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast import ToolCall
from holdfast.testing.emulator import EmulatedRequest, call
from registration.emulators.model import choose_reply

WORDS: Mapping[str, Callable[[str], str]] = {
    "cut in the middle": lambda text: text[: len(text) // 2],
    "cut before its end": lambda text: text[:-1],
    "in a fence": lambda text: f"```json\n{text}\n```",
    "in a fence that is not closed": lambda text: f"```json\n{text}",
    "with words around": lambda text: f"Sure! Here is the JSON:\n{text}\nLet me know if it helps.",
    "twice": lambda text: f"{text}\n{text}",
    "two different ones": lambda text: text + '{"agent_final_response": "Goodbye."}',
    "with a comma too many": lambda text: text[:-1] + ",}",
    "with single quotes": lambda text: str(msgspec.json.decode(text)),
    "with a comment": lambda text: text[:-1] + " // the answer\n}",
    "as a string": lambda text: msgspec.json.encode(text).decode(),
    "in a list": lambda text: f"[{text}]",
    "without its text": lambda _text: '{"routine_number": 3}',
    "with an empty text": lambda _text: '{"agent_final_response": "", "routine_number": 3}',
    "with a number as text": lambda _text: '{"agent_final_response": 3, "routine_number": 3}',
    "with a text as number": lambda text: text[:-1].replace(":", ': "', 1) + '"}',
    "with another field": lambda text: text[:-1] + ', "thought": "hm"}',
    "with another step": lambda _text: (
        '{"agent_final_response": "Now we pay.", "routine_number": 29}'
    ),
    "under another name": lambda text: text.replace("agent_final_response", "response"),
    "null": lambda _text: "null",
    "nothing": lambda _text: "",
    "spaces": lambda _text: " \n ",
    "a page": lambda _text: "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>",
    "half a page": lambda _text: "<html><head><title>Just a mom",
    "prose": lambda _text: "Of course, I am happy to help with that.",
    "an error": lambda _text: '{"error": {"message": "The server had an error", "code": null}}',
    "a refusal": lambda _text: "I'm sorry, but I can't assist with that.",
    "with a NUL": lambda text: "\0" + text,
    "with a mark of byte order": lambda text: "\ufeff" + text,
    "with half a character": lambda text: text[:-2] + '\\ud83d"}',
    "deep": lambda _text: '{"a":' * 200,
}
"""Replies in place of words, by what is wrong."""


def _raw(arguments: str, name: str = "submit_answer") -> list[ToolCall]:
    return [ToolCall(id="", name=name, arguments=arguments)]


READINGS: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "prose": lambda read: f"The answer is {read.get('value')}.",
    "its arguments as text": lambda read: msgspec.json.encode(read).decode(),
    "cut arguments": lambda read: _raw(msgspec.json.encode(read).decode()[:-3]),
    "no arguments": lambda _read: _raw(""),
    "an empty object": lambda _read: _raw("{}"),
    "a list": lambda read: _raw(msgspec.json.encode([read]).decode()),
    "null": lambda _read: _raw("null"),
    "a word for whether": lambda read: [call("submit_answer", {**read, "understood": "yes"})],
    "a number for the value": lambda read: [call("submit_answer", {**read, "value": 7})],
    "an object for the value": lambda read: [call("submit_answer", {**read, "value": {"is": 1}})],
    "no value": lambda _read: [call("submit_answer", {"understood": True})],
    "not understood": lambda _read: [call("submit_answer", {"understood": False})],
    "another tool": lambda read: [call("save_answer", read)],
    "a tool of the server": lambda _read: [call("request_payment", {})],
    "nothing": lambda _read: "",
    "a page": lambda _read: "<html><body>504 Gateway Time-out</body></html>",
    "a comment behind": lambda read: _raw(msgspec.json.encode(read).decode() + " // done"),
    "single quotes": lambda read: _raw(str(read)),
}
"""Replies in place of what was read, by what is wrong."""


class BadReplies:
    """The emulated model, of which a share of the replies is bad; the same ones for the same seed.

    Args:
        share: from 0 to 1.
        seed: of the chance.
    """

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._rng = random.Random(seed)
        self.happened: Counter[str] = Counter()

    def __call__(self, request: EmulatedRequest) -> object:
        """Return a reply."""
        good = choose_reply(request)
        if self._rng.random() >= self._share:
            return good
        if isinstance(good, str):
            kind = self._rng.choice(list(WORDS))
            self.happened[f"words: {kind}"] += 1
            return WORDS[kind](good)
        (made,) = good
        kind = self._rng.choice(list(READINGS))
        self.happened[f"reading: {kind}"] += 1
        return READINGS[kind](msgspec.json.decode(made.arguments))
