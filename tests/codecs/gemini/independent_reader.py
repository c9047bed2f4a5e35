"""A second, smaller reading of this wire's bodies, to compare with: the json module and nothing else."""

import json
import re
from typing import Any

BLOCKED = {"", None, "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"}
NUMBERS = {1: "STOP", 2: "MAX_TOKENS"}


def chunks(body: bytes) -> list[dict[str, Any]] | None:
    """The objects of a body, however it is framed; None when it is not JSON."""
    text = body.decode("utf-8")
    if re.match(r"\s*(data|event|id|retry)?:", text):
        lines = re.findall(r"^data: ?(.*?)\r?$", text, re.MULTILINE)
        return [json.loads(line) for line in lines if line.strip()]
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, list) else [value]


class Reading:
    """What a list of chunks says, put together."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.text = self.thoughts = self.finish = ""
        self.calls: list[tuple[str, str, Any]] = []
        self.signatures: list[str] = []
        self.media = self.verbatim = 0
        self.usage: dict[str, int] = {}
        self.error = any("error" in value for value in objects)
        self._partial: dict[str, Any] | None = None
        for value in objects:
            self._chunk(value)

    def _chunk(self, value: dict[str, Any]) -> None:
        usage = value.get("usageMetadata") or {}
        if any(name.endswith("TokenCount") for name in usage):
            self.usage = usage
        reason = (value.get("promptFeedback") or {}).get("blockReason")
        if reason not in BLOCKED:
            self.finish = reason
        for candidate in (value.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or []:
                self._part(part)
            if reason := candidate.get("finishReason"):
                self.finish = NUMBERS.get(reason, reason)

    def _part(self, part: dict[str, Any]) -> None:
        if "thoughtSignature" in part:
            self.signatures.append(part["thoughtSignature"])
        if "text" in part:
            if part.get("thought"):
                self.thoughts += part["text"]
            else:
                self.text += part["text"]
        elif "functionCall" in part:
            self._call(part["functionCall"])
        elif "inlineData" in part or "fileData" in part:
            self.media += 1
        else:
            self.verbatim += 1

    def _call(self, call: dict[str, Any]) -> None:
        if "name" in call:
            self.calls.append((call.get("id", ""), call["name"], dict(call.get("args") or {})))
        for entry in call.get("partialArgs") or []:
            name = entry["jsonPath"].removeprefix("$.")
            args = self.calls[-1][2]
            args[name] = args.get(name, "") + entry["stringValue"]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Input, output, cached input, reasoning."""
        read = self.usage.get
        thoughts = read("thoughtsTokenCount") or 0
        return (
            (read("promptTokenCount") or 0) + (read("toolUsePromptTokenCount") or 0),
            (read("candidatesTokenCount") or 0) + thoughts,
            read("cachedContentTokenCount") or 0,
            thoughts,
        )
