"""Recorded requests, read as neutral requests and encoded again, mean what was recorded."""

import copy
import json
from typing import Any

from tests.codecs.gemini.recorded_requests import Json, asked, normal
from tests.corpus import Row, Table, rows

from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.gemini.history import UNSIGNED
from holdfast.core.errors import ConfigurationError

REFUSED = "refused before it was sent"


def recorded() -> list[tuple[Row, Json]]:
    found = []
    for row in rows("gemini"):
        body = (row.request or {}).get("body")
        # A body may have been clipped, and one row has an invalid role on purpose.
        if isinstance(body, dict) and isinstance(body.get("contents"), list) and row.status == 200:
            found.append((row, normal(copy.deepcopy(body))))
    return found


def expected(body: Json) -> Json:
    """What we send for it, where we deliberately say the same in another form."""
    wanted = copy.deepcopy(body)
    if "systemInstruction" in wanted:
        wanted["systemInstruction"] = ["\n".join(wanted["systemInstruction"])]
    for content in wanted["contents"]:
        kept = [part for part in content["parts"] if part != {"text": ""}]
        content["parts"] = kept or [{"text": " "}]
        for part in content["parts"]:
            part.get("functionResponse", {}).pop("parts", None)
            if "functionCall" in part:
                part.pop("thought", None)
    return wanted


def without_stand_ins(sent: Json, body: Json) -> Json:
    """Remove the signatures that we add where the recording had none."""
    for content, original in zip(sent["contents"], body["contents"], strict=True):
        for part, other in zip(content["parts"], original["parts"], strict=False):
            if part.get("thoughtSignature") == UNSIGNED and "thoughtSignature" not in other:
                del part["thoughtSignature"]
    return sent


def merged(tools: Any) -> Any:
    """Tools as one object, since several objects of one tool each mean the same."""
    made: Json = {}
    for tool in tools:
        for name, value in tool.items():
            made[name] = made.get(name, []) + value if isinstance(value, list) else value
    return made


def test_recorded_requests_encode_to_the_same_meaning() -> None:
    table = Table("outcome")
    for row, body in recorded():
        try:
            sent = json.loads(Gemini().encode(asked(row, body)).body)
        except ConfigurationError as refused:
            table.add(f"{REFUSED}: {refused.argument.partition('[')[0]}: {refused.problem[:60]}")
            continue
        sent, wanted = without_stand_ins(normal(sent), body), expected(body)
        for made in (sent, wanted):
            made["tools"] = merged(made.get("tools", []))
        assert sent == wanted, row.id
        table.add("equal in meaning")
    print(f"\ngemini requests\n{table}")
    equal = table.counts["equal in meaning",]
    assert equal > 500
    assert equal >= 0.97 * sum(table.counts.values())
