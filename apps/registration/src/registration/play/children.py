"""The children of the play: who they are, and the answers of their parents at each step.

All of them are invented, and so are the streets; the phone numbers belong to nobody. This module must never
know the decisions of the service.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

_NAMES = (
    ("Sarah Jones", "Oliver Jones"),
    ("Priya O'Neill", "Maya O'Neill"),
    ("Grace Adeyemi", "Tobi Adeyemi"),
    ("Mary Smith", "Jack Smith"),
    ("Tom Whitaker", "Rosie Whitaker"),
    ("Anna Kowalska", "Filip Kowalski"),
    ("Daniel Hughes", "Ffion Hughes"),
    ("Mei Chen", "Leo Chen"),
    ("Aisha Rahman", "Yusuf Rahman"),
    ("Peter Novak", "Ella Novak"),
)
_OF_LAST_SEASON = 3  # the player of last season among them, who is in the fixtures


class Child(Struct, frozen=True, kw_only=True):
    """A child, and the answers of the parent.

    Args:
        name: the child's name.
        code: the code that the manager gave.
        phone: the parent's mobile in the end.
        answers: the typed answers, by the number of the step.
        before: a text typed once before the answer of a step: a correction, or a question.
        identity: the name that a parent of a player of last season gives; "" for a new player.
        pays_at: the step at which the parent pays.
        cancels_first: whether the parent leaves the page of the payment provider once.
        pitch_first: whether the first photo shows a pitch.
    """

    name: str
    code: str
    phone: str
    answers: Mapping[int, str]
    before: Mapping[int, str] = {}
    identity: str = ""
    pays_at: int = 34
    cancels_first: bool = False
    pitch_first: bool = False

    def __repr__(self) -> str:
        return "Child(***)"


def list_children(season: str, count: int) -> list[Child]:
    """Return the children of a play.

    Args:
        season: the season that registers now.
        count: how many, at most ten.
    """
    return [_make_child(season, place) for place in range(count)]


def _make_child(season: str, place: int) -> Child:
    parent, name = _NAMES[place]
    is_older = place % 5 == 2
    year = 2000 + int(season[:2]) - (16 if is_older else 10)
    phone = f"07700900{100 + place}"
    answers = {
        1: parent,
        2: name,
        3: f"{10 + place} March {year}",
        4: "girl" if place % 2 else "boy",
        5: "no",
        6: "no",
        7: "mum" if place % 3 else "dad",
        8: f"{phone[:5]} {phone[5:]}",
        9: f"{parent.split()[0].lower()}@example.com",
        10: "yes",
        11: "02-11-1985",
        12: "hf1 2ab",
        13: str(place + 1),
        14: f"{place + 1} Mill Lane, Northgate, HF1 2AB",
        15: "yes",
        16: "yes",
        18: "HF1 3CD",
        19: str(place + 20),
        20: f"{place + 20} Victoria Avenue, Northgate, HF1 3CD",
        21: "yes",
        23: f"07700 9002{place:02d}",
        24: f"{name.split()[0].lower()}@example.org",
        28: "yes",
        29: str(place + 1),
        30: "yes",
        31: "yes",
        32: "9/10",
        33: "7",
    }
    child = Child(
        name=name,
        code=f"200-{'tigers-u16' if is_older else 'lions-u10'}-{season}",
        phone=phone,
        answers=answers,
        pays_at=(34, 32)[place % 2],
        cancels_first=place % 4 == 1,
        pitch_first=place % 4 == 0,
    )
    if place == _OF_LAST_SEASON:
        code = f"100-tigers-u13-{season}-{name.replace(' ', '-')}"
        return replace(child, code=code, phone="07700900555", identity="mary@example.com")
    return _vary(child, place)


def _vary(child: Child, place: int) -> Child:
    """Let some parents live elsewhere, correct themselves, or ask a question."""
    match place % 5:
        case 1:
            other = f"077009003{place:02d}"
            return replace(child, phone=other, before={10: f"Actually my number is {other}"})
        case 4:
            return replace(child, answers={**child.answers, 16: "no"})
        case _:
            return child
