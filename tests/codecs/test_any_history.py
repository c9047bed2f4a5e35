"""Any history is encoded for any endpoint to what its provider takes, or refused for its media before it is sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs.any_histories import (
    OTHER_MEDIA,
    TAKEN_MEDIA,
    given_histories,
    machine_histories,
)
from tests.codecs.history_judges import ENDPOINTS, Endpoint, ask_sdk, find_objections

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelRequest
from holdfast.core.transcript import Transcript
from holdfast.models.presets import PRESETS

HISTORIES = machine_histories(TAKEN_MEDIA) | given_histories(TAKEN_MEDIA)
WITH_ANY_MEDIA = given_histories((*TAKEN_MEDIA, *OTHER_MEDIA))


def test_every_preset_is_judged() -> None:
    assert {one.preset for one in ENDPOINTS} == set(PRESETS)


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=20)
@given(HISTORIES)
def test_any_history_is_taken_by_every_provider(messages: Sequence[Message]) -> None:
    assert find_objections(messages) == []


@settings(max_examples=10)
@given(WITH_ANY_MEDIA)
def test_media_are_taken_or_refused_by_name(messages: Sequence[Message]) -> None:
    assert find_objections(messages) == []


@pytest.mark.slow  # three SDKs are imported, and a request is compared with all their types
@settings(max_examples=60, derandomize=True, database=None)
@given(HISTORIES | WITH_ANY_MEDIA)
def test_any_history_has_the_form_of_the_vendors_sdks(messages: Sequence[Message]) -> None:
    assert find_objections(messages, ask_sdk) == []


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=15)
@given(machine_histories(most=14), st.sampled_from(ENDPOINTS), st.data())
def test_a_history_that_grew_is_sent_as_one_that_did_not(
    messages: Sequence[Message], endpoint: Endpoint, data: st.DataObject
) -> None:
    """What is kept of earlier requests, to this endpoint and to others, changes no byte."""
    growing = Transcript()
    for message in messages:
        growing.append(message)
        if data.draw(st.booleans()):
            other = data.draw(st.sampled_from(ENDPOINTS))
            encode_if_possible(other, growing)
    for one in (endpoint, data.draw(st.sampled_from(ENDPOINTS))):
        assert encode_if_possible(one, growing) == encode_if_possible(one, list(messages))


def encode_if_possible(endpoint: Endpoint, messages: Sequence[Message]) -> bytes:
    """Return the body; none if a call has no result yet."""
    request = ModelRequest(
        model=endpoint.model, messages=messages, settings=endpoint.settings, stream=False
    )
    try:
        return endpoint.load_codec().encode(request).body
    except ConfigurationError:
        return b""


@settings(max_examples=10)
@given(machine_histories())
def test_a_call_without_its_result_is_refused_before_it_is_sent(
    messages: Sequence[Message],
) -> None:
    answered = [at for at, one in enumerate(messages) if one.role == "tool"]
    for at in answered:
        broken = [*messages[:at], *messages[at + 1 :]]
        for endpoint in ENDPOINTS:
            request = ModelRequest(
                model=endpoint.model, messages=broken, settings=endpoint.settings, stream=False
            )
            with pytest.raises(ConfigurationError, match="has no result") as refused:
                endpoint.load_codec().encode(request)
            assert refused.value.argument == f"messages[{at - 1}]"
            assert refused.value.fix
