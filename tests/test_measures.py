"""The stable figures of `scripts/measures.py` as limits: names, files and rooms; and how they are counted."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from scripts import measures

import holdfast

pytestmark = pytest.mark.slow  # reads every file; `./run check` runs it

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
    # A call of a model, a run of a tool and a doubt about one are subjects, and turns of other processes have a room.
    assert len(measures.runtime_entries()) <= 30


def test_the_top_has_few_names() -> None:
    assert len(holdfast.__all__) <= 70


def test_many_arguments_are_passed_by_name() -> None:
    # struct.pack takes the values of its format by position only.
    calls = [call for call in measures.long_positional_calls() if not call.endswith(" struct.pack")]
    assert calls == []


def test_the_library_has_few_and_full_files() -> None:
    sizes = measures.measure_files(measures.PACKAGE)
    # The goals are 645 files, 95 modules with one importer, and 12.8 % imports; nothing may grow meanwhile.
    assert len(sizes) <= 713
    assert len(measures.modules_with_one_importer()) <= 125
    assert measures.import_share(sizes) <= 0.134


@pytest.mark.parametrize("package", measures.PACKAGES, ids=lambda package: package.name)
def test_prose_says_the_noun_that_is_meant(package: Path) -> None:
    what, told = measures.word_rates(package)
    assert what <= 1.5
    assert told <= 0.3


def test_a_turn_of_a_worker_goes_down() -> None:
    # An engine calls its handler, and a journal those who watch its inbox.
    assert len(measures.follow_turn(queued=True).climbs) <= 2


def test_a_call_passes_through_few_frames() -> None:
    assert measures.own_frames(wrapped=False) <= 11
    assert measures.own_frames(wrapped=True) <= 13


def test_docstrings_and_comments_are_no_code() -> None:
    source = dedent(
        '''
        """A module."""

        from a import (
            b,
        )

        # A comment.
        def double(value: int) -> int:
            """Double a value.

            It is told what.
            """
            return (
                value * 2
            )

        def stub() -> None:
            """Nothing."""
            ...
        '''
    )
    assert measures.measure_source(source) == measures.FileSize(9, 3, (3,))
    assert list(measures.prose_of(source))[-1] == "# A comment."
    assert len(list(measures.prose_of(source))) == 4


def test_modules_with_one_importer_are_found(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    sources = {
        "__init__": "from shop.till import pay",
        "till": "from shop import prices\nfrom shop.money import Euro",
        "prices": "from shop.money import Euro",
        "money": "import math",
        "unused": "",
    }
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source)
    found = measures.modules_with_one_importer(package)
    assert {file.stem: importer.stem for file, (importer, _) in found.items()} == {
        "till": "__init__",
        "prices": "till",
    }


def test_words_are_counted_in_prose_alone(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('"""Says what it was told."""\nwhat = "tell"  # told so')
    what, told = measures.word_rates(tmp_path)
    assert (round(what), round(told)) == (143, 286)


def test_a_turn_of_an_agent_never_climbs() -> None:
    path = measures.follow_turn(queued=False)
    assert path.calls > 100
    assert path.climbs == []
