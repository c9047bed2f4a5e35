"""Names of people."""

import re
import unicodedata

from registration.club.answers.checked import Asked, Checked, accept, refuse, tidy

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
