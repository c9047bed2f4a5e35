"""Mobile numbers and e-mail addresses."""

import re

import phonenumbers

from registration.club.answers.checked import Asked, Checked, accept, refuse, tidy

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
