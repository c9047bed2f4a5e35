"""Recorded requests, read as neutral requests and encoded again, mean what was recorded."""

import copy
import json
from typing import Any

import pytest
from tests.codecs.anthropic.recorded_requests import CannotSay, asked, normal
from tests.codecs.schemas.plain_schemas import convert, without_marks
from tests.corpus import Row, Table, rows

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.schemas.dialects import ANTHROPIC_STRICT, ANTHROPIC_TOOL
from holdfast.core.errors import ConfigurationError
from holdfast.core.transcript import Transcript

Json = dict[str, Any]


def recorded() -> list[tuple[Row, Json]]:
    found = []
    for row in rows("anthropic_messages"):
        body = (row.request or {}).get("body")
        # Some bodies were clipped, and those that were refused are wrong on purpose.
        if isinstance(body, dict) and isinstance(body.get("messages"), list) and row.status == 200:
            found.append((row, body))
    return found


def expected(body: Json) -> Json:
    """What we send for it, where we deliberately say the same in another form."""
    wanted = normal(copy.deepcopy(body))
    form = wanted.get("output_config", {}).get("format")
    if form:
        form["schema"] = convert(form["schema"], ANTHROPIC_STRICT)
    if wanted.get("thinking", {}).get("type") == "disabled":
        wanted["thinking"] = {"type": "disabled"}
    for tool in wanted.get("tools", []):
        if "input_schema" in tool:
            tool["input_schema"] = convert(tool["input_schema"], ANTHROPIC_TOOL)
    return wanted


@pytest.mark.slow  # takes half a second or more
def test_recorded_requests_encode_to_the_same_meaning() -> None:
    table = Table("outcome")
    for row, body in recorded():
        if "anthropic_version" in body or "model" not in body:
            table.add("skipped: another cloud's form of the body")
            continue
        try:
            request = asked(copy.deepcopy(body))
            encoded = AnthropicCodec().encode(request)
        except CannotSay as reason:
            table.add(f"skipped: {reason}")
            continue
        except ConfigurationError as refused:
            argument = refused.argument.partition("[")[0]
            table.add(f"refused before it was sent: {argument}: {refused.problem[:70]}")
            continue
        sent, wanted = normal(json.loads(encoded.body)), expected(body)
        for made in (sent, wanted):
            made["tools"] = without_marks(made.get("tools", []))
        assert sent == wanted, row.id
        table.add("equal in meaning")
        history = Transcript(request.messages)
        kept = type(request)(
            **{**{f: getattr(request, f) for f in request.__struct_fields__}, "messages": history}
        )
        codec = AnthropicCodec()
        assert codec.encode(kept).body == codec.encode(kept).body == encoded.body, row.id
    print(f"\nanthropic requests\n{table}")
    equal = table.counts["equal in meaning",]
    assert equal >= 0.9 * sum(table.counts.values())
