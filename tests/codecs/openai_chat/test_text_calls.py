"""Each form of calls in a text, as documented and tested elsewhere: read whole in any pieces, or refused."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.linear import is_linear

from holdfast.codecs.json_text import read_strict_json
from holdfast.codecs.openai_chat.call_scans import Schemas
from holdfast.codecs.openai_chat.text_calls import TextCallReader

Calls = list[tuple[str, str]]
ANY = object()

AREA: Schemas = {
    "area": {
        "properties": {
            "shape": {"type": "string"},
            "dimensions": {"$ref": "#/$defs/Size"},
            "precision": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "exact": {"type": "boolean"},
            "kind": {"enum": ["1", "2"]},
            "level": {"enum": [1, 2]},
        },
        "$defs": {"Size": {"type": "object"}},
    }
}


def read(
    form: str, text: str, size: int = 10_000, tools: Schemas | None = None
) -> tuple[str, Calls]:
    reader = TextCallReader(form, tools)
    shown = "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size))
    shown += reader.close()
    return shown, [(call.name, call.arguments) for call in reader.calls]


def parameter(name: str, value: str) -> str:
    return f"<parameter={name}>\n{value}\n</parameter>\n"


def function(name: str, *parameters: str) -> str:
    return f"<tool_call>\n<function={name}>\n{''.join(parameters)}</function>\n</tool_call>"


# Form, text, what is shown, and the calls.
READ = {
    # vllm-project/vllm: tests/tool_parsers/test_hermes_tool_parser.py, and the templates of Hermes and Qwen 2.5.
    "hermes": ("hermes", '<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>', "", [("a", '{"x": 1}')]),
    "hermes, the name last": ("hermes", 'Hi <tool_call>{"arguments": {}, "name": "a"}</tool_call>!', "Hi !", [("a", "{}")]),
    "hermes, an end tag inside": (
        "hermes",
        '<tool_call>{"name": "a", "arguments": {"x": "</tool_call>\\"}"}}</tool_call>',
        "",
        [("a", '{"x": "</tool_call>\\"}"}')],
    ),
    "hermes, nested": (
        "hermes",
        '<tool_call>{"name": "a", "arguments": {"x": "<tool_call>{\\"name\\": \\"b\\"}</tool_call>"}}</tool_call>',
        "",
        [("a", '{"x": "<tool_call>{\\"name\\": \\"b\\"}</tool_call>"}')],
    ),
    "hermes, arguments as a text": (
        "hermes", '<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', "", [("a", '{"x": 1}')],
    ),
    # vllm-project/vllm: tests/tool_parsers/test_llama3_json_tool_parser.py; sglang: sgl-router's tests.
    "llama, bare": ("llama3_json", '{"name": "a", "parameters": {"x": 1}}', "", [("a", '{"x": 1}')]),
    "llama, two": (
        "llama3_json",
        '{"name": "a", "parameters": {"x": 1}}; {"name": "b", "arguments": {}}',
        "",
        [("a", '{"x": 1}'), ("b", "{}")],
    ),
    "llama, marked": (
        "llama3_json", 'Here: <|python_tag|>{"name": "a", "parameters": {"q": "x"}}', "Here: ", [("a", '{"q": "x"}')],
    ),
    "llama, text behind": ("llama3_json", '{"name": "a", "parameters": {}} Done', " Done", [("a", "{}")]),
    "llama, another object": ("llama3_json", '{"city": "Porto"}', '{"city": "Porto"}', []),
    "llama, a person": ("llama3_json", '{"name": "Bob", "age": 3}', '{"name": "Bob", "age": 3}', []),
    # vllm-project/vllm: tests/tool_parsers/test_mistral_tool_parser.py.
    "mistral": (
        "mistral",
        'Hello[TOOL_CALLS] [{"name": "add", "arguments":{"a": 3.5}}, {"arguments":{"name": "J"}, "name": "age"}]\nmore',
        "Hello\nmore",
        [("add", '{"a": 3.5}'), ("age", '{"name": "J"}')],
    ),
    "mistral, names": (
        "mistral", '[TOOL_CALLS]add{"a": 3}[TOOL_CALLS]mul[ARGS]{"b": 4}', "", [("add", '{"a": 3}'), ("mul", '{"b": 4}')],
    ),
    "mistral, an id": ("mistral", "[TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{}", "", [("add", "{}")]),
    "mistral, no JSON": ("mistral", "[TOOL_CALLS] not json at all", "[TOOL_CALLS] not json at all", []),
    # vllm-project/vllm: tests/tool_parsers/test_qwen3coder_tool_parser.py.
    "qwen": (
        "qwen3_coder",
        "Sure!" + function("area", parameter("shape", "a\nb"), parameter("dimensions", '{"w": 1,\n "h": 2}'), parameter("precision", "2")),
        "Sure!",
        [("area", '{"shape": "a\\nb", "dimensions": {"w": 1, "h": 2}, "precision": 2}')],
    ),
    "qwen, types": (
        "qwen3_coder",
        function("area", parameter("precision", "null"), parameter("exact", "True"), parameter("kind", "1"), parameter("level", "1"), parameter("new", "1")),
        "",
        [("area", '{"precision": null, "exact": true, "kind": "1", "level": 1, "new": "1"}')],
    ),
    "qwen, no opening tag": (
        "qwen3_coder", f"<function=look>\n{parameter('at', 'x')}</function>\n</tool_call>", "", [("look", '{"at": "x"}')],
    ),
    "qwen, tags inside": (
        "qwen3_coder",
        function("look", parameter("at", "a</parameter>b</tool_call>c</function>")),
        "",
        [("look", '{"at": "a</parameter>b</tool_call>c</function>"}')],
    ),
    "qwen, nothing": ("qwen3_coder", function("look"), "", [("look", "{}")]),
    # Texts about the form.
    "a word": ("hermes", "The <tool_call> tag", "The <tool_call> tag", []),
    "code": ("hermes", 'Use `<tool_call>{"name": "a", "arguments": {}}</tool_call>`.', ANY, []),
    "a fence": ("hermes", '```xml\n<tool_call>{"name": "a"}</tool_call>\n```\nDone', ANY, []),
    "a fence of tildes": ("qwen3_coder", f"~~~\n{function('a')}\n~~~", ANY, []),
    "quotes": ("hermes", '"<tool_call>{"name": "a", "arguments": {}}</tool_call>"', ANY, []),
    "a fence and a call": (
        "hermes", '```\nx = 1\n```\n<tool_call>{"name": "a", "arguments": {}}</tool_call>', "```\nx = 1\n```\n", [("a", "{}")],
    ),
    "an apostrophe of another line": (
        "hermes", 'It is 5` long.\n<tool_call>{"name": "a", "arguments": {}}</tool_call>', "It is 5` long.\n", [("a", "{}")],
    ),
    "another form": ("mistral", function("a"), function("a"), []),
}  # fmt: skip

# Form, text, and the name that the refused call has.
REFUSED = {
    "cut in the name": ("hermes", '<tool_call>{"name": "lo', ""),
    "cut in the arguments": ("hermes", '<tool_call>{"name": "look", "arguments": {"x', "look"),
    "no end tag": ("hermes", '<tool_call>{"name": "look", "arguments": {}}', "look"),
    "only a mark": ("hermes", "So:\n<tool_call>", ""),
    "a bracket too much": ("hermes", '<tool_call>{"name": "look", "arguments": {}}}</tool_call>', "look"),
    "a key twice": ("hermes", '<tool_call>{"name": "a", "name": "b", "arguments": {}}</tool_call>', "a"),
    "no name": ("hermes", '<tool_call>{"arguments": {}}</tool_call>', ""),
    "two without an end": ("hermes", '<tool_call>{"name": "a"}<tool_call>{"name": "b"}</tool_call>', "a"),
    "a fence that is never closed": ("hermes", '```\n<tool_call>{"name": "a"}</tool_call>', ""),
    "code that is never closed": ("hermes", 'A `<tool_call>{"name": "a"}</tool_call>\nB', ""),
    "llama, cut": ("llama3_json", '{"name": "look", "param', "look"),
    "llama, cut in a key": ("llama3_json", '{"na', ""),
    "llama, code": ("llama3_json", '<|python_tag|>print("x")', ""),
    "llama, then no call": ("llama3_json", '{"name": "a", "parameters": {}};{"name": "b", "x": 1}', "b"),
    "mistral, cut": ("mistral", '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}', "add"),
    "mistral, cut in the name": ("mistral", "[TOOL_CALLS]ad", ""),
    "mistral, an empty list": ("mistral", "[TOOL_CALLS][]", ""),
    "mistral, one is none": ("mistral", '[TOOL_CALLS][{"name": "a", "arguments": {}}, {"x": 1}]', "a"),
    "qwen, cut in a value": ("qwen3_coder", "<tool_call><function=look><parameter=at>x", "look"),
    "qwen, no end of a value": ("qwen3_coder", "<tool_call><function=look><parameter=at>x</function></tool_call>", "look"),
    "qwen, a parameter twice": ("qwen3_coder", function("look", parameter("a", "1"), parameter("a", "2")), "look"),
    "qwen, text between": ("qwen3_coder", function("look", "x" + parameter("a", "1")), "look"),
    # The value may be the whole of "x</parameter>...", or a call ended and a text follows.
    "qwen, two ends": ("qwen3_coder", function("look", parameter("a", function("b", parameter("c", "d")))), "look"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "text", "shown", "calls"), READ.values(), ids=READ)
def test_a_form_is_read_in_any_pieces(form: str, text: str, shown: object, calls: Calls) -> None:
    for size in (10_000, 1, 2, 7, 16):
        found = read(form, text, size, AREA if form == "qwen3_coder" else None)
        assert found == (text if shown is ANY else shown, calls)


@pytest.mark.parametrize(("form", "text", "name"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_whole_or_not_certain_never_runs(form: str, text: str, name: str) -> None:
    whole = read(form, text)
    assert whole[1][-1][0] == name
    assert not isinstance(read_strict_json(whole[1][-1][1]), dict)
    for size in (1, 2, 7, 16):
        assert read(form, text, size) == whole


def test_without_a_mark_only_an_offered_tool_is_called() -> None:
    text = '{"name": "look", "parameters": {}}'
    assert read("llama3_json", text, tools={"look": {}}) == ("", [("look", "{}")])
    assert read("llama3_json", text, tools={"book": {}}) == (text, [])
    assert read("llama3_json", f"<|python_tag|>{text}", tools={"book": {}})[1] == [("look", "{}")]


def test_an_answer_in_json_is_streamed_at_once() -> None:
    reader = TextCallReader("llama3_json", None)
    assert "".join(map(reader.feed, '{"city": "Por')) == '{"city": "Por'


@settings(max_examples=30)
@given(
    st.sampled_from(["hermes", "llama3_json", "mistral", "qwen3_coder"]),
    st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=f>", "</function>",
             "<parameter=p>", "</parameter>", '{"name": "f", "arguments": {"a": 1}}', "[", "]", "{", "}", '"',
             "`", "```", "~~~", "\n", " ", "\\", ";", "f", "[ARGS]"]
        ),
        max_size=12,
    ),
    st.integers(1, 5),
)  # fmt: skip
def test_any_mixture_reads_the_same_in_any_pieces(form: str, parts: list[str], size: int) -> None:
    text = "".join(parts)
    assert read(form, text, size) == read(form, text)


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(), max_size=3))
def test_a_call_of_any_arguments_comes_back(value: dict[str, object]) -> None:
    arguments = json.dumps(value)
    written = f'{{"name": "f", "arguments": {arguments}}}'
    assert read("hermes", f"<tool_call>{written}</tool_call>")[1] == [("f", arguments)]
    assert read("llama3_json", written)[1] == [("f", arguments)]
    assert read("mistral", f"[TOOL_CALLS][{written}]")[1] == [("f", arguments)]
    assert read("mistral", f"[TOOL_CALLS]f{arguments}")[1] == [("f", arguments)]


HOSTILE = {
    "open objects": ("hermes", '<tool_call>{"a":', "{"),
    "end tags in a value": ("qwen3_coder", "<tool_call><function=f><parameter=p>", "</tool_call>"),
    "ends of values": ("qwen3_coder", "<tool_call><function=f><parameter=p>", "</parameter> "),
    "marks": ("hermes", "", "<tool_call>"),
    "backticks": ("hermes", "", "`"),
    "quotes": ("mistral", "[TOOL_CALLS][{", '"\\'),
    "blanks": ("llama3_json", "", " "),
    "separators": ("llama3_json", '{"name": "a", "parameters": {}}', " ;"),
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(("form", "begin", "piece"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_linear_time(form: str, begin: str, piece: str) -> None:
    def seconds(times: int) -> float:
        reader = TextCallReader(form, None)
        began = time.process_time()
        reader.feed(begin)
        for _ in range(times):
            reader.feed(piece)
        reader.close()
        TextCallReader(form, None).feed(begin + piece * times)
        return time.process_time() - began

    assert is_linear(seconds, 500, 10_000)
