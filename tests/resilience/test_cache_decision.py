"""The pure half: keys, what may be kept, and what has to go."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.compat.error_handling_config import SEED_002_CACHE, SEED_003_CACHE, cache_key
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Reply, ReplyKind, Text, ToolCall, user
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.core.transcript import Transcript
from holdfast.resilience.cache.decision import (
    LruCache,
    account_scope,
    canonical_key,
    request_key,
    weigh_reply,
)
from holdfast.resilience.cache.options import CacheOptions

key_of = request_key("acme")
BASE = ModelRequest(
    model="m",
    messages=[user("hi")],
    instructions="be kind",
    tools=(ToolSpec("t", "d", {"type": "object"}),),
    settings=ModelSettings(temperature=0.0),
)


def changed(**fields: Any) -> ModelRequest:
    return msgspec.structs.replace(BASE, **fields)


class TestKeys:
    @pytest.mark.parametrize(
        "other",
        [
            changed(model="m2"),
            changed(messages=[user("hi ")]),
            changed(messages=[user("hi"), user("")]),
            changed(instructions=""),
            changed(tools=()),
            changed(tools=(ToolSpec("t", "d", {"type": "object", "x": 1}),)),
            changed(settings=ModelSettings(temperature=0.1)),
            changed(settings=ModelSettings(temperature=0.0, extra={"seed": 1})),
        ],
        ids=range(8),
    )
    def test_whatever_is_sent_is_in_the_key(self, other: ModelRequest) -> None:
        assert key_of(other) != key_of(BASE)

    def test_streaming_or_not_is_the_same_question(self) -> None:
        assert key_of(changed(stream=False)) == key_of(BASE)

    def test_a_transcript_is_the_same_as_its_messages(self) -> None:
        assert key_of(changed(messages=Transcript([user("hi")]))) == key_of(BASE)

    def test_the_order_of_mappings_does_not_matter(self) -> None:
        one = changed(settings=ModelSettings(extra={"a": 1, "b": 2}))
        other = changed(settings=ModelSettings(extra={"b": 2, "a": 1}))
        assert key_of(one) == key_of(other)

    def test_never_across_credentials(self) -> None:
        assert request_key(account_scope("sk-1"))(BASE) != request_key(account_scope("sk-2"))(BASE)
        with pytest.raises(ConfigurationError, match=r"cache\.scope"):
            request_key("")

    def test_a_scope_does_not_show_the_key(self) -> None:
        assert "sk-1" not in account_scope("sk-1")
        assert account_scope("a", "bc") != account_scope("ab", "c")

    def test_what_has_no_canonical_form_has_no_key(self) -> None:
        assert key_of(changed(settings=ModelSettings(extra={"a": object()}))) is None
        assert key_of("something else") is None
        loop: list[Any] = []
        loop.append(loop)
        assert canonical_key(loop) is None

    def test_flaw_seed_002_hashed_with_32_bits(self) -> None:
        key = key_of(BASE)
        assert key is not None
        assert len(key) == 64

    def test_flaw_seed_003_joined_without_a_separator(self) -> None:
        assert canonical_key((["a"], "b")) != canonical_key((["a", "b"], ""))

    @pytest.mark.slow  # takes half a second or more
    @given(
        st.lists(st.dictionaries(st.text(), st.integers())), st.dictionaries(st.text(), st.text())
    )
    def test_the_key_of_seed_003_is_what_it_was(self, messages: Any, config: Any) -> None:
        text = json.dumps(messages, sort_keys=True) + json.dumps(config, sort_keys=True)
        assert cache_key(messages, config) == hashlib.md5(text.encode()).hexdigest()


class TestWhatMayBeKept:
    weigh = staticmethod(weigh_reply(CacheOptions()))

    def test_a_whole_reply(self) -> None:
        assert self.weigh(Reply((Text("hi"),))) is not None

    @pytest.mark.parametrize("kind", sorted(set(ReplyKind) - {ReplyKind.COMPLETE}))
    def test_no_other_kind(self, kind: ReplyKind) -> None:
        assert self.weigh(Reply((Text("hi"),), kind=kind)) is None

    @pytest.mark.parametrize("finish", sorted(set(FinishReason) - {FinishReason.STOP}))
    def test_no_other_end(self, finish: FinishReason) -> None:
        assert self.weigh(Reply((Text("hi"),), finish=finish)) is None

    def test_tool_calls_only_when_wanted(self) -> None:
        reply = Reply((ToolCall("1", "pay"),), finish=FinishReason.TOOL_CALLS)
        assert self.weigh(reply) is None
        assert weigh_reply(CacheOptions(tool_calls=True))(reply) is not None

    def test_nothing_that_is_no_reply(self) -> None:
        assert self.weigh("text") is None


class TestShelf:
    def test_the_one_that_was_not_used_for_longest_goes(self) -> None:
        shelf: LruCache[int] = LruCache(CacheOptions(entries=2))
        shelf.put("a", 1, weight=1, now=0)
        shelf.put("b", 2, weight=1, now=0)
        assert shelf.get("a", 1)
        shelf.put("c", 3, weight=1, now=0)
        assert [bool(shelf.get(key, 1)) for key in "abc"] == [True, False, True]

    def test_the_bytes_are_bounded_too(self) -> None:
        shelf: LruCache[int] = LruCache(CacheOptions(size=10))
        for number in range(5):
            shelf.put(str(number), number, weight=4, now=0)
        assert (len(shelf), shelf.weight) == (2, 8)

    def test_the_bytes_may_be_used_up(self) -> None:
        shelf: LruCache[int] = LruCache(CacheOptions(size=10))
        shelf.put("a", 1, weight=4, now=0)
        shelf.put("b", 2, weight=6, now=0)
        assert (len(shelf), shelf.weight) == (2, 10)
        shelf.put("c", 3, weight=10, now=0)
        assert (len(shelf), shelf.weight) == (1, 10)
        shelf.clear()
        assert (len(shelf), shelf.weight) == (0, 0)

    def test_one_that_is_bigger_than_the_cache_pushes_nothing_out(self) -> None:
        shelf: LruCache[int] = LruCache(CacheOptions(size=10))
        shelf.put("a", 1, weight=4, now=0)
        shelf.put("b", 1, weight=11, now=0)
        assert shelf.get("a", 0)
        assert not shelf.get("b", 0)

    def test_seed_002_forgets_after_ten_minutes(self) -> None:
        shelf: LruCache[int] = LruCache(SEED_002_CACHE)
        shelf.put("a", 1, weight=1, now=0)
        assert shelf.get("a", 599.9)
        assert not shelf.get("a", 600.0)
        assert len(shelf) == 0

    def test_seed_003_keeps_a_hundred_without_an_end(self) -> None:
        shelf: LruCache[int] = LruCache(SEED_003_CACHE)
        for number in range(101):
            shelf.put(str(number), number, weight=1, now=0)
        assert len(shelf) == 100
        assert shelf.get("100", 1e9)

    def test_a_clock_that_jumped_back_forgets(self) -> None:
        shelf: LruCache[int] = LruCache(CacheOptions())
        shelf.put("a", 1, weight=1, now=100)
        assert not shelf.get("a", 5)

    @given(
        st.lists(
            st.tuples(st.sampled_from("abcdef"), st.integers(0, 20), st.booleans()), max_size=99
        )
    )
    def test_the_bounds_hold_and_the_weight_is_that_of_the_entries(
        self, uses: list[tuple[str, int, bool]]
    ) -> None:
        shelf: LruCache[int] = LruCache(CacheOptions(entries=3, size=30, ttl=50))
        for now, (key, weight, put) in enumerate(uses):
            if put:
                shelf.put(key, weight, weight=weight, now=now)
            else:
                shelf.get(key, now)
            assert len(shelf) <= 3
            assert shelf.weight == sum(e.weight for e in shelf._entries.values()) <= 30


def test_the_defaults() -> None:
    assert CacheOptions() == CacheOptions(
        entries=1000, size=67_108_864, ttl=600.0, tool_calls=False
    )


@pytest.mark.parametrize(
    "bad",
    [{"entries": 0}, {"size": 0}, {"ttl": 0}, {"ttl": float("nan")}, {"tool_calls": 1}],
    ids=str,
)
def test_a_bad_setting_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"cache.{next(iter(bad))}"):
        CacheOptions(**bad)
