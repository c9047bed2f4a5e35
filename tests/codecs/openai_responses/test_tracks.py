"""The final texts of a section are matched to the pieces, also if a server numbers the parts differently."""

from __future__ import annotations

from holdfast.codecs.openai_responses.items import Section, Track, match_texts


def emitted(*texts: str) -> Section:
    section = Section()
    for part, text in enumerate(texts):
        section.add_track(part, Track(part, [text]))
    return section


def matched(section: Section, *texts: str) -> list[tuple[int | None, str]]:
    matches = match_texts(section, dict(enumerate(texts)))
    tracks = list(section.tracks.values())
    return [
        (None if match.track is None else tracks.index(match.track), match.rest)
        for match in matches.values()
    ]


def test_a_final_text_that_continues_its_part_adds_the_rest() -> None:
    assert matched(emitted("Hel", "wor"), "Hello", "world", "!") == [
        (0, "lo"),
        (1, "ld"),
        (None, "!"),
    ]


def test_parts_that_a_server_merges_add_only_the_end() -> None:
    assert matched(emitted("Hel", "lo w"), "Hello world") == [(1, "orld")]


def test_parts_that_a_server_splits_add_only_what_is_beyond_the_pieces() -> None:
    section = emitted("Hel", "lo w")
    assert matched(section, "He", "llo wor", "ld") == [(0, ""), (1, "or"), (None, "ld")]
    assert matched(emitted("a", "bb", "c"), "a", "b", "bc") == [(0, ""), (1, ""), (1, "")]
    assert matched(section, "He", "l", "lo ", "world") == [(0, ""), (0, ""), (1, ""), (1, "orld")]


def test_a_part_that_begins_where_another_one_ended_belongs_to_the_next_track() -> None:
    # The first text is no continuation of its part, so the texts are matched by position.
    assert matched(emitted("a", "b", "c"), "ab", "c", "d") == [(0, ""), (2, ""), (None, "d")]


def test_texts_that_contradict_the_pieces_add_only_further_parts() -> None:
    assert matched(emitted("Hello"), "Good", "bye") == [(0, ""), (None, "bye")]
