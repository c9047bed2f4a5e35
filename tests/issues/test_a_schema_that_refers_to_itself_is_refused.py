"""`holdfast run --schema` with a schema that refers to itself, and with an answer that does not fit.

The first was sent and ended as "nested too deeply"; the second ended with the advice to check the base URL.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast import Agent, ConfigurationError, OutputError
from holdfast.errors import explain
from holdfast.testing import Emulator, ScriptedModel
from holdfast.tools import JsonSchema

Start = Callable[..., Emulator]
INTO_EACH_OTHER = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
IN_A_PROPERTY = {"a": {"$ref": "#/$defs/x"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": INTO_EACH_OTHER},
        {"type": "object", "properties": IN_A_PROPERTY, "$defs": {"x": {"$ref": "#/$defs/x"}}},
    ],
)
def test_a_check_without_an_end_is_refused(emulator: Start, tmp_path: Path, schema: object) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    provider = emulator()
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    done = holdfast("run", "Hello?", *address, "--schema", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "refers to itself without an end" in done.stderr
    assert not provider.requests


def test_a_recursive_schema_is_used(emulator: Start, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    path.write_text(json.dumps(tree))
    provider = emulator(
        ['{"name": "a", "next": {"name": 1}}', '{"name": "a", "next": {"name": "b"}}']
    )
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    done = holdfast("run", "Hello?", *address, "--schema", str(path))
    assert (done.returncode, json.loads(done.stdout)["next"]) == (0, {"name": "b"})


def test_the_advice_for_an_output_is_not_about_the_address() -> None:
    agent = Agent(ScriptedModel("a", "b", "c"), output=int)
    with pytest.raises(OutputError) as raised:
        agent.run_sync("How many?")
    assert explain(raised.value.info).endswith("what the answer must look like.")


def test_an_endless_schema_of_a_program_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="refers to itself without an end"):
        Agent(ScriptedModel("1"), output=JsonSchema({"allOf": [{"$ref": "#"}]}))
