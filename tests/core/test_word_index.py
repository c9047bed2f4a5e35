"""The index that finds entries by words, and the common form of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.word_forms import find_mood, find_related, find_stem, split_words
from holdfast.core.word_index import IndexEntry, WordIndex

FILES = [
    IndexEntry("create_directory", "files", "Create a directory.", reads=False),
    IndexEntry("read_text_file", "files", "Read a file as text.", reads=True),
    IndexEntry("move_file", "files", "Move or rename a file or a directory.", reads=False),
    IndexEntry(
        "list_directory",
        "files",
        "List the content of a directory.",
        {"sort_by": "Order."},
        reads=True,
    ),
    IndexEntry("send_message", "slack", "Post a message to a channel."),
]
INDEX = WordIndex(FILES)


def names(query: str, index: WordIndex = INDEX, most: int = 5) -> list[str]:
    return [FILES[one.at].name for one in index.find(query, most)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("make a new folder", "create_directory"),
        ("what is in this folder?", "list_directory"),
        ("RENAMING FILES", "move_file"),
        ("tell the team in slack", "send_message"),
        ("sort_by", "list_directory"),
        ("create_directory", "create_directory"),
        ("createDirectory", "create_directory"),
        ("creat directry", "create_directory"),
    ],
)
def test_the_best_entry_comes_first(query: str, name: str) -> None:
    assert names(query)[0] == name


@pytest.mark.parametrize("query", ["", "   ", "the of to please", "!?", "qqqqqq zzzzzz"])
def test_a_query_without_a_known_word_finds_nothing(query: str) -> None:
    assert names(query) == []


def test_a_huge_query_is_read_in_its_beginning_only() -> None:
    # With 200,000 different words, and with one word of a million letters.
    words = " ".join(f"w{number}" for number in range(200_000))
    assert names(f"make a folder {words}")[0] == "create_directory"
    assert names("x" * 1_000_000) == []


def test_words_of_other_languages_are_found() -> None:
    entries = [
        IndexEntry("ordner_anlegen", text="Legt einen Ordner für Übersichten an."),
        IndexEntry("tool_zh", text="创建一个新的文件夹"),
        IndexEntry("tool_ja", text="メッセージを送信します"),
        IndexEntry("tool_ru", text="Удалить сообщение"),
        IndexEntry("tool_ar", text="إرسال رسالة"),
    ]
    index = WordIndex(entries)
    for query, name in {
        "UBERSICHTEN": "ordner_anlegen",
        "文件夹": "tool_zh",
        "メッセージ": "tool_ja",
        "удалить": "tool_ru",
        "رسالة": "tool_ar",
    }.items():
        found = index.find(query)
        assert entries[found[0].at].name == name
    assert index.find("🦀") == []


def test_equal_entries_keep_their_order() -> None:
    index = WordIndex([IndexEntry(f"a{n}", text="Send a letter.") for n in range(9)])
    assert [one.at for one in index.find("send letter", 9)] == list(range(9))


def test_an_empty_index_finds_nothing() -> None:
    assert WordIndex([]).find("anything") == []
    assert WordIndex([IndexEntry("!"), IndexEntry("")]).find("anything") == []


def test_long_entries_are_cut() -> None:
    entry = IndexEntry(
        "one", text="word " * 1_000_000, parameters={f"p{n}": "x" for n in range(10_000)}
    )
    assert [one.at for one in WordIndex([entry]).find("word")] == [0]
    assert WordIndex([entry]).find("p9999") == []


@given(st.lists(st.text(max_size=40), max_size=6), st.text(max_size=60))
def test_any_texts_give_the_same_result_twice(texts: list[str], query: str) -> None:
    entries = [IndexEntry(text[:10], text[10:20], text, {text[:5]: text}) for text in texts]
    first, second = WordIndex(entries).find(query), WordIndex(entries).find(query)
    assert first == second
    assert len({one.at for one in first}) == len(first) <= 5
    assert all(one.score > 0 for one in first)


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("get rid of it", "delet"),
        ("I got rid of them", "delet"),
        ("turn the lights off", "disabl"),
        ("turn off the lights", "disabl"),
        ("how many", "count"),
        ("turn it now and then and now and then off", "turn"),
    ],
)
def test_phrases_are_one_word(query: str, word: str) -> None:
    assert word in split_words(query)


@pytest.mark.parametrize(
    ("query", "mood"),
    [
        ("Which files are there", "asks"),
        ("the files?", "asks"),
        ("show me the files", "asks"),
        ("Delete the file", "orders"),
        ("creating a folder", "orders"),
        ("file metadata", ""),
        ("", ""),
        ("!", ""),
    ],
)
def test_a_query_asks_or_orders(query: str, mood: str) -> None:
    assert find_mood(query) == mood


def test_a_question_prefers_what_only_reads() -> None:
    both = [
        IndexEntry("file_set", text="A file.", reads=False),
        IndexEntry("file_get", text="A file.", reads=True),
        IndexEntry("file_any", text="A file."),
    ]
    index = WordIndex(both)
    assert [one.at for one in index.find("which file?")][-1] == 0
    assert [one.at for one in index.find("move the file")][-1] == 1


def test_results_differ() -> None:
    many = [IndexEntry(f"job_log_{letter}", text="Job log.") for letter in "abcdef"]
    index = WordIndex([*many, IndexEntry("start_work", text="Start a job.")])
    assert 6 in [one.at for one in index.find("start job log")]


@given(st.text(max_size=40))
def test_the_common_form_of_a_word_has_no_accent_and_no_capital(text: str) -> None:
    for word in split_words(text, is_name=True):
        assert word
        assert word == word.casefold()


@pytest.mark.parametrize(
    "words",
    [
        "create creates created creating creation",
        "list lists listed listing",
        "repository repositories",
        "deploy deploys deployed deployment deployments",
        "delete deletes deleted deleting deletion",
        "run runs running ran",
        "box boxes",
        "reply replies replied",
        "merge merges merged merging",
        "comment comments commented commenting",
        "person people",
        "cache caches cached caching",
        "release releases released",
    ],
)
def test_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len({find_stem(word) for word in words.split()}) == 1


@pytest.mark.parametrize("pair", ["user use", "comment come", "status state", "document dock"])
def test_other_words_keep_their_own_stem(pair: str) -> None:
    first, second = map(find_stem, pair.split())
    assert first != second


def test_words_are_related_in_both_directions() -> None:
    for word in ("folder", "creat", "delet", "person"):
        for other in find_related(word):
            assert word in find_related(other)
    assert find_related("xyz") == frozenset()
