"""Judges a request that was read: its fields, its tools, the choice between them, and its schemas.

The checks are written from the vendors' references and refusals, apart from the encoders that they check, so
that both do not share a mistake. A rule without a source must never be added: a request that the provider takes
must pass. Two tools of one name, for example, are refused by Anthropic and Google and taken by OpenAI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.codecs.schemas.dialects import DIALECTS
from holdfast.codecs.schemas.judge import SchemaFault, find_faults, find_request_faults
from holdfast.testing.emulator.emulated_request import EmulatedRequest, MalformedRequest
from holdfast.testing.emulator.wires.dress_words import SchemaProblem
from holdfast.testing.emulator.wires.dresses import Dress
from holdfast.testing.emulator.wires.gemini_history import check_gemini_name, get_field
from holdfast.testing.emulator.wires.openai_chat_history import check_order
from holdfast.testing.emulator.wires.openai_fields import RESPONSES
from holdfast.testing.emulator.wires.openai_responses_history import list_namespaced
from holdfast.testing.emulator.wires.request_rules import (
    FieldRule,
    find_fault,
    object_of,
    word_anthropic,
    word_google,
    word_openai,
)
from holdfast.testing.emulator.wires.vendor_fields import ANTHROPIC, ANTHROPIC_BETA, GEMINI

_Body = Mapping[str, Any]

_CAMEL = re.compile(r"_([a-z])")
_REASONING = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9])(?!.*-chat)")
_MOST_CACHE_MARKS = 4
# Haiku, Sonnet and Opus 4.5 and 4.6 refuse both, measured by others; older models take both.
_ONE_OF_BOTH_SINCE = re.compile(r"claude-(?:[a-z]+-)?(?:4[-.][5-9]|[5-9])")


def check_chat(request: EmulatedRequest, dress: Dress) -> None:
    """Raise MalformedRequest if an endpoint of the Chat Completions wire would refuse the request."""
    body: _Body = request.body
    if (fault := find_fault(body, _chat_rule(dress))) is not None:
        raise dress.words(fault)
    check_order(body, dress)
    if not dress.closed:
        _refuse_other_schemas(_list_chat_schemas(body, dress), dress)
        return
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise MalformedRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    if body.get("max_tokens") is not None and _REASONING.search(request.model):
        raise MalformedRequest(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    _check_chat_choice(body)
    _refuse_openai_schemas(_list_chat_schemas(body, dress))


def _check_chat_choice(body: _Body) -> None:
    tools = body.get("tools") or []
    if not tools and not body.get("functions"):
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.get(name) is not None:
                raise MalformedRequest(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are "
                    "specified.",
                    param=name,
                )
    names = {tool[tool["type"]]["name"] for tool in tools if tool.get("type") in tool}
    for name in _names_of_choice(body.get("tool_choice")):
        if name not in names:
            raise MalformedRequest(
                f"Invalid value for 'tool_choice': no function named {name} was specified in the "
                "'tools' parameter",
                param="tool_choice",
            )


@cache
def _chat_rule(dress: Dress) -> FieldRule:
    return dress.make_rule()


def _names_of_choice(choice: object) -> Iterator[str]:
    """Yield the names of the tools that a choice names, on either of OpenAI's wires."""
    if not isinstance(choice, dict):
        return
    allowed = choice.get("allowed_tools", choice)
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    for tool in listed if isinstance(listed, list) else [choice]:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind in ("function", "custom"):
            named = tool.get(kind, tool)
            name = named.get("name") if isinstance(named, dict) else None
            if isinstance(name, str):
                yield name


def check_responses(request: EmulatedRequest, dress: Dress) -> None:  # noqa: ARG001
    """Raise MalformedRequest if OpenAI would refuse the request on the Responses wire."""
    body: _Body = request.body
    if (fault := find_fault(body, RESPONSES)) is not None:
        raise word_openai(fault)
    choice, tools = body.get("tool_choice"), body.get("tools") or []
    if choice == "required" and not tools:
        raise MalformedRequest(
            "Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice"
        )
    names = {tool.get("name") for tool in tools if isinstance(tool, dict)}
    for name in _names_of_choice(choice):
        if name not in names:
            raise MalformedRequest(
                f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice"
            )
    _check_responses_search(body, tools, request.namespaces)
    _refuse_openai_schemas(_list_responses_schemas(body))


def _check_responses_search(body: _Body, tools: list[_Body], namespaces: Mapping[str, str]) -> None:
    """Check that deferred tools and the search for them come together, and the namespaces of calls."""
    searches = [tool for tool in tools if tool.get("type") == "tool_search"]
    callable_tools = [*tools, *(tool for _, tool in list_namespaced(tools))]
    has_deferred = any(tool.get("defer_loading") is True for tool in callable_tools)
    if has_deferred and not searches:
        # sub2api#5942.
        raise MalformedRequest(
            "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search.",
            param="tools",
        )
    if any(tool.get("execution") != "client" for tool in searches) and not has_deferred:
        # codegraff#746.
        raise MalformedRequest(
            "Invalid Value: 'tools.tool_search'. tools.tool_search requires at least one deferred "
            "tool.",
            param="tools",
        )
    direct = {tool.get("name") for tool in tools if tool.get("type") == "function"}
    items = body.get("input")
    for at, item in enumerate(items if isinstance(items, list) else ()):
        name = item.get("name") if item.get("type") == "function_call" else None
        if name in namespaces and name not in direct and not item.get("namespace"):
            # vercel/ai#15193, pi#7709.
            raise MalformedRequest(
                f"Missing namespace for function_call '{name}'. It does not exist in the default "
                "namespace. Round-trip the model's function_call item with its namespace field "
                "included.",
                param=f"input[{at}].namespace",
            )


def check_anthropic(request: EmulatedRequest, dress: Dress) -> None:  # noqa: ARG001
    """Raise MalformedRequest if Anthropic would refuse the request."""
    body: _Body = request.body
    rule = _ANTHROPIC_BETA if request.headers.get("anthropic-beta") else _ANTHROPIC
    if (fault := find_fault(body, rule)) is not None:
        raise word_anthropic(fault)
    tools = body.get("tools") or []
    names = [tool.get("name") for tool in tools if isinstance(tool, dict) and tool.get("name")]
    if len(set(names)) < len(names):
        raise MalformedRequest("tools: Tool names must be unique.")
    _check_anthropic_choice(body, names)
    _check_anthropic_search(body, tools, names)
    _check_anthropic_sampling(body, request.model)
    marks = _count_cache_marks(body)
    if marks > _MOST_CACHE_MARKS:
        raise MalformedRequest(
            f"A maximum of {_MOST_CACHE_MARKS} blocks with cache_control may be provided. Found "
            f"{marks}."
        )
    _refuse_anthropic_schemas(body)


def _check_anthropic_search(body: _Body, tools: list[_Body], names: list[Any]) -> None:
    """Check the tools that a search finds, and the references of searches to them."""
    deferred = [tool for tool in tools if tool.get("defer_loading") is True]
    if deferred and len(deferred) == len(tools):
        raise MalformedRequest(
            "At least one tool must have defer_loading=false. All tools cannot be deferred."
        )
    for tool in deferred:
        if tool.get("cache_control") is not None:
            # CLIProxyAPI#4561.
            raise MalformedRequest(
                f"Tool '{tool.get('name')}' cannot have both defer_loading=true and cache_control "
                "set. Tools with defer_loading cannot use prompt caching."
            )
    for name in _list_references(body["messages"]):
        if name not in names:
            # claude-code#81863.
            raise MalformedRequest(f"Tool reference '{name}' not found in available tools")


def _list_references(messages: list[_Body]) -> Iterator[object]:
    """Yield the names in the references of the results of searches."""
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            inner = block.get("content")
            if isinstance(inner, dict):
                inner = inner.get("tool_references")
            for one in inner if isinstance(inner, list) else ():
                if isinstance(one, dict) and one.get("type") == "tool_reference":
                    yield one.get("tool_name")


def _check_anthropic_choice(body: _Body, names: list[Any]) -> None:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    kind = choice.get("type")
    if not body.get("tools"):
        raise MalformedRequest("tool_choice may only be specified while providing tools.")
    if kind == "tool" and choice.get("name") not in names:
        raise MalformedRequest(f"Tool '{choice.get('name')}' not found in provided tools")
    # With adaptive thinking the model may choose not to think: such a request was answered.
    if kind in ("tool", "any") and _thinks(body, "enabled"):
        raise MalformedRequest("Thinking may not be enabled when tool_choice forces tool use.")


def _thinks(body: _Body, *kinds: str) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in kinds


def _check_anthropic_sampling(body: _Body, model: str) -> None:
    temperature = body.get("temperature")
    if temperature is not None and temperature != 1 and _thinks(body, "enabled", "adaptive"):
        raise MalformedRequest(
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. Please "
            "consult our documentation at https://docs.claude.com/en/docs/build-with-claude/"
            "extended-thinking#important-considerations-when-using-extended-thinking"
        )
    if None not in (temperature, body.get("top_p")) and _ONE_OF_BOTH_SINCE.search(model):
        raise MalformedRequest(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )


def _count_cache_marks(body: _Body) -> int:
    """Return how many blocks have a mark: of the tools, the system text, the messages, and the request itself."""
    found = 0
    waiting: list[object] = [body.get("tools"), body.get("system")]
    waiting += [message.get("content") for message in body["messages"]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            found += value.get("cache_control") is not None
            waiting.append(value.get("content"))
    return found + (body.get("cache_control") is not None)


_ANTHROPIC = object_of(ANTHROPIC)
_ANTHROPIC_BETA = object_of({**ANTHROPIC, **ANTHROPIC_BETA})


def check_gemini(request: EmulatedRequest, dress: Dress) -> None:  # noqa: ARG001
    """Raise MalformedRequest if Google would refuse the request."""
    body: _Body = request.body
    try:
        fault = find_fault(body, GEMINI, rename=_to_camel_case)
    except RecursionError:
        text = "Invalid JSON payload received. Message too deep. Max recursion depth reached"
        raise MalformedRequest(text) from None
    if fault is not None:
        raise word_google(fault)
    names: list[str] = []
    for at, number, declaration in _declarations(body):
        check_gemini_name(
            str(declaration.get("name", "")), f"tools[{at}].function_declarations[{number}]"
        )
        names.append(declaration["name"])
    for name in names:
        if names.count(name) > 1:
            raise MalformedRequest(f"Duplicate function declaration found: {name}")
    config = get_field(body, "toolConfig") or {}
    calling = get_field(config, "functionCallingConfig") or {}
    # A model of images took a configuration that allows nothing.
    if calling and not names and "-image" not in request.model:
        raise MalformedRequest("Function calling config is set without function_declarations.")
    for name in get_field(calling, "allowedFunctionNames") or []:
        if name not in names:
            # The reference says that the names should match declared ones; no refusal was published.
            raise MalformedRequest(
                "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: "
                f"function {name} is not declared\n"
            )
    _refuse_gemini_schemas(body)


def _declarations(body: _Body) -> Iterator[tuple[int, int, _Body]]:
    """Yield the declarations of functions, each with the number of its tool and its own."""
    tools = body.get("tools") or []
    for at, tool in enumerate(tools if isinstance(tools, list) else [tools]):
        declared = get_field(tool, "functionDeclarations") or []
        for number, one in enumerate(declared):
            yield at, number, one


@cache
def _to_camel_case(name: str) -> str:
    return _CAMEL.sub(lambda match: match[1].upper(), name)


class JudgedSchema(Struct, frozen=True):
    """A schema of a request, and how a refusal names it.

    Args:
        schema: the schema.
        dialect: the name of its dialect; "" if the provider takes every schema.
        place: the path of the schema in the request.
        subject: the words of OpenAI's server for it, such as "function 'weather'".
        code: the code of OpenAI's error.
        name: the name of the tool or the output.
    """

    schema: object
    dialect: str
    place: str
    subject: str = ""
    code: str | None = None
    name: str = ""


_OPENAI_ENFORCED = frozenset(
    {"form", "reference", "properties", "needs_items", "needs_object", "patterns", "refused_at_top"}
)
_STRICT_ENFORCED = _OPENAI_ENFORCED | {
    "beside_reference",
    "closes_objects",
    "formats",
    "keywords",
    "limits",
    "needs_types",
    "requires_all",
}
_ENFORCED: Final[Mapping[str, frozenset[str]]] = {
    "openai_tool": _OPENAI_ENFORCED,
    "openai_strict": _STRICT_ENFORCED,
    "anthropic_tool": frozenset({"form", "property_names", "refused_at_top"}),
    "anthropic_strict": frozenset(
        {
            "closes_objects",
            "form",
            "formats",
            "keywords",
            "largest_min_items",
            "literal_types",
            "property_names",
            "recursion",
            "reference",
        }
    ),
    "gemini": frozenset({"beside_reference", "recursion"}),
    "cerebras": _STRICT_ENFORCED | {"most_branches", "recursion", "takes_type_lists"},
    "groq_strict": frozenset({"closes_objects", "keywords", "needs_object", "requires_all"}),
    "llama_cpp": frozenset({"patterns", "reference", "takes_empty"}),
    "llguidance": frozenset({"formats", "keywords", "patterns", "reference"}),
    "xai": frozenset({"form", "keywords", "needs_object", "recursion", "refused_at_top"}),
    "xgrammar": frozenset({"patterns", "reference", "whole_bounds"}),
}
"""The rules of each dialect that a server enforces by a refusal on record. It passes over the others, or makes of them
as it likes: a dialect has all that the provider guarantees, and a request that it takes must pass."""

_REFUSED_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    # The tables of pydantic-ai and of openai-node. `default` was refused in 2024, and is taken since: recorded.
    "openai_strict": frozenset(
        [
            "allOf",
            "contains",
            "dependentRequired",
            "dependentSchemas",
            "else",
            "if",
            "maxContains",
            "maxProperties",
            "minContains",
            "minProperties",
            "not",
            "oneOf",
            "patternProperties",
            "prefixItems",
            "propertyNames",
            "then",
            "unevaluatedItems",
            "unevaluatedProperties",
            "uniqueItems",
        ]
    ),
    # "For 'integer' type, properties maximum, minimum are not supported", "For 'array' type, property 'maxItems' is not
    # supported", "Schema type 'oneOf' is not supported"; the guide to structured outputs names the others.
    "anthropic_strict": frozenset(
        [
            "contains",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minLength",
            "minProperties",
            "minimum",
            "multipleOf",
            "not",
            "oneOf",
            "patternProperties",
            "propertyNames",
            "unevaluatedProperties",
            "uniqueItems",
        ]
    ),
    # Bounds were refused, and what the guide to structured outputs does not list.
    "cerebras": frozenset(
        [
            "allOf",
            "contains",
            "default",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "if",
            "maxItems",
            "maxLength",
            "maximum",
            "minItems",
            "minLength",
            "minimum",
            "multipleOf",
            "not",
            "oneOf",
            "pattern",
            "patternProperties",
            "prefixItems",
            "uniqueItems",
        ]
    ),
    # "minItems is not supported" (beeai-framework#1215).
    "groq_strict": frozenset(["minItems", "maxItems"]),
    # docs.x.ai: these two are refused, and others are not enforced.
    "xai": frozenset(["minContains", "maxContains"]),
    # "Unimplemented keys", tried with 1.9.1.
    "llguidance": frozenset(
        [
            "contains",
            "dependentRequired",
            "else",
            "if",
            "not",
            "propertyNames",
            "then",
            "unevaluatedProperties",
            "uniqueItems",
        ]
    ),
}
# "schema at properties.draft can only contain properties starting with '$'"; these two are taken since (gcli2api#374).
_TAKEN_BESIDE = frozenset({"default", "description"})


def find_refused(judged: JudgedSchema) -> list[SchemaFault]:
    """Return the faults of a schema that its server refuses on record."""
    if not judged.dialect:
        return []
    faults = _judge_encoded(msgspec.json.encode(judged.schema), judged.dialect)
    is_output = judged.place == "response_format"
    return [
        fault
        for fault in faults
        if _is_enforced(fault, judged.dialect)
        # "tool parameter root must be an object type" says nothing of outputs.
        and not (is_output and judged.dialect == "xai" and fault.rule in _OF_THE_TOP)
    ]


_OF_THE_TOP: Final = ("needs_object", "refused_at_top")


@lru_cache(maxsize=512)
def _judge_encoded(schema: bytes, dialect: str) -> tuple[SchemaFault, ...]:
    """Judge a schema, once for all the requests of a run."""
    return tuple(find_faults(msgspec.json.decode(schema), DIALECTS[dialect]))


def _is_enforced(fault: SchemaFault, dialect: str) -> bool:
    if fault.rule not in _ENFORCED[dialect]:
        return False
    if fault.rule == "keywords":
        return fault.keyword in _REFUSED_KEYWORDS[dialect]
    if fault.rule == "takes_empty":
        # "Unrecognized schema" is said of a part without a type, and not of {}.
        return bool(fault.keyword)
    if fault.rule == "patterns" and dialect != "llama_cpp":
        return "lookaround" in fault.problem
    if fault.rule == "beside_reference" and dialect == "gemini":
        return fault.keyword not in _TAKEN_BESIDE and not fault.keyword.startswith("$")
    return True


def _refuse_openai_schemas(schemas: Iterable[JudgedSchema]) -> None:
    """Raise the refusal of the first schema that OpenAI's server refuses, in its words."""
    for judged in schemas:
        for fault in find_refused(judged):
            if fault.rule == "patterns":
                at = "".join(_dotted_steps(f"{fault.place}/pattern"))
                text = f"Invalid JSON schema: {fault.problem} Found at ${at}."
                raise MalformedRequest(text, param=judged.place, code="invalid_json_schema")
            problem = fault.problem
            if fault.rule not in ("needs_object", "refused_at_top", "limits"):
                steps = tuple(_steps_of(fault.place))
                problem = f"In context={steps}, {problem}"
            text = f"Invalid schema for {judged.subject}: {problem}"
            raise MalformedRequest(text, param=judged.place, code=judged.code)


def _refuse_other_schemas(schemas: Iterable[JudgedSchema], dress: Dress) -> None:
    """Raise the refusal of the first schema that another server of OpenAI's protocol refuses, in its words."""
    for judged in schemas:
        for fault in find_refused(judged):
            problem = SchemaProblem(
                fault.problem, fault.rule, fault.place, judged.name, judged.place
            )
            raise dress.schema_words.refuse(problem)


def _steps_of(pointer: str) -> list[str]:
    steps = pointer.split("/")[1:]
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


def _dotted_steps(pointer: str) -> Iterator[str]:
    for step in _steps_of(pointer):
        yield f"[{step}]" if step.isdecimal() else f".{step}"


def _list_chat_schemas(body: _Body, dress: Dress) -> Iterator[JudgedSchema]:
    for at, tool in enumerate(body.get("tools") or []):
        function = tool.get("function") or {}
        if function.get("parameters") is not None:
            yield JudgedSchema(
                function["parameters"],
                dress.strict_tools if function.get("strict") else dress.tools,
                f"tools[{at}].function.parameters",
                f"function '{function.get('name')}'",
                code="invalid_function_parameters",
                name=str(function.get("name")),
            )
    described = (body.get("response_format") or {}).get("json_schema") or {}
    if "schema" in described:
        yield JudgedSchema(
            described["schema"],
            dress.strict_outputs if described.get("strict") else dress.outputs,
            "response_format",
            f"response_format '{described.get('name')}'",
            name=str(described.get("name")),
        )


def _list_responses_schemas(body: _Body) -> Iterator[JudgedSchema]:
    for place, tool in _place_functions(body.get("tools") or []):
        if tool.get("parameters") is not None:
            yield JudgedSchema(
                tool["parameters"],
                # Without this field the server makes the schema strict where that is possible, and takes it otherwise.
                "openai_strict" if tool.get("strict") else "openai_tool",
                f"{place}.parameters",
                f"function '{tool.get('name')}'",
                "invalid_function_parameters",
            )
    described = (body.get("text") or {}).get("format") or {}
    if "schema" in described:
        yield JudgedSchema(
            described["schema"],
            "openai_strict" if described.get("strict") else "",
            "text.format.schema",
            f"response_format '{described.get('name')}'",
            "invalid_json_schema",
        )


def _place_functions(tools: list[_Body]) -> Iterator[tuple[str, _Body]]:
    """Yield the functions of a Responses request with their places, also those in namespaces."""
    for at, tool in enumerate(tools):
        if tool.get("type") == "function":
            yield f"tools[{at}]", tool
        elif tool.get("type") == "namespace":
            for place, inner in _place_functions(tool["tools"]):
                yield f"tools[{at}].{place}", inner


def _refuse_anthropic_schemas(body: _Body) -> None:
    strict: list[object] = []
    for at, tool in enumerate(body.get("tools") or []):
        if tool.get("type", "custom") == "custom" and "input_schema" in tool:
            place = f"tools.{at}.custom"
            if tool.get("strict"):
                strict.append(tool["input_schema"])
                _refuse_anthropic_schema(tool["input_schema"], "anthropic_strict", place)
            _refuse_anthropic_schema(
                tool["input_schema"], "anthropic_tool", f"{place}.input_schema"
            )
    for name in ("output_config", "output_format"):
        config = body.get(name) or {}
        described = config.get("format") or {} if name == "output_config" else config
        if "schema" in described:
            place = "output_config.format" if name == "output_config" else name
            strict.append(described["schema"])
            _refuse_anthropic_schema(described["schema"], "anthropic_strict", f"{place}.schema")
    for fault in find_request_faults(strict, DIALECTS["anthropic_strict"]):
        raise MalformedRequest(fault.problem)


def _refuse_anthropic_schema(schema: object, dialect: str, place: str) -> None:
    faults = find_refused(JudgedSchema(schema, dialect, place))
    if not faults:
        return
    first = faults[0]
    if first.rule == "form":
        raise MalformedRequest(
            f"{place}: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
            "(https://json-schema.org/draft/2020-12). Learn more about tool use at "
            "https://docs.claude.com/en/docs/tool-use."
        )
    if first.rule == "property_names":
        place = f"{place}.properties"
    problem = first.problem
    together = [one.keyword for one in faults if (one.rule, one.place) == ("keywords", first.place)]
    if first.rule == "keywords" and len(together) > 1:
        # The server names all of one part.
        kind = problem.partition(" type,")[0]
        problem = f"{kind} type, properties {', '.join(sorted(together))} are not supported"
    raise MalformedRequest(f"{place}: {problem}")


def _refuse_gemini_schemas(body: _Body) -> None:
    schemas = [get_field(one, "parametersJsonSchema") for _, _, one in _declarations(body)]
    config = get_field(body, "generationConfig") or {}
    schemas.append(get_field(config, "responseJsonSchema"))
    for schema in schemas:
        if schema is not None:
            for fault in find_refused(JudgedSchema(schema, "gemini", "")):
                raise MalformedRequest(fault.problem)


CHECKS: Final[Mapping[str, Callable[[EmulatedRequest, Dress], None]]] = {
    "openai_chat": check_chat,
    "openai_responses": check_responses,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
}
"""By the name of the wire: raises MalformedRequest if the provider would refuse a request."""
