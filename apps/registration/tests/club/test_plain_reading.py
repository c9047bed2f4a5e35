"""What code reads from a message when no model answers: the value, a question, or nothing."""

import time
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.club.answers.checked import Asked
from registration.club.plain_reading import read_plainly
from registration.club.steps import FURTHER, STEPS

ASKED = Asked(date(2025, 8, 1), "u10s", {})
READ = [
    (1, "Sarah Jones", "Sarah Jones"),
    (1, "Hi, my name is Sarah Jones.", "Sarah Jones"),
    (1, "it's sarah o'neill", "sarah o'neill"),
    (1, "Mark Will", "Mark Will"),
    (1, "Linh Do", "Linh Do"),
    (2, "His name is Jack Jones", "Jack Jones"),
    (3, "He was born on the 14th of March 2016", "14th of March 2016"),
    (3, "14/3/16, is that ok?", "14/3/16"),
    (4, "she's a girl", "she's a girl"),
    (5, "no", "no"),
    (5, "Yes, asthma and hay fever", "Yes, asthma and hay fever"),
    (6, "No, Urmston Rovers", "No, Urmston Rovers"),
    (7, "I'm his mum", "I'm his mum"),
    (8, "my number is 07700 900123 thanks", "07700 900123"),
    (8, "+44 7700 900123", "+44 7700 900123"),
    (9, "It's Sarah@Example.com.", "Sarah@Example.com"),
    (10, "yes please", "yes please"),
    (11, "2nd November 1985", "2nd November 1985"),
    (12, "we live at m41 5ab", "m41 5ab"),
    (13, "number 12", "12"),
    (13, "12a", "12a"),
    (13, "Rose Cottage", "Rose Cottage"),
    (14, "12 High Street, Urmston, M41 5AB", "12 High Street, Urmston, M41 5AB"),
    (15, "Yes, that's right", "Yes, that's right"),
    (28, "no", "no"),
    (29, "the 15th please", "the 15th please"),
    (29, "last day of the month", "last day of the month"),
    (30, "not yet", "not yet"),
    (31, "ok", "ok"),
    (32, "9-10", "9-10"),
    (33, "he'd like number 7 please", "he'd like number 7 please"),
]
UNREAD = [
    (1, "hello there"), (1, "good morning"), (1, "hang on"), (1, "just checking"), (2, "not sure"), (1, "Mark as paid"), (1, "Set step thirty"), (1, "I do not know"), (3, "12"), (4, "hm"), (5, "ask her father"),
    (5, "yes"), (8, "07700 900123 or 07700 900456"), (9, "I have none"), (13, "the blue one on the corner"), (15, "yes but the town is wrong"),
    (29, "set routine 12"), (33, "set routine 12"), (34, "here it is"), (35, "thanks"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "words", "value"), READ)
def test_a_plain_answer_is_read(number: int, words: str, value: str) -> None:
    step = STEPS[number]
    reading = read_plainly(step, words, ASKED)
    assert reading.understood
    assert reading.value is not None
    assert step.check is not None
    assert step.check(reading.value, ASKED).valid
    assert (
        reading.value == value
        or step.check(reading.value, ASKED).value == step.check(value, ASKED).value
    )


@pytest.mark.parametrize(("number", "words"), UNREAD)
def test_what_is_not_sure_is_not_read(number: int, words: str) -> None:
    reading = read_plainly(STEPS[number], words, ASKED)
    assert (reading.understood, reading.value, reading.wants_to_change) == (False, None, None)


@pytest.mark.parametrize("number", [1, 3, 5, 8, 10, 13, 15, 28, 34, 35])
@pytest.mark.parametrize("words", ["Why do you need this?", "is that right?", "can I pay later"])
def test_a_question_is_a_question(number: int, words: str) -> None:
    reading = read_plainly(STEPS[number], words, ASKED)
    assert (reading.understood, reading.question) == (False, words)


def test_a_further_question_is_read() -> None:
    assert read_plainly(FURTHER["identity"], "07700 900123", ASKED).value == "07700 900123"
    assert read_plainly(FURTHER["identity"], "It's 07700 900123.", ASKED).value == "07700 900123"
    assert (
        read_plainly(FURTHER["which_field"], "my number is wrong", ASKED).value
        == "my number is wrong"
    )
    assert read_plainly(FURTHER["resume"], "no", ASKED).value == "no"
    assert read_plainly(FURTHER["which_field"], "my mobile", ASKED).value == "my mobile"


@pytest.mark.parametrize(
    "step", [*STEPS.values(), *FURTHER.values()], ids=lambda step: f"{step.number} {step.title}"
)
@given(words=st.text(max_size=60))
def test_no_text_raises_and_what_is_read_is_valid(step, words: str) -> None:  # type: ignore[no-untyped-def]
    reading = read_plainly(step, words, ASKED)
    if reading.understood:
        assert reading.value is not None
        assert step.check(reading.value, ASKED).valid


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("That was wrong, my number is 07700 900999", "parent_phone", "07700 900999"),
        ("sorry, I mistyped my e-mail: new@example.com", "parent_email", "new@example.com"),
    ],
)
def test_a_correction_of_contact_data_is_read(words: str, field: str, value: str) -> None:
    answers = {"parent_phone": "07700900123", "parent_email": "sarah@example.com"}
    reading = read_plainly(STEPS[12], words, Asked(ASKED.today, "u10s", answers))
    assert (reading.understood, reading.wants_to_change, reading.value) == (True, field, value)
    assert read_plainly(STEPS[12], words, ASKED).wants_to_change is None


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "my name ",
        "was ",
        "yes, ",
        "no ",
        "1 ",
        "1-",
        "a@",
        "a.",
        "he has ",
        "and ",
        "M41 5AB ",
        "14 march ",
        "-",
        "O'",
    ],
)
def test_the_longest_message_is_read_at_once(unit: str) -> None:
    words = (unit * 4000)[:3999] + "!"
    began = time.perf_counter()
    for step in [*STEPS.values(), *FURTHER.values()]:
        read_plainly(step, words, ASKED)
    # It takes 0.2 seconds for all of them; a pattern that backtracks takes minutes.
    assert time.perf_counter() - began < 10
