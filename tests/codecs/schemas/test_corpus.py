"""The types and the tools that stand for those of users are what they claim to be."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter
from tests.codecs.schemas.output_types import OUTPUT_TYPES
from tests.codecs.schemas.tool_schemas import OPERATIONS, load_tools

from holdfast import Agent
from holdfast.testing import ScriptedModel
from holdfast.tools import ClientTool


def test_the_corpus_has_the_parts_that_the_documentation_counts() -> None:
    assert (len(OUTPUT_TYPES), len(OPERATIONS)) == (60, 14)
    assert Counter(one.package for one in load_tools()) == {
        "@modelcontextprotocol/server-everything": 13,
        "@modelcontextprotocol/server-filesystem": 14,
        "@modelcontextprotocol/server-github": 26,
        "@modelcontextprotocol/server-slack": 8,
        "@playwright/mcp": 25,
    }


@pytest.mark.parametrize("kind", OUTPUT_TYPES, ids=str)
def test_an_output_type_is_taken_and_its_value_fits(kind: object) -> None:
    adapter, value = TypeAdapter(kind), OUTPUT_TYPES[kind]
    adapter.validate_json(json.dumps(value))
    Draft202012Validator(adapter.json_schema()).validate(value)
    Agent(ScriptedModel(""), output=kind)


def test_every_tool_and_operation_is_taken_as_a_tool_of_a_caller() -> None:
    for tool in load_tools():
        assert ClientTool(tool.name, tool.description, tool.schema).parameters == tool.schema
    for name, schema in OPERATIONS.items():
        assert ClientTool(name, parameters=schema).parameters == schema
