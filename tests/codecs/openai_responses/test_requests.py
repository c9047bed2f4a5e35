"""Recorded requests, read as neutral requests and encoded again, mean what was recorded."""

import copy
import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.codecs.openai_responses.recorded_requests import CannotSay, asked, normal, profile
from tests.corpus import Row, Table, rows

from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.core.errors import ConfigurationError
from holdfast.core.transcript import Transcript

Json = dict[str, Any]


def recorded() -> list[tuple[Row, Json]]:
    found = []
    for row in rows("openai_responses"):
        body = (row.request or {}).get("body")
        # Some bodies were clipped, and those that were refused are wrong on purpose.
        if row.status != 200 or not isinstance(body, dict) or "model" not in body:
            continue
        if isinstance(body.get("input"), list | str):
            found.append((row, body))
    return found


@pytest.mark.slow  # takes half a second or more
def test_recorded_requests_encode_to_the_same_meaning() -> None:
    table = Table("outcome")
    for row, body in recorded():
        try:
            request = asked(copy.deepcopy(body))
            encoded = ResponsesCodec(profile(body)).encode(request)
        except CannotSay as reason:
            table.add(f"skipped: {reason}")
            continue
        except ConfigurationError as refused:
            argument = refused.argument.partition("[")[0]
            table.add(f"refused before it was sent: {argument}: {refused.problem[:70]}")
            continue
        wanted = normal(body)
        if not wanted.get("tools"):
            # Settings about tools mean nothing without tools, and some servers refuse them.
            wanted.pop("tool_choice", None)
            wanted.pop("parallel_tool_calls", None)
        same = normal(json.loads(encoded.body)) == wanted
        assert same, row.id
        table.add("equal in meaning")
        codec = ResponsesCodec(profile(body))
        kept = replace(request, messages=Transcript(request.messages))
        assert codec.encode(kept).body == codec.encode(kept).body == encoded.body, row.id
    print(f"\nresponses requests\n{table}")
    equal = table.counts["equal in meaning",]
    assert equal >= 0.8 * sum(table.counts.values())
