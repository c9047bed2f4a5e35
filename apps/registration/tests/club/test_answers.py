"""Every validator with good, bad and odd input; and that none raises or changes its own output."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.club.answers.checked import Asked
from registration.club.answers.medical import needs_detail
from registration.club.steps import FURTHER, STEPS, Step

TODAY = date(2025, 8, 1)
ASKED = Asked(TODAY, "u10s", {"parent_phone": "07700900123", "parent_email": "sarah@example.com"})
GOOD = [
    (1, "Sarah Jones", {"first": "Sarah", "last": "Jones"}),
    (1, "  sarah   JONES ", {"first": "sarah", "last": "JONES"}),
    (1, "sarah jones", {"first": "Sarah", "last": "Jones"}),
    (1, "SARAH O\u2019NEILL-ROE", {"first": "Sarah", "last": "O'Neill-Roe"}),
    (1, "MARIA d'ARCY-O'NEILL", {"first": "MARIA", "last": "d'ARCY-O'NEILL"}),
    (1, "ta's d'arcy", {"first": "Ta's", "last": "D'Arcy"}),
    (1, "Ana de la Cruz", {"first": "Ana", "last": "de la Cruz"}),
    (1, "Zo\u00eb M\u00fcller", {"first": "Zo\u00eb", "last": "M\u00fcller"}),
    (1, "Олена Шевченко", {"first": "Олена", "last": "Шевченко"}),
    (1, "李 明", {"first": "李", "last": "明"}),
    (1, "अनिता शर्मा", {"first": "अनिता", "last": "शर्मा"}),
    (1, "Mark as Paid", {"first": "Mark", "last": "as Paid"}),
    (2, "Jack Jones", {"first": "Jack", "last": "Jones"}),
    (3, "14-03-2016", "14-03-2016"),
    (3, "14/3/16", "14-03-2016"),
    (3, "14.03.2016", "14-03-2016"),
    (3, "14 March 2016", "14-03-2016"),
    (3, "March 14th, 2016", "14-03-2016"),
    (3, "the 14th of march 2016", "14-03-2016"),
    (3, "14 mar 16", "14-03-2016"),
    (3, "2016-03-14", "14-03-2016"),
    (3, "14032016", "14-03-2016"),
    (3, "05/04/2016", "05-04-2016"),
    (3, "29 Feb 2016", "29-02-2016"),
    (3, "1 Sept 2014", "01-09-2014"),
    (3, "Monday, 14 March 2016", "14-03-2016"),
    (3, "14-Mar-2016", "14-03-2016"),
    (3, "14th Mar '16", "14-03-2016"),
    (3, "14 / 03 / 2016", "14-03-2016"),
    (3, "31-08-2017", "31-08-2017"),
    (4, "Male", "Male"),
    (4, "a boy", "Male"),
    (4, "girl", "Female"),
    (4, "Woman", "Female"),
    (4, "prefer not to say", "Not disclosed"),
    (4, "Not disclosed", "Not disclosed"),
    (5, "no", {"has": False, "issues": [], "detail": None}),
    (5, "None.", {"has": False, "issues": [], "detail": None}),
    (5, "n/a", {"has": False, "issues": [], "detail": None}),
    (5, "No issues at all", {"has": False, "issues": [], "detail": None}),
    (5, "yes, asthma", {"has": True, "issues": ["Asthma"], "detail": None}),
    (5, "Yes he has asthma and a nut allergy; asthma", {"has": True, "issues": ["Asthma", "Nut allergy"], "detail": None}),
    (5, "no, but she has an EpiPen", {"has": True, "issues": ["EpiPen"], "detail": None}),
    (5, "no, he's fine thanks", {"has": False, "issues": [], "detail": None}),
    (5, "no medical issues except asthma", {"has": True, "issues": ["Asthma"], "detail": None}),
    (5, "Epilepsy has been diagnosed", {"has": True, "issues": ["Epilepsy has been diagnosed"], "detail": None}),
    (6, "yes", {"played": True, "team": None}),
    (6, "Yes he did", {"played": True, "team": None}),
    (6, "No", {"played": False, "team": None}),
    (6, "no, he played for Urmston Rovers", {"played": False, "team": "Urmston Rovers"}),
    (6, "No, Urmston Rovers", {"played": False, "team": "Urmston Rovers"}),
    (6, "No, he's never played", {"played": False, "team": None}),
    (6, "no sorry", {"played": False, "team": None}),
    (6, "No but he trained with you", {"played": False, "team": None}),
    (6, "no, she was at Sale United last year", {"played": False, "team": "Sale United"}),
    (6, "She didn't, she played for Sale United", {"played": False, "team": "Sale United"}),
    (6, "no, none", {"played": False, "team": None}),
    (7, "mum", "Mother"),
    (7, "I'm his Dad", "Father"),
    (7, "legal guardian", "Guardian"),
    (7, "grandma", "Other"),
    (7, "step-mum", "Other"),
    (7, "mother-in-law", "Other"),
    (8, "07700 900123", "07700900123"),
    (8, "(07700) 900-123", "07700900123"),
    (8, "+44 7700 900123", "07700900123"),
    (8, "+44 (0)7700 900123", "07700900123"),
    (8, "0044 7700 900123", "07700900123"),
    (9, " Sarah@Example.COM ", "sarah@example.com"),
    (9, "a.b+c@mail.example.co.uk", "a.b+c@mail.example.co.uk"),
    (10, "Yes", True),
    (10, "of course", True),
    (10, "no thanks", False),
    (11, "2/11/1985", "02-11-1985"),
    (11, "2/11/85", "02-11-1985"),
    (11, "1 August 2009", "01-08-2009"),
    (11, "01-01-1900", "01-01-1900"),
    (12, "m41 5ab", "M415AB"),
    (12, "SW1A 1AA", "SW1A1AA"),
    (12, "M1-1AE", "M11AE"),
    (13, "12", "12"),
    (13, " Rose   Cottage ", "Rose Cottage"),
    (13, "12a", "12a"),
    (14, "12 High Street, Urmston, M41 5AB",
     {"house": "12", "line_1": "12 High Street", "town": "Urmston", "city": "", "postcode": "M415AB", "full": "12 High Street, Urmston, M41 5AB"}),
    (14, "Rose Cottage\nMill Lane\nUrmston\nManchester\nm415ab",
     {"house": "Rose Cottage", "line_1": "Rose Cottage, Mill Lane", "town": "Urmston", "city": "Manchester", "postcode": "M415AB",
      "full": "Rose Cottage, Mill Lane, Urmston, Manchester, M41 5AB"}),
    (15, "yep", True),
    (15, "that's right", True),
    (15, "that's not right", False),
    (16, "she does not", False),
    (18, "M41 7CD", "M417CD"),
    (19, "3b", "3b"),
    (20, "3 Mill Lane, Flixton, M41 7CD",
     {"house": "3", "line_1": "3 Mill Lane", "town": "Flixton", "city": "", "postcode": "M417CD", "full": "3 Mill Lane, Flixton, M41 7CD"}),
    (21, "no", False),
    (23, "07700 900456", "07700900456"),
    (24, "Jack@Example.com", "jack@example.com"),
    (28, "yes", True),
    (29, "15", 15),
    (29, "the 1st please", 1),
    (29, "31st", 31),
    (29, "last day", -1),
    (29, "end of the month", -1),
    (29, "-1", -1),
    (30, "not yet", False),
    (30, "got it", True),
    (30, "it has just arrived", True),
    (30, "I haven't received it", False),
    (32, "9/10", "9/10"),
    (32, "5-6", "5/6"),
    (32, "5 to 6", "5/6"),
    (32, "age 7\u20138 years", "7/8"),
    (32, "small", "S"),
    (32, "XXL", "2XL"),
    (33, "7", 7),
    (33, "number 49 please", 49),
    (33, "he is a goalkeeper, 12", 12),
]  # fmt: skip
BAD = [
    (1, "Sarah"), (1, "S Jones"), (1, "Sarah J"), (1, "Sarah J0nes"), (1, ""), (1, "   "), (1, "Sarah -"), (1, "<b>Sarah</b> Jones"),
    (1, "sarah@example.com"), (1, "x" * 101 + " y" * 3), (2, "Jack"), (2, "set routine 35"),
    (3, "12"), (3, "12 March"), (3, "March 2016"), (3, "2016"), (3, "30-02-2016"), (3, "29 Feb 2017"), (3, "03/25/2016"), (3, "13-13-2016"),
    (3, "14-03-2026"), (3, "14-03-2006"), (3, "14-03-2012"), (3, "31-08-2014"), (3, "01-09-2017"), (3, "tomorrow"), (3, "10:30"),
    (3, "14 March 2016 5"), (3, "14 March April 2016"), (3, "2016-14-03"), (3, "14032o16"), (3, "9" * 400),
    (4, "yes"), (4, "purple"), (4, "boy or girl"), (4, "not a boy"), (4, "he dislikes labels"), (7, "I am not his father"), (7, "not an uncle"), (5, "yes"), (5, ""), (5, "no asthma"), (5, "No she has an EpiPen in her bag"), (5, "no worries, he carries an inhaler"), (5, "..."), (5, "x" * 501),
    (6, "maybe"), (6, ""), (7, "friend of the family"), (7, "mum and dad"), (7, ""),
    (8, "0161 496 0000"), (8, "07700 90012"), (8, "07700 9001234"), (8, "+1 202 555 0123"), (8, "0770O 900123"), (8, "07700 900123 ext 4"), (8, ""),
    (9, "sarah"), (9, "sarah@example"), (9, "sarah@@example.com"), (9, "sarah jones@example.com"), (9, "sarah@example..com"), (9, "a@b.c\nBcc: d@e.fr"),
    (10, "maybe"), (10, ""), (10, "yes but no"), (11, "01-08-2009 10"), (11, "02-08-2009"), (11, "31-12-1899"), (11, "01-01-2030"),
    (12, "M41"), (12, "12345"), (12, "M41 5A"), (12, ""), (13, ""), (13, "-"), (13, "x" * 81),
    (14, "12 High Street, Urmston"), (14, "M41 5AB"), (14, "High Street M41 5AB"), (14, ""),
    (15, "yes but the town is wrong"), (15, "No, the right one is 14 High Street"), (15, "no problem"), (16, "sometimes"), (18, "flat 3"), (19, " "), (20, "over there"), (21, "?"),
    (23, "07700 900123"), (23, "+447700900123"), (24, "SARAH@example.com"), (28, "dunno"),
    (29, "0"), (29, "32"), (29, "15.5"), (29, "15 or 20"), (29, "the last day or the 15th"), (29, "not the last day"), (29, "-3"), (29, "whenever"), (29, "\u0665"), (30, "hm"),
    (32, "6"), (32, "4XL"), (32, ""), (33, "0"), (33, "50"), (33, "7 or 8"), (33, "goalkeeper, 7"), (33, "-7"), (33, "9" * 400),
]  # fmt: skip
CHECKED = [*(step for step in STEPS.values() if step.check), *FURTHER.values()]


def step_of(number: int) -> Step:
    return STEPS[number]


def test_good_and_odd_input_is_accepted() -> None:
    for number, text, value in GOOD:
        check = step_of(number).check
        assert check is not None
        checked = check(text, ASKED)
        assert checked.valid, (number, text, checked.message)
        assert (checked.value, checked.message, checked.original_input) == (value, "", text)


def test_bad_input_is_answered_with_a_friendly_sentence() -> None:
    for number, text in BAD:
        check = step_of(number).check
        assert check is not None
        checked = check(text, ASKED)
        assert not checked.valid, (number, text, checked.value)
        assert checked.value is None
        assert checked.message.endswith(("?", ".", "again."))
        assert "valid" not in checked.message.lower()


def test_every_step_with_a_rule_has_good_and_bad_input() -> None:
    free = {31, 34, 35}  # any text goes
    numbers = {step.number for step in STEPS.values() if step.check} - free
    assert {row[0] for row in GOOD} == {row[0] for row in BAD} == numbers


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("step", CHECKED, ids=lambda step: f"{step.number} {step.title}")
@given(text=st.text() | st.text("0123456789-/. +ypnoes'@M", max_size=20))
def test_no_text_makes_a_validator_raise_or_change_its_own_output(step: Step, text: str) -> None:
    assert step.check is not None
    checked = step.check(text, ASKED)
    assert checked.original_input == text
    if checked.valid:
        again = step.check(step.show(checked.value), ASKED)
        assert again.valid
        assert again.value == checked.value
    else:
        assert checked.message


@pytest.mark.parametrize(
    "step", [step for step in CHECKED if step.example], ids=lambda step: step.title
)
def test_the_example_of_a_step_is_accepted(step: Step) -> None:
    assert step.check is not None
    asked = Asked(TODAY, "u10s" if step.number != 3 else "u11s", {})
    assert step.check(step.example, asked).valid


def test_a_text_that_was_changed_says_so() -> None:
    check = step_of(12).check
    assert check is not None
    assert check("m41 5ab", ASKED).normalizations == ("tidied",)
    assert check("M415AB", ASKED).normalizations == ()


@pytest.mark.parametrize(
    ("age_group", "born", "fits"),
    [
        ("u16s", "01-09-2008", True),
        ("u16s", "31-08-2008", False),
        ("u16s", "31-08-2011", True),
        ("u16s", "01-09-2011", False),
        ("open", "31-08-2009", True),
        ("open", "01-09-2011", False),
        ("open", "01-01-2007", True),
    ],
)
def test_a_child_fits_the_age_group_within_a_year(age_group: str, born: str, fits: bool) -> None:
    check = step_of(3).check
    assert check is not None
    assert check(born, Asked(TODAY, age_group, {})).valid == fits


@pytest.mark.parametrize(
    "issue", ["an EpiPen", "inhaler", "type 1 diabetes", "Epileptic", "a heart murmur"]
)
def test_a_serious_issue_needs_one_further_answer(issue: str) -> None:
    check = step_of(5).check
    assert check is not None
    value = check(f"yes, {issue}", ASKED).value
    assert needs_detail(value)
    assert isinstance(value, dict)
    assert not needs_detail({**value, "detail": "in the bag"})


@pytest.mark.parametrize("issue", ["hay fever", "eczema"])
def test_other_issues_need_none(issue: str) -> None:
    check = step_of(5).check
    assert check is not None
    assert not needs_detail(check(issue, ASKED).value)


def test_nothing_of_a_person_is_in_a_repr() -> None:
    check = step_of(1).check
    assert check is not None
    assert "Sarah" not in repr(check("Sarah Jones", ASKED)) + repr(ASKED)
    assert "07700" not in repr(ASKED)
