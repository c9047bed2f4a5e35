"""The labelled errors of the corpus, as failures that a wire can classify, and how labels map."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.corpus import corpus

from holdfast.codecs.anthropic.errors import classify as anthropic
from holdfast.codecs.gemini.errors import classify as gemini
from holdfast.codecs.openai_chat.errors import classify as openai_chat
from holdfast.codecs.openai_responses.errors import classify as openai_responses
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import ErrorInfo

ROOT = Path(__file__).parents[2]

ALLOWED: dict[str, set[Category]] = {
    "invalid_request": {Category.CLIENT_ERROR},
    "not_found": {Category.CLIENT_ERROR},
    "request_too_large": {Category.CLIENT_ERROR},
    "auth": {Category.AUTH_ERROR},
    "permission": {Category.AUTH_ERROR},
    "rate_limit": {Category.RATE_LIMIT_RETRYABLE},
    "quota": {Category.RATE_LIMIT_TERMINAL},
    "overloaded": {Category.SERVER_ERROR, Category.TRANSIENT},
    "server_error": {Category.SERVER_ERROR, Category.TRANSIENT},
    "content_policy": {Category.CONTENT_FILTERED},
    "timeout": {Category.TIMEOUT},
    "model_output_invalid": {Category.INVALID_RESPONSE},
    "model_not_found": {Category.MODEL_NOT_FOUND},
    "context_window": {Category.CONTEXT_WINDOW},
}
"""Label -> the categories that say the same."""

WIRES: dict[str, Callable[[Failure], ErrorInfo]] = {
    "openai_responses": openai_responses,
    "anthropic_messages": anthropic,
    "anthropic_complete_legacy": anthropic,
    "anthropic_count_tokens": anthropic,
    "gemini": gemini,
    "gemini_count_tokens": gemini,
}
_BY_PROVIDER = {"anthropic": anthropic, "google": gemini, "google_vertex": gemini}


@dataclass(frozen=True)
class Labelled:
    """One labelled error and one way in which it can reach us."""

    row: dict[str, Any]
    failure: Failure
    recorded: bool

    def classify(self) -> ErrorInfo:
        wire = WIRES.get(self.row["dialect"]) or _BY_PROVIDER.get(self.row["provider"], openai_chat)
        return wire(self.failure)

    @property
    def allowed(self) -> set[Category]:
        found = set().union(*(ALLOWED[label] for label in self.row["accept"]))
        # A rate limit that no wait mends is what RATE_LIMIT_TERMINAL means.
        if "rate_limit" in self.row["accept"] and not self.row["retryable"]:
            found.add(Category.RATE_LIMIT_TERMINAL)
        return found

    def problem(self) -> str:
        """What is wrong with our answer; empty when nothing is."""
        info = self.classify()
        if info.category not in self.allowed:
            return f"{info.category.value}, labelled {'|'.join(self.row['accept'])}"
        if info.category.is_retryable is not self.row["retryable"]:
            return f"{info.category.value}, labelled retryable={self.row['retryable']}"
        return ""

    @property
    def title(self) -> str:
        row = self.row
        words = (row["message"] or "")[:90]
        return f"{row['provider']} {row['status']} {row['type']} {row['code']} {words!r}"


@cache
def labelled() -> tuple[Labelled, ...]:
    """Every labelled error as its wire would write it, and as it was recorded where it was."""
    rows = [
        json.loads(line) for line in (corpus() / "errors.jsonl").read_text("utf-8").splitlines()
    ]
    bodies = _recorded({name for row in rows for name in row["corpus_ids"]})
    cases = []
    for row in rows:
        cases.append(Labelled(row, _written(row), recorded=False))
        cases.extend(
            Labelled(row, _from_wire(row, bodies[name]), recorded=True)
            for name in row["corpus_ids"]
            if name in bodies
        )
    return tuple(cases)


def _recorded(names: set[str]) -> dict[str, dict[str, Any]]:
    with gzip.open(corpus() / "wire.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = (json.loads(line) for line in lines)
        return {row["id"]: row["response"] for row in rows if row["id"] in names}


def _from_wire(row: dict[str, Any], response: dict[str, Any]) -> Failure:
    headers = {name.lower(): value for name, value in response["headers"].items()}
    body = response["body"]
    if row["in_stream"] and "data:" in body:
        lines = [line[5:] for line in body.splitlines() if line.startswith("data:")]
        body = next(line for line in lines if "error" in line and row["message"][:20] in line)
    status = None if row["in_stream"] else response["status"]
    return Failure(provider=row["provider"], status=status, headers=headers, body=body.encode())


def _written(row: dict[str, Any]) -> Failure:
    """Return the row's fields in the form of its wire, with a wait in the place that the row names."""
    headers = {name.lower(): value for name, value in (row["headers"] or {}).items()}
    place = row["retry_delay_at"] or ""
    if "header" in place and "text" not in place:
        headers["retry-after"] = "7"
    elif place.startswith("retry-after-ms"):
        headers["retry-after-ms"] = "7000"
    status = None if row["in_stream"] else row["status"]
    body = json.dumps(_shape(row, place)).encode()
    if row["message"].startswith("<!"):
        body = row["message"].encode()
    return Failure(provider=row["provider"], status=status, headers=headers, body=body)


def _shape(row: dict[str, Any], place: str) -> object:
    message, kind, code = row["message"], row["type"], row["code"]
    if row["provider"].startswith("google") and kind != "invalid_request_error":
        number, _, reason = (code or "").partition("/")
        details: list[dict[str, Any]] = [{"reason": reason}] if reason else []
        if "RetryInfo" in place:
            details.append(
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}
            )
        if "PerDay" in (row["label_note"] or ""):
            quota = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
            details.append({"violations": [{"quotaId": quota}]})
        error = {"code": int(number or row["status"]), "message": message, "status": kind}
        return {"error": {**error, "details": details}}
    if row["provider"] == "bedrock":
        return {"message": message, "__type": kind}
    if row["dialect"].startswith("anthropic"):
        return {"type": "error", "error": {"type": kind, "message": message}}
    if row["provider"] == "xai":
        return {"code": code, "error": message} if code else message
    if " | raw: " in message:
        message, _, raw = message.partition(" | raw: ")
        return {"error": {"message": message, "code": int(code), "metadata": {"raw": raw}}}
    number = int(code) if (code or "").isdigit() else code
    return {"error": {"message": message, "type": kind, "param": None, "code": number}}
