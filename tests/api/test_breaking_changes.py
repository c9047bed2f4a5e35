"""The native API only grows: what breaks a client of the last release is found, by a judge that is judged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from scripts import openapi
from tests.api.breaking_changes import find_breaking_changes

from holdfast.server.api.routes import describe_api

Document = dict[str, Any]
TEXT = {"type": "string"}


def change(edit: Callable[[Document], object]) -> list[str]:
    """Return what breaks if the document is edited."""
    edited = copy.deepcopy(describe_api())
    edit(edited)
    return find_breaking_changes(describe_api(), edited)


def schema(document: Document, name: str) -> Any:
    return document["components"]["schemas"][name]


def field(document: Document, kind: str, name: str) -> Any:
    return schema(document, kind)["properties"][name]


def add_a_kind_of_event(document: Document) -> None:
    added = {"type": "object", "properties": {"type": {"enum": ["added"]}}, "required": ["type"]}
    document["components"]["schemas"]["Added"] = added
    field(document, "EventItem", "event")["anyOf"].append({"$ref": "#/components/schemas/Added"})


def rename_a_type(document: Document) -> None:
    schemas = document["components"]["schemas"]
    schemas["Renamed"] = schemas.pop("UsageTotal")
    field(document, "UsageView", "totals")["items"]["$ref"] = "#/components/schemas/Renamed"


def test_the_api_has_only_grown_since_the_last_release() -> None:
    released = json.loads(openapi.read_released())
    assert find_breaking_changes(released, describe_api()) == []


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda d: d["paths"].pop("/usage"), "GET /usage: is gone"),
        (lambda d: d["paths"]["/sessions"].pop("post"), "POST /sessions: is gone"),
        (
            lambda d: d["paths"]["/usage"]["get"].update({"x-scope": "admin"}),
            "GET /usage: needs another scope",
        ),
        (
            lambda d: d["paths"]["/usage"]["get"]["responses"].pop("200"),
            "GET /usage: no longer answers 200",
        ),
        (
            lambda d: d["paths"]["/usage"]["get"]["parameters"].clear(),
            "GET /usage query by: is gone",
        ),
        (
            lambda d: d["paths"]["/usage"]["get"]["parameters"].append(
                {"in": "query", "name": "cap", "required": True, "schema": TEXT}
            ),
            "GET /usage query cap: is now required",
        ),
        (
            lambda d: d["paths"]["/sessions/{session}/events"]["get"]["responses"]["200"][
                "content"
            ].pop("text/event-stream"),
            "GET /sessions/{session}/events 200: text/event-stream is gone",
        ),
        (
            lambda d: schema(d, "NewTurn")["properties"].pop("wait"),
            "POST /turns body.wait: is gone",
        ),
        (
            lambda d: schema(d, "NewTurn")["required"].append("wait"),
            "POST /turns body.wait: is now required",
        ),
        (
            lambda d: field(d, "Fork", "to").update(maxLength=5),
            "POST /sessions/{session}/fork body.to: maxLength is 5",
        ),
        (
            lambda d: field(d, "Fork", "to").update(minLength=2),
            "POST /sessions/{session}/fork body.to: minLength is 2",
        ),
        (
            lambda d: field(d, "Fork", "to").update(pattern="^a"),
            "POST /sessions/{session}/fork body.to: pattern is ^a",
        ),
        (
            lambda d: schema(d, "CatchUp")["enum"].remove("last"),
            "POST /schedules body.catch_up: 'last' is gone",
        ),
        (
            lambda d: field(d, "NewAnswer", "value").update(TEXT),
            "POST /sessions/{session}/answers body.value: may no longer be anything",
        ),
        (
            lambda d: field(d, "SessionSummary", "turns").update(type="string"),
            "GET /sessions 200.sessions[].turns: may no longer be integer",
        ),
        (
            lambda d: field(d, "SessionSummary", "turns").update(type="number"),
            "GET /sessions 200.sessions[].turns: may now be number",
        ),
        (
            lambda d: (
                field(d, "SessionSummary", "title").clear()
                or field(d, "SessionSummary", "title").update(anyOf=[TEXT, {"type": "null"}])
            ),
            "GET /sessions 200.sessions[].title: may now be null",
        ),
        (
            lambda d: schema(d, "SessionSummary")["properties"].pop("title"),
            "GET /sessions 200.sessions[].title: is gone",
        ),
        (
            lambda d: schema(d, "SessionSummary")["required"].remove("title"),
            "GET /sessions 200.sessions[].title: may now be absent",
        ),
        (
            lambda d: (
                field(d, "BreakerView", "state").pop("enum")
                and field(d, "BreakerView", "state").update(TEXT)
            ),
            "GET /endpoints 200[].breaker.state: may now be any value",
        ),
        (
            lambda d: field(d, "BreakerView", "state")["enum"].remove("open"),
            "GET /endpoints 200[].breaker.state: 'open' is gone",
        ),
    ],
)
def test_what_breaks_a_client_is_found(edit: Callable[[Document], object], expected: str) -> None:
    assert expected in change(edit)


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: None,
        lambda d: d["paths"].update({"/new": d["paths"]["/usage"]}),
        lambda d: d["paths"]["/usage"]["get"]["responses"].update({"409": {"description": "x"}}),
        lambda d: d["paths"]["/usage"]["get"]["parameters"].append(
            {"in": "query", "name": "cap", "required": False, "schema": TEXT}
        ),
        lambda d: schema(d, "NewTurn")["properties"].update(cap=TEXT),
        lambda d: schema(d, "NewTurn")["required"].clear(),
        lambda d: schema(d, "SessionSummary")["properties"].update(cap=TEXT),
        lambda d: schema(d, "SessionSummary")["required"].append("cap"),
        lambda d: schema(d, "CatchUp")["enum"].append("some"),
        lambda d: field(d, "BreakerView", "state")["enum"].append("new"),
        lambda d: field(d, "Fork", "to").update(maxLength=5000, minLength=0),
        lambda d: field(d, "Fork", "at").update(type="number"),
        lambda d: field(d, "SessionSummary", "title").update(description="Another text."),
        add_a_kind_of_event,
        rename_a_type,
    ],
)
def test_what_is_added_breaks_nobody(edit: Callable[[Document], object]) -> None:
    assert change(edit) == []


@pytest.mark.slow  # takes half a second or more
def test_a_field_that_any_type_loses_is_found() -> None:
    document, edited = describe_api(), copy.deepcopy(describe_api())
    for kind, found in edited["components"]["schemas"].items():
        fields = found.get("properties", {})
        for name in [name for name, one in fields.items() if len(one.get("enum", "ab")) > 1][:1]:
            removed = fields.pop(name)
            gone = find_breaking_changes(document, edited)
            fields[name] = removed
            assert any(one.endswith(f".{name}: is gone") for one in gone), (kind, name)


def test_a_keyword_that_cannot_be_judged_is_told() -> None:
    with pytest.raises(ValueError, match="cannot judge multipleOf"):
        change(lambda d: field(d, "SessionSummary", "turns").update(multipleOf=2))
