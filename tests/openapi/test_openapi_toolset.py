"""Tools of OpenAPI files: names, arguments and effects, and which files and operations are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.openapi.api_server import document_of, make_toolset

from holdfast import Agent, Tool
from holdfast.core.errors import ConfigurationError
from holdfast.openapi import OpenAPIOperation, OpenAPIOptions, OpenAPIToolset
from holdfast.testing import ScriptedModel

BASE = "https://shop.example/v1"
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{at}: &a{at} {{<<: [{', '.join([f'*a{at - 1}'] * 20)}]}}\n" for at in range(1, 12)
)
"""Mappings that take each other's keys: 20 ** 11 of them."""
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
TEXT = {"schema": {"type": "string"}}

YAML = """
openapi: 3.0.3
servers: [{url: "https://{place}.example/", variables: {place: {default: shop}}}]
paths:
  /orders/{id}:
    parameters:
    - &id {name: id, in: path, required: true, schema: {type: integer}}
    get:
      operationId: orders/get
      summary: Get an order.
      tags: [orders]
      parameters:
      - {name: since, in: query, schema: {type: string, enum: [on, 2020-01-01, "1"]}}
      responses: {200: {description: ok}}
    delete: {operationId: orders/delete, deprecated: true}
"""


def make(paths: dict[str, Any], **more: Any) -> OpenAPIToolset:
    keywords = {
        name: more.pop(name)
        for name in list(more)
        if name not in ("components", "servers", "openapi")
    }
    return make_toolset(document_of(paths, **more), base_url=BASE, **keywords)


def tools_of(toolset: OpenAPIToolset) -> dict[str, Tool]:
    assert toolset.fixed_tools is not None
    return {tool.name: tool for tool in toolset.fixed_tools}


def schema_of(operation: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of the arguments of one operation."""
    method = "post" if "requestBody" in operation else "get"
    toolset = make({"/x": {method: {"operationId": "do", **operation}}}, **more)
    return dict(tools_of(toolset)["do"].spec.schema)


def test_a_file_of_yaml_or_json_is_a_toolset(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(YAML)
    toolset = make_toolset(tmp_path / "shop.yaml", name="shop")
    assert repr(toolset) == "OpenAPIToolset('shop', orders_get, orders_delete)"
    assert repr(toolset.prefixed("s_")) == "OpenAPIToolset('shop', s_orders_get, s_orders_delete)"
    tools = tools_of(toolset)
    assert (tools["orders_get"].effect, tools["orders_delete"].effect) == ("read", "write")
    assert tools["orders_get"].description == "Get an order."
    assert tools["orders_delete"].description == "DELETE /orders/{id}"
    assert tools["orders_get"].spec.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "since": {"type": "string", "enum": ["on", "2020-01-01", "1"]},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
    assert Agent(ScriptedModel("Hi."), toolsets=[toolset]).run_sync("Hi.").output == "Hi."
    plain = document_of({"/x": {"get": {}}}, servers=[{"url": BASE}])
    (tmp_path / "shop.txt").write_text(json.dumps(plain))
    assert list(tools_of(OpenAPIToolset.from_file(str(tmp_path / "shop.txt")))) == ["get_x"]


def test_operations_are_selected_by_id_or_by_a_function() -> None:
    paths = {
        "/a": {"get": {"operationId": "a/get", "tags": ["x"]}, "put": {"operationId": "a/put"}},
        "/b": {"head": {"operationId": "b/head", "summary": "B"}},
    }
    assert list(tools_of(make(paths, select=["a/*", "b/head"]))) == ["a_get", "a_put", "b_head"]
    assert list(tools_of(make(paths, select=["a/put"]))) == ["a_put"]
    seen: list[OpenAPIOperation] = []

    def choose(operation: OpenAPIOperation) -> bool:
        seen.append(operation)
        return operation.effect == "read"

    assert list(tools_of(make(paths, select=choose))) == ["a_get", "b_head"]
    assert seen[0] == OpenAPIOperation("a/get", "GET", "/a", "", ("x",))
    effects = tools_of(make(paths, effects={"a/put": "idempotent"}))
    assert [effects[name].effect for name in effects] == ["read", "idempotent", "read"]


def test_long_names_are_shortened_and_differ() -> None:
    long = "a" * 70
    paths = {f"/{at}": {"get": {"operationId": long + at}} for at in "xy"}
    first, second = tools_of(make(paths))
    assert len(first) == len(second) == 64
    assert first != second


def test_parameters_of_the_path_and_of_the_operation() -> None:
    shared = [
        ID,
        {"name": "page", "in": "query", "schema": {"type": "integer"}, "description": "which"},
    ]
    own = [
        {"$ref": "#/components/parameters/page"},
        {"name": "id", "in": "query", **TEXT},
        {
            "name": "body",
            "in": "query",
            "content": {"application/json": {"schema": {"type": "array"}}},
        },
        {"name": "Authorization", "in": "header", **TEXT},
        {"name": "Accept", "in": "header", **TEXT},
        {"name": "Idempotency-Key", "in": "header", "required": True, **TEXT},
        {"name": "api_key", "in": "query", "required": True, **TEXT},
        {"name": "X-Version", "in": "header", "required": True, **TEXT},
        {"name": "missing", "in": "path", "required": True, **TEXT},
    ]
    toolset = make(
        {"/x/{id}": {"parameters": shared, "post": {
            "operationId": "do",
            "parameters": own,
            "requestBody": {"required": True, "description": "It.", "content": {"application/json": {}}},
        }}},
        headers={"x-version": "3"},
        components={
            "parameters": {"page": {"name": "page", "in": "query", "required": True, "schema": {"type": "string"}}},
            "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "api_key"}},
        },
    )  # fmt: skip
    schema = tools_of(toolset)["do"].spec.schema
    assert schema["properties"] == {
        "id": {"type": "integer"},
        "page": {"type": "string"},
        "id_query": {"type": "string"},
        "body": {"type": "array"},
        "request_body": {"description": "It."},
    }
    assert schema["required"] == ["id", "page", "request_body"]


def test_schemas_of_3_0_become_json_schema() -> None:
    part = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "made": {"$ref": "#/components/schemas/Made"},
            "name": {"type": "string", "nullable": True, "example": "x", "x-a": 1, "enum": ["a"]},
            "size": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "xml": {}},
            "other": {
                "allOf": [{"$ref": "#/components/schemas/Tree"}],
                "nullable": True,
                "description": "o",
            },
            "example": {"type": "string"},
            "tree": {"$ref": "#/components/schemas/Tree", "description": "does not count"},
        },
    }
    tree = {
        "type": "object",
        "properties": {
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}
        },
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
    schema = schema_of(
        {"requestBody": body},
        openapi="3.0.3",
        components={
            "schemas": {"Order": part, "Tree": tree, "Made": {"type": "string", "readOnly": True}}
        },
    )
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Order"}
    assert schema["$defs"]["Order"] == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": ["string", "null"], "enum": ["a", None]},
            "size": {"type": "number", "exclusiveMinimum": 0},
            "other": {
                "anyOf": [{"allOf": [{"$ref": "#/$defs/Tree"}]}, {"type": "null"}],
                "description": "o",
            },
            "example": {"type": "string"},
            "tree": {"$ref": "#/$defs/Tree"},
        },
    }
    assert set(schema["$defs"]) == {"Order", "Tree"}


def test_read_only_properties_are_left_out_through_all_of() -> None:
    base = {"type": "object", "properties": {"id": {"readOnly": True}, "a": {}}, "required": ["id"]}
    own = {
        "allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "a"]}],
        "required": ["id"],
    }
    body = {"content": {"application/json": {"schema": own}}}
    schema = schema_of({"requestBody": body}, components={"schemas": {"Base": base}})
    assert schema["properties"]["body"] == {
        "allOf": [{"$ref": "#/$defs/Base"}, {"required": ["a"]}]
    }
    assert schema["$defs"]["Base"] == {"type": "object", "properties": {"a": {}}}


def test_the_best_body_is_chosen_and_files_have_a_name_and_a_content() -> None:
    file = {"type": "string", "format": "binary"}
    multipart = {
        "schema": {
            "type": "object",
            "properties": {
                "file": file,
                "more": {"type": "array", "items": file},
                "n": {"type": "integer"},
            },
        }
    }
    schema = schema_of(
        {"requestBody": {"content": {"text/xml": {}, "multipart/form-data": multipart}}}
    )
    properties = schema["properties"]["body"]["properties"]
    assert properties["file"]["properties"].keys() == {"name", "text", "base64"}
    assert properties["more"]["items"] == properties["file"]
    assert properties["n"] == {"type": "integer"}
    newer = {"schema": {"properties": {"file": {"contentMediaType": "image/png"}}}}
    schema = schema_of({"requestBody": {"content": {"multipart/form-data": newer}}})
    assert "base64" in schema["properties"]["body"]["properties"]["file"]["properties"]
    schema = schema_of(
        {"requestBody": {"content": {"text/xml": {}, "application/vnd.x+json; v=1": {}}}}
    )
    assert schema["properties"]["body"] == {} or schema["properties"]["body"] is True


def operation(**more: Any) -> dict[str, Any]:
    return {"/x": {"post": {"operationId": "do", **more}}}


def parameter(**more: Any) -> dict[str, Any]:
    return operation(parameters=[{"name": "a", "in": "query", "schema": {}, **more}])


def body(schema: Any, media_type: str = "application/json") -> dict[str, Any]:
    return operation(requestBody={"content": {media_type: {"schema": schema}}})


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"/x/{id}": {"get": {}}}, "/paths/~1x~1{id}/get", "its path has {id}"),
    ({"/x/{id": {"get": {}}}, "/paths/~1x~1{id/get", "a brace"),
    ({"/x?y": {"get": {}}}, "/paths/~1x?y/get", "a query or a fragment"),
    (operation(operationId="日本"), "/paths/~1x/post/operationId", "no letter or digit"),
    (operation(operationId=3), "/paths/~1x/post/operationId", "3 is not a text"),
    (parameter(**{"in": "body"}), "/paths/~1x/post/parameters/0/in", "'body' is none of path"),
    (parameter(name=""), "/paths/~1x/post/parameters/0/name", "'' is not a name"),
    (parameter(style="simple"), "/paths/~1x/post/parameters/0/style", "they are form"),
    (parameter(schema=3), "/paths/~1x/post/parameters/0/schema", "3 is not a schema"),
    (operation(parameters=[{"$ref": "#/nowhere"}]), "/paths/~1x/post/parameters/0/$ref", "not in it"),
    (operation(parameters=[{"$ref": "other.yaml#/a"}]), "/paths/~1x/post/parameters/0/$ref", "never fetched"),
    (operation(parameters=[{"$ref": "#/paths/~1x/post/parameters/0"}]), "/parameters/0", "without an end"),
    (operation(parameters=3), "/paths/~1x/post/parameters", "not a list"),
    (operation(requestBody={}), "/paths/~1x/post/requestBody/content", "names no content type"),
    (body({}, "text/xml"), "/paths/~1x/post/requestBody/content", "'do' takes only text/xml, and XML is not written"),
    (body({}, "model/gltf"), "/paths/~1x/post/requestBody/content", "'do' takes only model/gltf, which cannot be written"),
    (body({"type": "strin"}), "/paths/~1x/post", "'strin' is not a type"),
    (body({"type": "integer", "minimum": 3, "maximum": 1}), "/paths/~1x/post", "/properties/body/maximum"),
    (body({"$ref": "#/paths/~1x/post/requestBody/content/application~1json/schema"}), "/paths/~1x/post", "itself"),
    (body({"pattern": "(?=a)", "not": {"pattern": "(?=a)"}}), "/paths/~1x/post", "not/pattern"),
    (body({"properties": {"a": {"$ref": "#/components/schemas/no"}}}), "/properties/a/$ref", "not in it"),
    (operation(servers=[{"url": "https://other.example"}]), "/paths/~1x/post/servers", "another server"),
    ({"/x": 3}, "/paths/~1x", "3 is not an object"),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "place", "problem"), REFUSED)
def test_an_operation_that_cannot_be_a_tool_names_the_place(
    paths: dict[str, Any], place: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make(paths)
    assert place in caught.value.argument
    assert caught.value.argument.startswith("the OpenAPI document#")
    assert problem in caught.value.problem


def test_several_are_named_together_or_skipped() -> None:
    paths = {f"/{at}/{{id}}": {"get": {"operationId": f"o{at}"}} for at in range(12)}
    paths["/y"] = {"get": {"operationId": "fine"}}
    with pytest.raises(ConfigurationError) as caught:
        make(paths)
    assert "12 operations cannot be tools" in caught.value.problem
    assert "- and 2 more" in caught.value.problem
    assert "on_refused" in caught.value.fix
    toolset = make(paths, on_refused="skip")
    assert list(tools_of(toolset)) == ["fine"]
    assert len(toolset.refused) == 12
    assert "its path has {id}" in toolset.refused["o3"]
    assert list(tools_of(make(paths, select=["fine"]))) == ["fine"]
    assert OpenAPIToolset("own").refused == {}


TWICE = {"/a": {"get": {"operationId": "x"}}, "/b": {"put": {"operationId": "x"}}}


@pytest.mark.parametrize(
    ("document", "keywords", "argument", "problem"),
    [
        ({"swagger": "2.0", "paths": {}}, {}, "the OpenAPI document", "Swagger '2.0'"),
        ({"openapi": "4.0.0", "paths": {}}, {}, "the OpenAPI document", "not OpenAPI 3.0 or 3.1"),
        ({"openapi": "3.0.0"}, {}, "the OpenAPI document", "has no paths"),
        (document_of(TWICE), {}, "the OpenAPI document#/paths/~1b/put/operationId", "/paths/~1a/get"),
        (document_of({}), {"base_url": None}, "base_url", "names no server"),
        (document_of({}, servers=[{"url": "/v1"}]), {"base_url": None}, "base_url", "'/v1'"),
        (document_of({}), {"base_url": "ftp://x"}, "base_url", "http or https"),
        (document_of({}), {"base_url": "http://[x"}, "base_url", "is not an address"),
        (document_of({}), {"base_url": "https://bob:secretsecret@x"}, "base_url", "a user or a password"),
        (document_of({}), {"base_url": "https://x?key=secretsecret"}, "base_url", "a query"),
        (document_of(TWICE["/a"] and {"/a": TWICE["/a"]}), {"select": ["y"]}, "select", "no operation 'y'"),
        (document_of({}), {"select": "x"}, "select", "a list of ids"),
        (document_of({}), {"effects": {"x": "read"}}, "effects", "no operation 'x'"),
        (document_of({}), {"checks": {"x": print}}, "checks", "no operation 'x'"),
        (document_of({}), {"checks": {"x": "y"}}, "checks['x']", "must be"),
        (document_of({}), {"on_refused": "skp"}, "on_refused", "must be"),
        (document_of({}), {"auth": {"kez": "secretsecret"}}, "auth", "no security scheme 'kez'"),
        (document_of({}), {"auth": "secretsecret\n"}, "auth", "a line break"),
        (document_of({}), {"auth": ""}, "auth", "is empty"),
        (document_of({}), {"auth": 3}, "auth", "must be"),
        (document_of({}), {"headers": {"a b": "secretsecret"}}, "headers", "not the name of a header"),
        (document_of({}), {"headers": {"a": "secretsecret\r\n"}}, "headers", "a line break"),
    ],
)  # fmt: skip
def test_a_file_or_a_setting_that_is_wrong_is_named(
    document: dict[str, Any], keywords: dict[str, Any], argument: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_toolset(document, **({"base_url": BASE} | keywords))
    assert caught.value.argument == argument
    assert problem in caught.value.problem
    assert "secretsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "{", "is not JSON"),
        ("a.json", "[]", "is not an object"),
        ("a.yaml", "a: [", "is neither JSON nor YAML"),
        ("a.yaml", "a: !!python/object:os.system {}", "is neither JSON nor YAML"),
        ("a.yaml", "a: &a [*a]\nopenapi: 3.0.0", "has no paths"),
        ("a.yaml", MERGES, "is neither JSON nor YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        OpenAPIToolset.from_file(tmp_path / name)
    assert caught.value.argument.startswith(name)
    assert problem in caught.value.problem
    with pytest.raises(ConfigurationError, match="cannot be read"):
        OpenAPIToolset.from_file(tmp_path / "missing.json")


TWICE = """{
    "openapi": "3.1.0", "servers": [{"url": "https://api.example"}],
    "paths": {"/a b": {"get": {"operationId": "one", "tags": [{}, {"x": 1, "y": 2, "x": 3}]}}}
}"""
TWICE_YAML = f"""
openapi: 3.1.0
servers: [{{url: {BASE}}}]
defaults: &defaults {{summary: Usual, 200: a}}
paths:
  /a:
    get: {{<<: *defaults, summary: Own}}
    post: {{<<: *defaults, operationId: two}}
  /b:
    get:
      responses: {{200: {{}}, "200": {{}}}}
"""


@pytest.mark.parametrize(
    ("name", "text", "place", "key"),
    [
        ("a.json", TWICE, "a.json#/paths/~1a b/get/tags/1", "'x'"),
        ("a.json", '{"openapi": "3.1.0", "openapi": "3.0.0", "paths": {}}', "a.json#", "'openapi'"),
        ("a.json", '{"a": {"b": 1, "b": 2}, "a": 3}', "a.json#", "'a'"),
        ("a.yaml", TWICE_YAML, "a.yaml, line 11", "'200'"),
        ("a.yaml", "openapi: 3.1.0\npaths: {}\npaths: {}", "a.yaml, line 3", "'paths'"),
    ],
)
def test_a_key_that_is_there_twice_is_refused_with_its_place(
    tmp_path: Path, name: str, text: str, place: str, key: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        OpenAPIToolset.from_file(tmp_path / name)
    assert caught.value.argument == place
    assert caught.value.problem == f"has the key {key} twice, and one of them would be lost"


def test_a_mapping_may_replace_what_it_takes_from_another(tmp_path: Path) -> None:
    text = TWICE_YAML.replace('200: {}, "200": {}', "200: {}")
    (tmp_path / "a.yaml").write_text(text)
    toolset = OpenAPIToolset.from_file(tmp_path / "a.yaml")
    assert [one.description for one in tools_of(toolset).values()][:2] == ["Own", "Usual"]


def test_an_alias_without_an_end_is_refused(tmp_path: Path) -> None:
    text = f"""
openapi: 3.1.0
servers: [{{url: {BASE}}}]
paths: {{/x: {{get: {{operationId: do, parameters: [{{name: a, in: query, schema: &s {{not: *s}}}}]}}}}}}
"""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        OpenAPIToolset.from_file(tmp_path / "a.yaml")


def test_arguments_tools_and_operations_without_ids_have_different_names() -> None:
    def query(name: str) -> dict[str, Any]:
        return {"name": name, "in": "query", **TEXT}

    named = [query("id_query"), ID, query("id"), query("body"), query("request_body")]
    body = {"requestBody": {"content": {"application/json": {"schema": {"type": "integer"}}}}}
    toolset = make({
        "/a/{id}": {"post": {"operationId": "do", "parameters": named, **body}},
        "/a/b": {"get": {}},
        "/a_b": {"get": {}},
        "/c": {"get": {"operationId": "get_a_b"}},
    })  # fmt: skip
    tools = tools_of(toolset)
    assert list(tools) == ["do", "get_a_b_2", "get_a_b_3", "get_a_b"]
    expected = ["id_query", "id", "id_query_2", "body", "request_body", "request_body_2"]
    assert list(tools["do"].spec.schema["properties"]) == expected


def test_a_name_that_another_tool_has_is_refused_at_its_place() -> None:
    paths = {"/a": {"get": {"operationId": "a/b"}}, "/b": {"get": {"operationId": "a_b"}}}
    with pytest.raises(ConfigurationError, match="paths/~1b/get/operationId: 'a_b' makes the name"):
        make(paths)
    assert list(make(paths, on_refused="skip").refused) == ["a_b"]


def nest(levels: int, part: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that has a part at 2 ** levels places, as aliases of YAML can make it."""
    for _ in range(levels):
        part = {"properties": {"a": part, "b": part}}
    return part


PARENTS = {
    f"P{at}": {"allOf": [{"$ref": f"#/components/schemas/P{at + 1}"}] * 40} for at in range(7)
}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (nest(60, {}), "more than 20,000 parts"),
        ({"$ref": "#Pet"}, "not a place in it"),
        ({"$ref": "#"}, "not a place in it"),
        ({"$ref": "#/components/schemas/P0"}, ""),
    ],
    ids=["aliases", "anchor", "whole", "parents"],
)
def test_a_schema_that_grows_without_bounds_or_leads_nowhere_ends(
    schema: dict[str, Any], problem: str
) -> None:
    body = {"requestBody": {"content": {"application/json": {"schema": schema}}}}
    toolset = make(
        {"/x": {"post": {"operationId": "do", **body}}},
        components={"schemas": {**PARENTS, "P7": {"type": "object"}}},
        on_refused="skip",
    )
    assert problem in toolset.refused.get("do", "")
    assert bool(problem) == ("do" in toolset.refused)


def test_read_only_properties_of_a_form_that_is_referred_to_are_left_out() -> None:
    form = {
        "properties": {"id": {"type": "string", "readOnly": True}, "file": {"format": "binary"}}
    }
    reference = {"schema": {"$ref": "#/components/schemas/Form"}}
    body = {"requestBody": {"content": {"multipart/form-data": reference}}}
    schema = schema_of(body, components={"schemas": {"Form": form}})
    assert list(schema["properties"]["body"]["properties"]) == ["file"]


def test_a_password_in_the_address_of_a_server_is_not_shown() -> None:
    address = "//ada:hunter22@b.example/"
    paths = {"/x": {"get": {"operationId": "do", "servers": [{"url": address}]}}}
    assert "hunter22" not in make(paths, on_refused="skip").refused["do"]
    with pytest.raises(ConfigurationError) as caught:
        OpenAPIToolset.from_file(document_of(paths, servers=[{"url": address}]))
    assert "hunter22" not in str(caught.value)


def test_the_name_of_a_header_that_no_request_can_have_is_refused() -> None:
    wrong = {"name": "X\r\nHost: other", "in": "header", **TEXT}
    with pytest.raises(ConfigurationError, match="not the name of a header"):
        make({"/x": {"get": {"operationId": "do", "parameters": [wrong]}}})


def test_options_show_the_names_of_headers_alone() -> None:
    options = OpenAPIOptions(headers={"X-Key": "secretsecret"})
    assert repr(options) == "OpenAPIOptions(name='api', headers=['X-Key'])"
