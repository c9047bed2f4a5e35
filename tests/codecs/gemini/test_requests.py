"""Recorded requests, read as neutral requests and encoded again, mean what was recorded."""

import copy
import json
from typing import Any

from tests.codecs.gemini.recorded_requests import Json, asked, normal
from tests.codecs.schemas.plain_schemas import convert, without_marks
from tests.corpus import Row, Table, rows

from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.gemini.history import UNSIGNED
from holdfast.codecs.schemas.dialects import GEMINI
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
    wanted["contents"] = joined_responses(wanted["contents"])
    for content in wanted["contents"]:
        kept = [part for part in content["parts"] if part != {"text": ""}]
        content["parts"] = kept or [{"text": " "}]
        for part in content["parts"]:
            part.get("functionResponse", {}).pop("parts", None)
            if "functionCall" in part:
                part.pop("thought", None)
    for tool in wanted.get("tools", []):
        for declared in tool.get("functionDeclarations", []):
            if "parametersJsonSchema" in declared:
                declared["parametersJsonSchema"] = convert(declared["parametersJsonSchema"], GEMINI)
    config = wanted.get("generationConfig", {})
    if "responseJsonSchema" in config:
        config["responseJsonSchema"] = convert(config["responseJsonSchema"], GEMINI)
    return wanted


def joined_responses(contents: list[Json]) -> list[Json]:
    """Join contents that hold responses to calls of one content: we send them together."""
    joined: list[Json] = []
    for content in contents:
        both = [joined[-1], content] if joined else [{"parts": [{}]}]
        if all("functionResponse" in part for one in both for part in one["parts"]):
            joined[-1] = {**content, "parts": both[0]["parts"] + content["parts"]}
        else:
            joined.append(content)
    return joined


def without_validation(sent: Json) -> Json:
    """Remove the mode that lets the server enforce the arguments of tools, which it does unasked for no tool."""
    calling = sent.get("toolConfig", {}).get("functionCallingConfig")
    if calling == {"mode": "VALIDATED"}:
        del sent["toolConfig"]["functionCallingConfig"]
        if not sent["toolConfig"]:
            del sent["toolConfig"]
    return sent


def without_stand_ins(sent: Json, body: Json) -> Json:
    """Remove the signatures that we add where the recording had none."""
    recorded_contents = joined_responses(body["contents"])
    for content, original in zip(sent["contents"], recorded_contents, strict=True):
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
        sent, wanted = without_validation(sent), without_validation(wanted)
        for made in (sent, wanted):
            made["tools"] = without_marks(merged(made.get("tools", [])))
        assert sent == wanted, row.id
        table.add("equal in meaning")
    print(f"\ngemini requests\n{table}")
    equal = table.counts["equal in meaning",]
    assert equal > 500
    assert equal >= 0.97 * sum(table.counts.values())
