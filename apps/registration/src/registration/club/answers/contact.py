"""The person behind an answer: names, addresses, mobile numbers and e-mail addresses."""

import re
import unicodedata
from collections.abc import Mapping

import phonenumbers

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


LONGEST = 100
BOTH_NAMES = "Could I have both the first and the last name, please?"
LETTERS = (
    "I can only use letters, spaces, hyphens and apostrophes in a name. Could you type it again?"
)
FULL_NAMES = "Could I have the full names rather than initials, please?"


def check_name(text: str, asked: Asked) -> Checked:
    """Accept a first and a last name, in any alphabet; the value is `{"first", "last"}`."""
    name = capitalize_name(tidy(text))
    words = name.split()
    if not name or len(name) > LONGEST or not all(map(is_name_part, words)):
        return refuse(text, LETTERS)
    if len(words) < 2:
        return refuse(text, BOTH_NAMES)
    if any(map(is_initial, words)):
        return refuse(text, FULL_NAMES)
    changes = ("tidied",) if name != text else ()
    return accept(text, {"first": words[0], "last": " ".join(words[1:])}, *changes)


def is_name_part(word: str) -> bool:
    """Return whether a word of a name is made of letters with hyphens and apostrophes between them."""
    usual = all(c in "'-" or unicodedata.category(c)[0] in "LM" for c in word)
    return usual and any(c.isalpha() for c in word) and not re.search(r"^-|-$|--|''", word)


def is_initial(word: str) -> bool:
    """Return whether a word is one letter of an alphabet that has capitals; a Chinese name may be one sign."""
    letters = [c for c in word if c.isalpha()]
    return len(letters) == 1 and letters[0].lower() != letters[0].upper()


def capitalize_name(name: str) -> str:
    """Return a name with capitals, when it was typed in small letters or capitals alone: `Jo O'Neill-Roe`."""
    if not (name.islower() or name.isupper()):
        return name
    # A single letter behind an apostrophe is no part of its own: "Ta's", but "O'Neill".
    capitals = re.sub(r"(?:[^\s'-]|(?<=\w)'(?=\w\b))+", capitalize_part, name)
    return unicodedata.normalize("NFKC", capitals)


def capitalize_part(part: re.Match[str]) -> str:
    """Return a part of a name with its first letter alone as a capital."""
    return part[0][:1].upper() + part[0][1:].lower()


MOBILE = "I need a UK mobile number that begins with 07 and has 11 digits. Could you type it again?"
EMAIL = "That e-mail address does not look complete. Could you type it again?"
EMAIL_FORM = re.compile(
    r"[a-z0-9!#$%&'*+/=?^_{|}~-]+(\.[a-z0-9!#$%&'*+/=?^_{|}~-]+)*@([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}"
)


def check_parent_phone(text: str, asked: Asked) -> Checked:
    """Accept a UK mobile number; the value is `07` and nine digits."""
    return check_mobile(text, asked.answers.get("child_phone"))


def check_child_phone(text: str, asked: Asked) -> Checked:
    """Accept a UK mobile number that is not the parent's."""
    return check_mobile(text, asked.answers.get("parent_phone"))


def check_mobile(text: str, taken: object) -> Checked:
    """Accept a mobile number that differs from the other person's."""
    number = read_mobile(text)
    if number is None:
        return refuse(text, MOBILE)
    if number == taken:
        return refuse(
            text, "The parent and the child each need a number of their own. Is there another one?"
        )
    return accept(text, number)


def read_mobile(text: str) -> str | None:
    """Return a UK mobile number as `07` and nine digits; None when the text is none."""
    plain = tidy(text)
    if not re.fullmatch(r"[0-9+() .-]{11,40}", plain):
        return None
    try:
        number = phonenumbers.parse(plain, "GB")
    except phonenumbers.NumberParseException:
        return None
    national = str(number.national_number)
    is_mobile = number.country_code == 44 and re.fullmatch(r"7\d{9}", national)
    return f"0{national}" if is_mobile else None


def check_parent_email(text: str, asked: Asked) -> Checked:
    """Accept an e-mail address; the value is in lower case."""
    return check_email(text, asked.answers.get("child_email"))


def check_child_email(text: str, asked: Asked) -> Checked:
    """Accept an e-mail address that is not the parent's."""
    return check_email(text, asked.answers.get("parent_email"))


def check_email(text: str, taken: object) -> Checked:
    """Accept an e-mail address that differs from the other person's."""
    address = tidy(text).lower()
    if len(address) > 254 or not EMAIL_FORM.fullmatch(address):
        return refuse(text, EMAIL)
    if address == taken:
        return refuse(
            text,
            "The parent and the child each need an address of their own. Is there another one?",
        )
    return accept(text, address)
