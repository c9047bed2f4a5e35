"""The stable figures of `scripts/measures.py` as limits: names, files and rooms."""

from __future__ import annotations

from scripts import measures

import holdfast

# A wire's folder has the same files as every other wire's, so has a strategy's, and a protocol's of the service.
WIRE_FILES = {
    "chunk_reader",
    "codec",
    "decode",
    "encode",
    "errors",
    "history",
    "hosted",
    "vocabulary",
}
STRATEGY_FILES = {"decision", "options", "strategy"}
PROTOCOL_FILES = {"projection", "routes"}
OTHER_FILES = {
    "events",  # of the core, and the namespace for users that collects them
    "calls",  # of a wire: how it tells apart the tool calls of one reply
    "media",  # of a wire, and what all wires share
    "errors",  # of the core, and the public namespace
    "port",  # what a room needs of whoever implements it
}


def test_a_class_name_is_defined_once() -> None:
    assert measures.doubled_classes() == {}


def test_a_file_name_stands_once_outside_parallel_folders() -> None:
    names = {name.removesuffix(".py") for name in measures.file_names_twice()}
    assert names - WIRE_FILES - STRATEGY_FILES - PROTOCOL_FILES - OTHER_FILES == set()


def test_functions_are_named_by_what_they_do() -> None:
    names = measures.function_names()
    assert measures.one_word_share(names) <= 0.45
    assert measures.participle_share(names) <= 0.04


def test_the_runtime_is_a_spine() -> None:
    # A call of a model and a run of a tool are two subjects, and turns of other processes have a room.
    assert len(measures.runtime_entries()) <= 29


def test_the_top_has_few_names() -> None:
    assert len(holdfast.__all__) <= 70


def test_many_arguments_are_passed_by_name() -> None:
    # struct.pack takes the values of its format by position only.
    calls = [call for call in measures.long_positional_calls() if not call.endswith(" struct.pack")]
    assert calls == []


def test_a_call_passes_through_few_frames() -> None:
    assert measures.own_frames(wrapped=False) <= 11
    assert measures.own_frames(wrapped=True) <= 13
