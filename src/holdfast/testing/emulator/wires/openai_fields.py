"""The fields that OpenAI takes in a request, as tables.

Sources: the request types of the vendor's SDK (openai 3.52), with which a test compares the names, and the
refusals that the comments quote. A field that no source describes has any value. These tables must never
name a field that only our encoders know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.testing.emulator.wires.request_rules import (
    ANY,
    FLAG,
    OBJECT,
    TEXT,
    FieldRule,
    by_tag,
    choice,
    list_of,
    number,
    object_of,
    whole,
)

Fields = Mapping[str, FieldRule]

_LIST = list_of(ANY)
_TEXTS = list_of(TEXT)
WORD_OR_OBJECT = FieldRule(kinds=("string", "object"))


_OPENAI_NAME = FieldRule(kinds=("string",), pattern="[a-zA-Z0-9_-]+", longest=64)
_EFFORT = choice("none minimal low medium high xhigh max")
_VERBOSITY = choice("low medium high")
MOST_TOOLS = (
    128  # "array too long. Expected an array with maximum length 128": opencode#4909, zed#42393
)
_MOST_PAIRS = 16  # of metadata: the API reference
_LONGEST_KEY = (
    64  # "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64"
)

_OPENAI_SHARED: Fields = {
    # The server says "Invalid type for 'metadata.modified': expected a string, but got a boolean instead."
    "metadata": FieldRule(kinds=("object",), entries=TEXT, longest=_MOST_PAIRS),
    "model": TEXT,
    "moderation": OBJECT,
    "parallel_tool_calls": FLAG,
    "prompt_cache_key": FieldRule(kinds=("string",), longest=_LONGEST_KEY),
    "prompt_cache_options": OBJECT,
    "prompt_cache_retention": choice("in_memory 24h"),
    "safety_identifier": FieldRule(kinds=("string",), longest=64),
    "service_tier": choice("auto default flex scale priority fast ultrafast"),
    "store": FLAG,
    "stream": FLAG,
    # The server says "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 99.0 instead."
    "temperature": number(0, 2),
    "top_logprobs": whole(0, 20),
    "top_p": number(0, 1),
    "user": TEXT,
}
_FUNCTION: Fields = {
    "name": _OPENAI_NAME,
    "description": TEXT,
    "parameters": OBJECT,
    "strict": FLAG,
}
_NAMED: Fields = {"type": TEXT, "name": _OPENAI_NAME}

# Chat Completions.

_CACHED = {"type": TEXT, "prompt_cache_breakpoint": OBJECT}
# The server says "Unknown parameter: 'messages[1].content[1].file.data'." and "... 'messages[0].content[0].cache_control'.";
# and "Invalid value: 'image'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'."
CHAT_PARTS: Fields = {
    "text": object_of({**_CACHED, "text": TEXT}, "text"),
    "image_url": object_of(
        {**_CACHED, "image_url": object_of(("url", "detail"), "url")}, "image_url"
    ),
    "input_audio": object_of({**_CACHED, "input_audio": object_of(("data", "format"), "data")}),
    "refusal": object_of({"type": TEXT, "refusal": TEXT}, "refusal"),
    "audio": ANY,
    "file": object_of({**_CACHED, "file": object_of(("file_data", "file_id", "filename"))}, "file"),
}
# The server says "Unknown parameter: 'messages[2].tool_calls[0].index'."
CHAT_CALL = by_tag(
    {
        "function": object_of(
            {"id": TEXT, "type": TEXT, "function": object_of({"name": TEXT, "arguments": TEXT})},
            "id",
            "function",
        ),
        "custom": object_of(
            {"id": TEXT, "type": TEXT, "custom": object_of({"name": TEXT, "input": TEXT})}, "id"
        ),
    }
)
CHAT_TOOL = by_tag(
    {
        "function": object_of({"type": TEXT, "function": object_of(_FUNCTION, "name")}, "function"),
        "custom": object_of(
            {
                "type": TEXT,
                "custom": object_of({"name": _OPENAI_NAME, "description": TEXT, "format": ANY}),
            },
            "custom",
        ),
    }
)
_CHAT_FORMAT = by_tag(
    {
        "text": object_of(("type",)),
        "json_object": object_of(("type",)),
        "json_schema": object_of(
            {
                "type": TEXT,
                "json_schema": object_of(
                    {"name": _OPENAI_NAME, "description": TEXT, "schema": OBJECT, "strict": FLAG},
                    "name",
                ),
            },
            "json_schema",
        ),
    }
)
_CHAT_CHOICE = FieldRule(
    kinds=("string", "object"),
    choices=("none", "auto", "required"),
    variants={
        "function": object_of(
            {"type": TEXT, "function": object_of({"name": TEXT}, "name")}, "function"
        ),
        "allowed_tools": object_of(("type", "allowed_tools"), "allowed_tools"),
        "custom": object_of(("type", "custom"), "custom"),
    },
    closed=True,
)
CHAT: Fields = {
    **_OPENAI_SHARED,
    "messages": ANY,
    "audio": OBJECT,
    "frequency_penalty": number(-2, 2),
    "function_call": WORD_OR_OBJECT,
    "functions": _LIST,
    "logit_bias": OBJECT,
    "logprobs": FLAG,
    "max_completion_tokens": whole(1),
    "max_tokens": whole(1),
    "modalities": list_of(choice("text audio")),
    "n": whole(1, 128),
    "prediction": OBJECT,
    "presence_penalty": number(-2, 2),
    "reasoning_effort": _EFFORT,
    "response_format": _CHAT_FORMAT,
    "seed": whole(),
    "stop": FieldRule(kinds=("string", "array"), items=TEXT, longest=4),
    "stream_options": object_of({"include_usage": FLAG, "include_obfuscation": FLAG}),
    "tool_choice": _CHAT_CHOICE,
    # The server says "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    "tools": list_of(CHAT_TOOL, shortest=1, longest=MOST_TOOLS),
    "verbosity": _VERBOSITY,
    "web_search_options": OBJECT,
}
"""The fields of a Chat Completions request to OpenAI; `messages` depends on the provider."""


# Responses. "Unknown parameter: 'reasoning.max_tokens'.", "... 'input[0].content[0].cache_control'.", "...
# 'input[2].tool_calls'.". Items and tools of other types are open: the API adds some each month.

_ITEM = {"type": TEXT, "id": TEXT, "status": TEXT}
_CALLED: Fields = {**_ITEM, "call_id": TEXT, "caller": OBJECT}
_CALLS: Fields = {**_CALLED, "name": TEXT, "namespace": TEXT, "async": FLAG}
_SEARCHED: Fields = {"call_id": ANY, "execution": choice("server client")}
_OUTPUT = FieldRule(kinds=("string", "array"), items=OBJECT)
_ITEM_PARTS = by_tag(
    {
        "input_text": object_of({**_CACHED, "text": TEXT}, "text"),
        "input_image": object_of({**_CACHED, "detail": TEXT, "file_id": TEXT, "image_url": TEXT}),
        "input_file": object_of(
            {
                **_CACHED,
                **dict.fromkeys(("detail", "file_data", "file_id", "file_url", "filename"), TEXT),
            }
        ),
        "output_text": object_of(
            {"type": TEXT, "text": TEXT, "annotations": _LIST, "logprobs": _LIST}
        ),
        "refusal": object_of({"type": TEXT, "refusal": TEXT}, "refusal"),
    },
    closed=False,
)
_ITEMS = by_tag(
    {
        "message": object_of(
            {
                **_ITEM,
                "role": TEXT,
                "phase": TEXT,
                "content": FieldRule(kinds=("string", "array"), items=_ITEM_PARTS),
            }
        ),
        "function_call": object_of({**_CALLS, "arguments": TEXT}),
        "function_call_output": object_of({**_CALLS, "output": _OUTPUT}),
        "custom_tool_call": object_of({**_CALLS, "input": TEXT}),
        "custom_tool_call_output": object_of({**_CALLED, "output": _OUTPUT}),
        "reasoning": object_of(
            {**_ITEM, "summary": _LIST, "content": _LIST, "encrypted_content": TEXT}
        ),
        "tool_search_call": object_of(
            {**_ITEM, **_SEARCHED, "arguments": ANY, "created_by": TEXT}, "arguments"
        ),
        "tool_search_output": object_of(
            {**_ITEM, **_SEARCHED, "tools": _LIST, "created_by": TEXT}, "tools"
        ),
    },
    closed=False,
    default="message",
)
_LATER: Fields = {"allowed_callers": _LIST, "async": FLAG, "defer_loading": FLAG}
_CALLABLE: Fields = {
    "function": object_of({**_LATER, **_FUNCTION, "type": TEXT, "output_schema": OBJECT}, "name"),
    "custom": object_of({**_LATER, **_NAMED, "description": TEXT, "format": OBJECT}, "name"),
}
_TOOLS = by_tag(
    {
        **_CALLABLE,
        "namespace": object_of(
            {**_NAMED, "description": TEXT, "tools": list_of(by_tag(_CALLABLE, closed=False))},
            "name",
            "description",
            "tools",
        ),
        "tool_search": object_of(
            {
                "type": TEXT,
                "execution": choice("server client"),
                "description": TEXT,
                "parameters": OBJECT,
            }
        ),
    },
    closed=False,
)
_TEXT_FORMAT = by_tag(
    {
        "text": object_of(("type",)),
        "json_object": object_of(("type",)),
        "json_schema": object_of(
            {**_NAMED, "description": TEXT, "schema": OBJECT, "strict": FLAG}, "name", "schema"
        ),
    }
)
RESPONSES: Final = object_of(
    {
        **_OPENAI_SHARED,
        "access_programs": OBJECT,
        "background": FLAG,
        "context_management": _LIST,
        "conversation": WORD_OR_OBJECT,
        "image": OBJECT,
        "include": _TEXTS,
        "input": FieldRule(kinds=("string", "array"), items=_ITEMS),
        "instructions": TEXT,
        # The server says "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead."
        "max_output_tokens": whole(16),
        "max_tool_calls": whole(),
        "previous_response_id": TEXT,
        "prompt": OBJECT,
        "reasoning": object_of(
            {
                "context": TEXT,
                "effort": _EFFORT,
                "generate_summary": choice("auto concise detailed"),
                "mode": TEXT,
                "summary": choice("auto concise detailed"),
            }
        ),
        "stream_options": object_of({"include_obfuscation": FLAG}),
        "text": object_of({"format": _TEXT_FORMAT, "verbosity": _VERBOSITY}),
        "tool_choice": FieldRule(
            kinds=("string", "object"), choices=("none", "auto", "required"), fields=None
        ),
        "tools": list_of(_TOOLS, longest=MOST_TOOLS),
        "truncation": choice("auto disabled"),
    }
)
"""A Responses request to OpenAI."""
