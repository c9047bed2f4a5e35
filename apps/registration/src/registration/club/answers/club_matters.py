"""Last season, the day of payment, kit size and shirt number."""

import re

from registration.club.answers.checked import (
    Asked,
    Checked,
    accept,
    list_words,
    read_words,
    refuse,
    tidy,
)
from registration.club.answers.choices import NO, read_yes_or_no

LAST_DAY = -1
SIZES = ("5/6", "7/8", "9/10", "11/12", "13/14", "S", "M", "L", "XL", "2XL", "3XL")
SIZE_WORDS = {
    "small": "S",
    "medium": "M",
    "large": "L",
    "extra large": "XL",
    "x large": "XL",
    "xxl": "2XL",
    "xxxl": "3XL",
}
NUMBERS = range(1, 50)
GOALKEEPER_NUMBERS = (1, 12)
FIRST_WORDS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "fifth": 5,
    "tenth": 10,
    "fifteenth": 15,
    "twentieth": 20,
}
PLAYED_FOR = re.compile(r"\b(?:for|with|at)\s+(?P<team>[^,.;!?]+)", re.IGNORECASE)
LAST_SEASON = re.compile(r"[\s,]+(last|the last|previous) (season|year)$", re.IGNORECASE)
NOT_A_TEAM = list_words(
    "he she they we i it he's she's they're you us our was were is isn't are has hasn't have had did didn't does do "
    "don't never new not no none nowhere nothing nobody any anyone anybody anything other sorry thanks thank this last "
    "first just only yet moved season year time played play club"
)
LONGEST_TEAM = 80


def check_played_last_season(text: str, asked: Asked) -> Checked:
    """Accept yes, or no with another team if there was one; the value is `{"played", "team"}`."""
    plain = tidy(text).strip(" .!")
    lead = re.match(r"no(?:pe)?\b[\s,;:.-]*", plain, re.IGNORECASE)
    if lead:
        return accept(text, {"played": False, "team": read_team(plain[lead.end() :])}, "read as no")
    answer = read_yes_or_no(plain)
    if answer is None and set(read_words(plain)) & NO:
        answer = False
    if answer is None:
        return refuse(
            text, "Did they play for us last season: yes or no? If not, which team was it, if any?"
        )
    return accept(
        text,
        {"played": answer, "team": None if answer else read_team(plain, named=True)},
        "read as yes or no",
    )


def read_team(text: str, *, named: bool = False) -> str | None:
    """Return the team that a text names; `named`: only after a word such as "for"."""
    found = PLAYED_FOR.search(text)
    if found is None and named:
        return None
    team = LAST_SEASON.sub("", (found["team"] if found else text).strip(" .")).strip(" .")
    words = read_words(team)
    usual = words[:1] if found else words
    if not words or len(team) > LONGEST_TEAM or set(usual) & NOT_A_TEAM:
        return None
    return team


def show_played(played: object) -> str:
    """Return yes, or no with the other team."""
    if not isinstance(played, dict):
        return ""
    if played["played"]:
        return "Yes"
    return f"No, {played['team']}" if played["team"] else "No"


WORDS_OF_A_DAY = frozenset(
    [
        "a",
        "and",
        "are",
        "be",
        "can",
        "choose",
        "day",
        "days",
        "each",
        "end",
        "every",
        "fine",
        "good",
        "great",
        "i",
        "in",
        "is",
        "it",
        "last",
        "let",
        "like",
        "make",
        "month",
        "monthly",
        "my",
        "of",
        "ok",
        "okay",
        "on",
        "one",
        "our",
        "pay",
        "payment",
        "please",
        "prefer",
        "sounds",
        "take",
        "taken",
        "thank",
        "thanks",
        "that",
        "the",
        "then",
        "this",
        "to",
        "use",
        "want",
        "we",
        "will",
        "works",
        "would",
        "yes",
        "you",
        "d",
        "s",
    ]
)
"""Words beside the name of a day that leave no doubt about it; "the first team" does."""


def check_payment_day(text: str, asked: Asked) -> Checked:
    """Accept a day of the month from 1 to 31, or the last one; the value is a number, -1 for the last day."""
    day = read_day(tidy(text).lower())
    if day is None:
        return refuse(
            text, "Which day of the month suits you: a number from 1 to 31, or the last day?"
        )
    return accept(text, day, "read as a day")


def read_day(text: str) -> int | None:
    """Return the one day of the month that a text names; None when it names none or two."""
    named = [day for word, day in FIRST_WORDS.items() if re.search(rf"\b{word}\b", text)]
    if re.search(r"\b(last|end of)\b", text):
        named.append(LAST_DAY)
    if text == "-1":
        return LAST_DAY
    if re.search(r"\d", text):
        day = read_number(text)
        return day if not named and day in range(1, 32) else None
    others = set(re.findall(r"[a-z]+", text)) - set(FIRST_WORDS) - WORDS_OF_A_DAY
    return named[0] if len(named) == 1 and not others else None


def show_payment_day(day: object) -> str:
    """Return a day of the month in words."""
    return "last day" if day == LAST_DAY else str(day)


def check_kit_size(text: str, asked: Asked) -> Checked:
    """Accept one of the sizes that the club orders."""
    plain = re.sub(
        r"\b(age|ages|aged|size|years?|old|yrs?|please|a|in|the|adult|adults)\b",
        " ",
        tidy(text).lower(),
    )
    plain = re.sub(r"(\d)\s*(?:-|/|to|or)\s*(\d)", r"\1/\2", plain)
    plain = " ".join(plain.replace("-", " ").split()).strip(" .,!")
    size = SIZE_WORDS.get(plain, plain.upper())
    if size not in SIZES:
        return refuse(text, f"Which of these sizes would fit best: {', '.join(SIZES)}?")
    return accept(text, size)


def check_shirt_number(text: str, asked: Asked) -> Checked:
    """Accept a number from 1 to 49; a goalkeeper's is 1 or 12."""
    plain = tidy(text).lower()
    number = read_number(plain)
    if number not in NUMBERS:
        return refuse(text, "Which shirt number would they like, from 1 to 49?")
    keeps_goal = (
        re.search(r"\b(goal ?keeper|goalie|keeper|in goal)\b", plain) and "not" not in plain.split()
    )
    if keeps_goal and number not in GOALKEEPER_NUMBERS:
        return refuse(text, "Our goalkeepers wear 1 or 12. Which of the two would they like?")
    return accept(text, number, "read as a number")


def read_number(text: str) -> int | None:
    """Return the one number of at most two digits that a text holds; None when it holds another or several."""
    numbers = re.findall(r"-?[0-9]+(?:[.,][0-9]+)*", text)
    return int(numbers[0]) if len(numbers) == 1 and re.fullmatch("[0-9]{1,2}", numbers[0]) else None
