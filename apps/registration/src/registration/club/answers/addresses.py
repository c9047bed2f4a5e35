"""Postcodes, houses, and whole addresses typed by hand."""

import re
from collections.abc import Mapping

from registration.club.answers.checked import Asked, Checked, accept, refuse, tidy

POSTCODE = re.compile(r"[A-Z]{1,2}[0-9]{1,2}[A-Z]?[0-9][A-Z]{2}")
POSTCODE_IN_TEXT = re.compile(
    r"\b([A-Z]{1,2}[0-9]{1,2}[A-Z]?) ?([0-9][A-Z]{2})\b", re.IGNORECASE | re.ASCII
)
LONGEST_HOUSE = 80
LONGEST_ADDRESS = 250
WHOLE_ADDRESS = (
    "Could I have the house, the street, the town and the postcode, with commas between them?"
)


def check_postcode(text: str, asked: Asked) -> Checked:
    """Accept a UK postcode; the value is in capitals without a space."""
    postcode = re.sub(r"[\s-]", "", tidy(text)).upper()
    if not POSTCODE.fullmatch(postcode):
        return refuse(text, "That does not look like a UK postcode. Could you type it again?")
    return accept(text, postcode)


def check_house(text: str, asked: Asked) -> Checked:
    """Accept any number or name of a house."""
    house = tidy(text)
    if not house or len(house) > LONGEST_HOUSE or not any(c.isalnum() for c in house):
        return refuse(text, "What is the number or the name of the house?")
    return accept(text, house)


def check_address(text: str, asked: Asked) -> Checked:
    """Accept house, street, town and postcode; the value is the address in its parts."""
    plain = ", ".join(filter(None, (tidy(line).strip(" ,") for line in text.splitlines())))
    postcodes = list(POSTCODE_IN_TEXT.finditer(plain))
    if not postcodes or len(plain) > LONGEST_ADDRESS:
        return refuse(text, WHOLE_ADDRESS)
    last = postcodes[-1]
    postcode = f"{last[1]}{last[2]}".upper()
    rest = plain[: last.start()] + plain[last.end() :]
    parts = [part for part in (piece.strip(" .") for piece in rest.split(",")) if part]
    address = divide_address(parts)
    if address is None:
        return refuse(text, WHOLE_ADDRESS)
    lines = [address["line_1"], address["town"], address["city"], space_postcode(postcode)]
    full = ", ".join(filter(None, lines))
    return accept(text, {**address, "postcode": postcode, "full": full}, "divided into its parts")


def divide_address(parts: list[str]) -> dict[str, str] | None:
    """Return house, street, town and city of an address without its postcode; None when one is missing."""
    if len(parts) >= 3 and not (parts[0][0].isdigit() and " " in parts[0]):
        house, street, *places = parts
        line_1 = f"{house} {street}" if house[0].isdigit() else f"{house}, {street}"
    elif len(parts) >= 2 and " " in parts[0] and parts[0][0].isdigit():
        line_1, *places = parts
        house = line_1.split(" ")[0]
    else:
        return None
    town, *more = places
    return {"house": house, "line_1": line_1, "town": town, "city": ", ".join(more)}


def space_postcode(postcode: str) -> str:
    """Return a postcode as it is written on a letter: `M41 5AB`."""
    return f"{postcode[:-3]} {postcode[-3:]}"


def show_address(address: object) -> str:
    """Return an address on one line."""
    return str(address["full"]) if isinstance(address, Mapping) else ""
