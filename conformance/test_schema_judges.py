"""Schemas as they are sent, before judges that others wrote: two SDKs, llguidance, xgrammar, and a server of llama.cpp.

`HOLDFAST_FULL=1` converts 10,000 schemas to each dialect, otherwise a few hundred.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import TypeAdapter
from tests.codecs.schemas.output_types import OUTPUT_TYPES
from tests.codecs.schemas.schema_strategies import SchemaCase, schema_cases
from tests.codecs.schemas.sent_values import SentValues
from tests.codecs.schemas.test_conversion import check_case
from tests.codecs.schemas.tool_schemas import OPERATIONS, load_tools

from holdfast.codecs.schemas.conversion import ConvertedSchema, convert_schema
from holdfast.codecs.schemas.dialects import DIALECTS

Schema = dict[str, Any]

IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
SCHEMAS = 10_000 if IS_FULL else 300
FOLDER = Path(__file__).parent / "judges"
PYTHON = FOLDER / ".venv" / "bin" / "python"

XGRAMMAR = Path(__file__).parent / "xgrammar"

needs_judges = pytest.mark.skipif(
    not PYTHON.is_file(), reason="THE JUDGES ARE NOT INSTALLED: ./run conformance installs them"
)


@functools.cache
def draw_cases() -> Sequence[SchemaCase]:
    """Return different schemas, each with a value that fits; the same ones in every run."""
    cases: dict[str, SchemaCase] = {}

    @settings(
        max_examples=2 * SCHEMAS,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(schema_cases())
    def collect(case: SchemaCase) -> None:
        cases.setdefault(json.dumps(case.schema), case)

    collect()
    return [*cases.values()][:SCHEMAS]


@functools.cache
def known_schemas() -> Sequence[Schema]:
    """Return the schemas of the corpus: of output types, of recorded tools, and of operations."""
    outputs = [TypeAdapter(kind).json_schema() for kind in OUTPUT_TYPES]
    return [*outputs, *(one.schema for one in load_tools()), *OPERATIONS.values()]


def convert_all(dialect: str, most: int) -> list[Schema]:
    """Return schemas as they are sent to a dialect, without those that it cannot say."""
    originals = [*known_schemas(), *(case.schema for case in draw_cases())]
    results = (convert_schema(schema, DIALECTS[dialect]) for schema in originals)
    return [one.schema for one in results if isinstance(one, ConvertedSchema)][:most]


def find_objections(judge: str, schemas: Sequence[Schema]) -> list[str | None]:
    """Return what a judge says against each schema; None for nothing."""
    done = subprocess.run(
        [str(PYTHON), "schema_judges.py", judge],
        input=json.dumps(schemas).encode(),
        cwd=FOLDER,
        capture_output=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    objections: list[str | None] = json.loads(done.stdout)
    assert len(objections) == len(schemas)
    return objections


TEXT = {"type": "string"}
CLOSED = {"required": ["a"], "additionalProperties": False}
WRONG: list[tuple[str, Schema]] = [
    ("openai", {"type": "object", "properties": {"a": TEXT}}),
    ("openai", {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}),
    ("openai", {"type": "object", "properties": {"a": {"allOf": [TEXT]}}, **CLOSED}),
    ("anthropic", {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, **CLOSED}),
    ("anthropic", {"type": "object", "properties": {"a": {"title": "of no type"}}, **CLOSED}),
    ("anthropic", {"type": "object", "properties": {"a": TEXT}}),
    ("llguidance", {"type": "array", "uniqueItems": True}),
    ("llguidance", {"type": "string", "pattern": "(?=a)"}),
    ("llguidance", {"$ref": "https://example.org/a.json"}),
    ("llama_cpp", {"type": "object", "properties": {"a": {"type": "text"}}}),
    ("llama_cpp", {"type": "object", "properties": {"a": {"$ref": "#"}}}),
    # What the grammar does not enforce is found in the reply.
    ("llama_cpp", {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^\d+$"}}, **CLOSED}),
    ("llama_cpp", {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3}),
]  # fmt: skip


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("judge", "dialect", "most"),
    [
        ("openai", "openai_strict", SCHEMAS),
        ("anthropic", "anthropic_strict", SCHEMAS),
        ("llguidance", "llguidance", SCHEMAS),
        ("llguidance", "xgrammar", SCHEMAS),  # vLLM asks the one, and then the other
        ("llama_cpp", "llama_cpp", SCHEMAS // 5 if IS_FULL else 200),  # it writes a reply of each
    ],
)
@needs_judges
def test_judges_of_others_object_to_wrong_schemas_and_to_none_that_is_sent(
    judge: str, dialect: str, most: int
) -> None:
    wrong = [schema for name, schema in WRONG if name == judge]
    sent = convert_all(dialect, most)
    assert len(sent) >= min(most, 200)
    objections = find_objections(judge, [*wrong, *sent])
    assert all(objections[: len(wrong)]), list(zip(objections, wrong, strict=False))
    found = zip(objections[len(wrong) :], sent, strict=True)
    refused = [(objection, schema) for objection, schema in found if objection]
    assert not refused, (len(refused), refused[0])


XGRAMMAR_WRONG: list[tuple[Schema, object]] = [
    ({"type": "integer", "minimum": 0.5}, 1),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, {}),
    ({"type": "string", "pattern": "^(?=a)$"}, "a"),  # it warns
    # What no schema that is sent has, because a value would not fit.
    ({"type": "string", "minLength": 1}, 'a "quoted" word'),
    ({"type": "string", "pattern": "^[^a]*$"}, "two\nlines"),
    ({"type": "object", "properties": {"a": TEXT}}, {"free": 1}),
    ({"type": "array", "prefixItems": [TEXT]}, ["a", "b"]),
]


@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    not (XGRAMMAR / ".venv").is_dir(),
    reason="XGRAMMAR IS NOT INSTALLED: ./run conformance installs it",
)
def test_xgrammar_takes_each_value_in_the_form_that_is_sent() -> None:
    sent: list[tuple[Schema, object]] = []
    for case in draw_cases():
        made = convert_schema(case.schema, DIALECTS["xgrammar"])
        if isinstance(made, ConvertedSchema):
            sent.append((made.schema, SentValues(made.schema, made.rewriting).write(case.value)))
    assert len(sent) >= min(SCHEMAS, 200)
    done = subprocess.run(
        [".venv/bin/python", "xgrammar_judge.py"],
        input=json.dumps([*XGRAMMAR_WRONG, *sent]).encode(),
        cwd=XGRAMMAR,
        capture_output=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    objections: list[str | None] = json.loads(done.stdout)
    wrong = len(XGRAMMAR_WRONG)
    assert all(objections[:wrong]), list(zip(objections, XGRAMMAR_WRONG, strict=False))
    found = zip(objections[wrong:], sent, strict=True)
    refused = [(objection, pair) for objection, pair in found if objection]
    assert not refused, (len(refused), min(refused, key=str))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DIALECTS)
def test_schemas_pass_the_rules_of_a_dialect_and_values_come_back(name: str) -> None:
    for case in draw_cases():
        check_case(case, DIALECTS[name])
