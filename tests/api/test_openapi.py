"""The description of the native API is what its operations declare, and changes of it are seen."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from scripts import openapi

from holdfast.server.api.routes import OPERATIONS, describe_api


def test_the_snapshot_is_the_code() -> None:
    assert openapi.SNAPSHOT.read_text("utf-8") == openapi.render(), (
        "the native API changed; if that is meant: ./run generate, and say so in CHANGELOG.md"
    )


def test_the_page_of_the_reference_lists_the_routes() -> None:
    page = openapi.PAGE.read_text("utf-8")
    assert page == openapi.fill_page(page), "run: ./run generate"


def test_every_operation_is_described_once() -> None:
    paths = describe_api()["paths"]
    described = [entry["operationId"] for methods in paths.values() for entry in methods.values()]
    assert sorted(described) == sorted(operation.name for operation in OPERATIONS)
    assert len(described) == len(set(described))


def references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(references, part.values()))
    return set().union(*map(references, part)) if isinstance(part, list) else set()


def test_every_reference_and_every_schema_is_valid() -> None:
    document = describe_api()
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert schema.get("description") or "enum" in schema, name
    missing = references(document) - {f"#/components/schemas/{name}" for name in schemas}
    assert missing == set()


def test_every_field_of_a_body_is_described() -> None:
    schemas = describe_api()["components"]["schemas"]
    for operation in OPERATIONS:
        schema = schemas.get(operation.body.__name__, {})
        for name, field in schema.get("properties", {}).items():
            assert field.get("description"), f"{operation.body.__name__}.{name}"
