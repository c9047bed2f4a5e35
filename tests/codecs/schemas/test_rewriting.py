"""Rewriting: the text comes out the same however it is cut, and as `rewrite_value` makes the value."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linear import is_linear

from holdfast.codecs.schemas.rewriting import JsonRewriter, RewriteNode, rewrite_value

SENT = ("top", "filter_id", "next", "keep", "list")
ORIGINAL = {"top": "", "filter_id": "filter[id]", "next": 'ne"xt\u00e9'}
CLOSED = RewriteNode(names={"a": "$a"}, optional={"a", "b"})

names = st.sampled_from((*SENT, *ORIGINAL.values(), "", "other", "\U0001f600"))


@st.composite
def nodes(draw: st.DrawFn) -> RewriteNode:
    """Draw a graph of nodes, which may have cycles."""
    made = [RewriteNode() for _ in range(draw(st.integers(1, 4)))]
    one = st.sampled_from([None, *made])
    for node in made:
        sent = draw(st.sets(st.sampled_from(SENT[:3])))
        node.names = {name: ORIGINAL[name] for name in sent}
        # The original name may be sent, too: for another object at the same place.
        node.names |= {
            name: name for name in draw(st.sets(st.sampled_from(list(ORIGINAL.values()))))
        }
        node.optional = draw(st.sets(st.sampled_from(SENT)))
        children = {name: draw(one) for name in draw(st.sets(st.sampled_from(SENT)))}
        node.children = {name: child for name, child in children.items() if child is not None}
        node.others, node.items = draw(one), draw(one)
    return made[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=25,
)  # fmt: skip
objects = st.dictionaries(names, values, max_size=5) | st.lists(values, max_size=4)
blanks = st.sampled_from(("", " ", "\n  ", "\t\r\n"))


@st.composite
def texts(draw: st.DrawFn, kinds: st.SearchStrategy[Any] = objects) -> str:
    """Draw the text of a value, with blanks and escapes in all places."""

    def write(value: Any) -> str:
        if isinstance(value, dict):
            members = [
                f"{write(name)}{gap()}:{gap()}{write(inner)}" for name, inner in value.items()
            ]
            return "{" + gap() + f"{gap()},{gap()}".join(members) + gap() + "}"
        if isinstance(value, list):
            return "[" + gap() + f"{gap()},{gap()}".join(map(write, value)) + gap() + "]"
        if isinstance(value, str) and value and draw(st.booleans()):
            escaped = "".join(f"\\u{ord(c):04X}" if ord(c) < 0x10000 else c for c in value)
            return f'"{escaped}"'
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def gap() -> str:
        return draw(blanks)

    return write(draw(kinds))


def rewrite(node: RewriteNode, pieces: list[str]) -> str:
    rewriter = JsonRewriter(node)
    return "".join(map(rewriter.feed, pieces)) + rewriter.close()


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.slow  # takes half a second or more
@given(nodes(), texts(), st.lists(st.integers(0, 60), max_size=6))
def test_a_text_comes_out_as_its_value(node: RewriteNode, text: str, places: list[int]) -> None:
    whole = rewrite(node, [text])
    assert json.loads(whole) == rewrite_value(node, json.loads(text))
    assert rewrite(node, list(text)) == rewrite(node, cut(text, places)) == whole


@pytest.mark.slow  # takes half a second or more
@given(nodes(), texts(), st.integers(0, 80), st.text(max_size=5), st.lists(st.integers(0, 60)))
def test_any_text_comes_out_the_same_however_it_is_cut(
    node: RewriteNode, text: str, at: int, wrong: str, places: list[int]
) -> None:
    broken = text[:at] + wrong + text[at:]
    whole = rewrite(node, [broken])
    assert rewrite(node, list(broken)) == rewrite(node, cut(broken, places)) == whole
    if not is_json(broken) and is_json(text):
        assert not is_json(whole) or broken.strip()[:1] not in ("{", "[")


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.text(), st.lists(st.integers(0, 60), max_size=6))
def test_nothing_is_lost_where_no_name_is_changed(text: str, places: list[int]) -> None:
    assert rewrite(RewriteNode(names={"long name": "b"}), cut(text, places)) == text


def test_texts_and_what_becomes_of_them() -> None:
    table = (
        # a null takes the comma beside it with it
        ('{"a": 1, "b": null, "c": 2}', '{"$a": 1, "c": 2}'),
        ('{"b": null, "c": 2}', '{ "c": 2}'),
        ('{"a":null,"b":null}', "{}"),
        ('{ "b": null }', "{ }"),
        ('{"a": "null"}', '{"$a": "null"}'),
        # escapes in names, and the original names
        (r'{"\u0061": 1}', '{"$a": 1}'),
        ('{"$a": null, "c": null}', '{ "c": null}'),
        # a repeated name stays repeated, so that its readers refuse it
        ('{"a": 1, "a": null}', '{"$a": 1, "$a": null}'),
        ('{"a": null, "a": 1}', '{ "$a": null,"$a": 1}'),
        ('{"a": null, "$a": null, "a": 1}', '{ "$a": null,"$a": null, "$a": 1}'),
        ('{"a": 1, "$a": 2}', '{"$a": 1, "$a": 2}'),
        # from where it is not JSON, a text is not changed
        ('{"a": 1, "a" 2, "a": 3}', '{"$a": 1, "$a" 2, "a": 3}'),
        ('{"b": null,}', "{,}"),
        ('{"b": nulll, "a": 1}', '{"b": nulll, "a": 1}'),
        ('{"b": null] "a": 1}', '{"b": null] "a": 1}'),
        ('{"x": tru, "a": 1}', '{"x": tru, "a": 1}'),
        ('{"x": 012, "a": 1}', '{"x": 012, "a": 1}'),
        ('{"x": "\\x", "a": 1}', '{"x": "\\x", "a": 1}'),
        ('{"x": "\x1a", "a": 1}', '{"x": "\x1a", "a": 1}'),
        ("{'a': 1}", "{'a': 1}"),
        ('{"x": [1}, "a": 1}', '{"x": [1}, "a": 1}'),
        # what is around the value is not changed
        ('```json\n{"a": 1}\n``` or {"a": 1}', '```json\n{"$a": 1}\n``` or {"$a": 1}'),
        ("There is none.", "There is none."),
        # a text that was cut
        ('{"c": 1, "b": nul', '{"c": 1, "b": nul'),
        ('{"c": 1, "a', '{"c": 1, "a'),
        ('{"b": null, "c', '{ "c'),
    )
    wrong = [(text, made) for text, wanted in table if (made := rewrite(CLOSED, [text])) != wanted]
    assert wrong == []


def test_only_names_and_nulls_are_held_back() -> None:
    rewriter = JsonRewriter(CLOSED)
    steps = (
        ('{"', "{"), ("a", ""), ('"', ""), (":", ""), (' "', '"$a": "'), ("Por", "Por"), ('to"', 'to"'),
        (', "a name', ""), (" that is none of the known ones", ', "a name that is none of the known ones'), (' those": [1', ' those": [1'),
        (", 2", ", 2"), ("]", "]"), (',"b":n', ""), ("ull", ""), ("}", "}"),
    )  # fmt: skip
    assert [rewriter.feed(piece) for piece, _ in steps] == [made for _, made in steps]


def test_a_recursive_value_is_rewritten_at_every_level() -> None:
    tree = RewriteNode(names={"next": "$next"}, optional={"next"})
    tree.children["next"] = tree
    assert rewrite(tree, ['{"next": {"next": {"v": 1, "next": null}}}']) == (
        '{"$next": {"$next": {"v": 1}}}'
    )
    repr(tree)


def test_a_text_with_too_many_levels_is_not_changed_below_them() -> None:
    tree = RewriteNode(names={"next": "$next"})
    tree.children["next"] = tree
    made = rewrite(tree, ['{"next":' * 5000 + "1" + "}" * 5000])
    assert made.count("$next") == 512
    assert made.count('"next"') == 4488


@pytest.mark.slow  # takes half a second or more
def test_memory_does_not_grow_and_each_character_is_read_once() -> None:
    parts = (
        " " * 1000, '{"' + "n" * 1000, "n" * 1000 + '":', "1" * 1000, ',"x":"', "\\u00e9" * 1000, '","b"',
        " " * 1000, ":", " " * 1000, "1", ',"a":{' + '"q":1,' * 1000,
    )  # fmt: skip
    for repeated in range(len(parts)):
        rewriter = JsonRewriter(CLOSED)
        for part in parts[:repeated]:
            rewriter.feed(part)
        piece = parts[repeated] * 20
        tracemalloc.start()
        for _ in range(50):
            rewriter.feed(piece)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < 50_000, parts[repeated][:10]


def test_time_is_proportional_to_the_length() -> None:
    def seconds(count: int) -> float:
        text = "{" + ",".join(f'"a{at}": "{"x" * 20}", "b": 1' for at in range(count)) + "}"
        began = time.process_time()
        rewrite(CLOSED, list(text))
        return time.process_time() - began

    assert is_linear(seconds, 300, 3000)
