"""The table of the emulated address book: invented streets, in a postcode area that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from registration.providers import Address

CITY = "Holdford"

# Postcode, street, town, and the houses: a range "1-39" with its step, or names.
STREETS: tuple[tuple[str, str, str, str], ...] = (
    ("HF1 1AA", "Market Street", "Northgate", "1-40"),
    ("HF1 1AB", "Church Lane", "Northgate", "1-25, The Old Rectory, Bell Cottage"),
    ("HF1 1AD", "Station Road", "Northgate", "2-60 even"),
    ("HF1 1AE", "Station Road", "Northgate", "1-59 odd"),
    ("HF1 2AB", "Mill Lane", "Northgate", "1-30, The Mill House"),
    ("HF1 2AD", "Bridge Street", "Northgate", "1-18, 7a, 7b"),
    ("HF1 2BE", "Quay Side", "Northgate", "1-12, Flat 1, Flat 2, Flat 3"),
    ("HF1 3CD", "Victoria Avenue", "Northgate", "1-80"),
    ("HF1 3CE", "Albert Avenue", "Northgate", "1-64"),
    ("HF1 3DG", "Park View", "Northgate", "1-22, Park Lodge"),
    ("HF2 1AA", "High Street", "Marlow Green", "1-48"),
    ("HF2 1AB", "Green Lane", "Marlow Green", "1-33, Rose Cottage"),
    ("HF2 1BD", "Orchard Close", "Marlow Green", "1-16"),
    ("HF2 1BE", "Apple Tree Road", "Marlow Green", "1-29"),
    ("HF2 2CF", "Meadow Way", "Marlow Green", "1-45"),
    ("HF2 2CG", "Daisy Bank", "Marlow Green", "1-14, 3a"),
    ("HF2 2DH", "School Lane", "Marlow Green", "2-30 even, The School House"),
    ("HF3 1AA", "Canal Street", "Eastmoor", "1-50"),
    ("HF3 1AB", "Lock Keepers Row", "Eastmoor", "1-9, Lock Cottage"),
    ("HF3 1BD", "Foundry Road", "Eastmoor", "1-72"),
    ("HF3 2EF", "Chapel Street", "Eastmoor", "1-39 odd"),
    ("HF3 2EG", "Chapel Street", "Eastmoor", "2-40 even"),
    ("HF3 2FH", "Moor End", "Eastmoor", "1-20, Moor Farm, Hill Top"),
    ("HF4 1AA", "Stadium Way", "Westbrook", "1-36"),
    ("HF4 1AB", "Goal Lane", "Westbrook", "1-11"),
    ("HF4 1BD", "Pavilion Road", "Westbrook", "1-27, The Pavilion"),
    ("HF4 2CE", "Brook Street", "Westbrook", "1-55"),
    ("HF4 2CF", "Willow Walk", "Westbrook", "1-19"),
    ("HF4 2DG", "Heron Close", "Westbrook", "1-8"),
    ("HF5 1AA", "Long Acre", "Hollin Wood", "1-44"),
    ("HF5 1AB", "Beech Drive", "Hollin Wood", "1-31"),
    ("HF5 1BD", "Oak Drive", "Hollin Wood", "1-28"),
    ("HF5 2EF", "Ash Grove", "Hollin Wood", "1-17, Ash House"),
    ("HF5 2EG", "Wood Lane", "Hollin Wood", "1-13, Keepers Cottage"),
    ("HF10 4ZZ", "Lighthouse Road", "Sandhaven", "1-10, The Lighthouse"),
    ("HF10 5QQ", "Harbour View", "Sandhaven", "1-24, Flat 1, Flat 2"),
)

RANGE = re.compile(r"([0-9]+)-([0-9]+)(?: (?:even|odd))?")
BEFORE_NUMBER = re.compile(r"^(?:no\.?|number|house) *(?=[0-9])")


def list_addresses() -> Iterator[Address]:
    """Return every address of the table."""
    for postcode, street, town, houses in STREETS:
        for house in expand_houses(houses):
            line = f"{house} {street}" if house[0].isdigit() else f"{house}, {street}"
            full = f"{line}, {town}, {CITY}, {postcode}"
            yield Address(house, line, town, CITY, postcode.replace(" ", ""), full)


def expand_houses(houses: str) -> Iterator[str]:
    """Return the houses that a text of the table names.

    >>> list(expand_houses("1-3, 3a, Bell Cottage, 6-9 even"))
    ['1', '2', '3', '3a', 'Bell Cottage', '6', '8']
    """
    for part in houses.split(", "):
        found = RANGE.fullmatch(part)
        if found is None:
            yield part
            continue
        first, last = int(found[1]), int(found[2])
        step = 2 if " " in part else 1
        yield from (str(number) for number in range(first, last + 1, step))


def normalize(postcode: str, house: str) -> tuple[str, str]:
    """Return a postcode and a house as the table is searched by them.

    >>> normalize("hf1 2ab", " No. 7A ")
    ('HF12AB', '7a')
    """
    words = " ".join(house.casefold().replace(",", " ").split())
    return "".join(postcode.upper().split()), BEFORE_NUMBER.sub("", words)
