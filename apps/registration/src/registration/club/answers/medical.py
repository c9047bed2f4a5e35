"""The health of a child, as far as the managers must know of it."""

import re

from registration.club.answers.checked import Asked, Checked, accept, read_words, refuse, tidy

LONGEST = 500
WHICH = "Could you tell me in a few words what our managers should know about?"
# Only these words may follow a "no": anything else may be an issue, and is asked about again.
NONE_WORDS = (
    "no none nope nothing nil n/a na not applicable medical health issues issue problems problem conditions condition "
    "at all known that i we know of am aware are thanks thank you he she they it is he's she's they're fine healthy fit "
    "and well does doesn't do don't has hasn't have haven't any to report really none"
)
SAYS_NO = re.compile(
    r"(no|none|nope|nothing|nil|n/a|not applicable|he's fine|she's fine|he is fine|she is fine)\b"
)
EXCEPTION = re.compile(
    r"\b(?:but|except(?: for)?|apart from|other than|just|only)\b[\s,]*(?P<issues>.*)"
)
LEAD = re.compile(
    r"^((yes|yeah|yep|yup|y|no|but|and|just|only|well|actually|also|unfortunately)\b[\s,:;.-]*)+"
)
FILLER = re.compile(
    r"^((he|she|they|my (son|daughter|child))('s| has| have| is| suffers from| had| needs)( got)?|has|have|is|a|an|"
    r"the|some|mild case of|carries)\s+"
)
SERIOUS = re.compile(
    r"epi-?\s?pen|adrenaline|anaphyla|inhaler|diabet|insulin|epilep|seizure|heart|cardiac",
    re.IGNORECASE,
)


def check_medical(text: str, asked: Asked) -> Checked:
    """Accept a no, or the child's health issues; the value is `{"has", "issues", "detail"}`."""
    plain = tidy(text).strip(" .!")
    if len(plain) > LONGEST:
        return refuse(text, WHICH)
    if says_no(plain):
        return accept(text, {"has": False, "issues": [], "detail": None}, "read as no")
    if SAYS_NO.match(plain.lower()):
        exception = EXCEPTION.search(plain)
        if exception is None:
            return refuse(
                text,
                "Just to be sure: is there anything our managers should know about? If so, what?",
            )
        plain = exception["issues"]
    issues = list_issues(plain)
    if not issues:
        return refuse(text, WHICH)
    return accept(text, {"has": True, "issues": issues, "detail": None}, "made a list")


def says_no(text: str) -> bool:
    """Return whether a text says that there is nothing to know, and nothing else."""
    return bool(SAYS_NO.match(text.lower())) and set(read_words(text)) <= set(NONE_WORDS.split())


def list_issues(text: str) -> list[str]:
    """Return the issues that a text names, each once and with a capital letter."""
    found: dict[str, str] = {}
    for part in re.split(r"\s*(?:[,;]|\band\b|&)\s*", strip_lead(text)):
        issue = strip_lead(part).strip(" .")
        if any(c.isalpha() for c in issue):
            found.setdefault(issue.casefold(), issue[:1].upper() + issue[1:])
    return list(found.values())


def strip_lead(text: str) -> str:
    """Return a text without the words that only lead to an issue: "Yes, he has a"."""
    while True:
        lowered = text.lower()
        lead = LEAD.match(lowered) or FILLER.match(lowered)
        if lead is None or len(lowered) != len(text):
            return text
        text = text[lead.end() :]


def needs_detail(medical: object, before: object = None) -> bool:
    """Return whether an answer needs one further question, which was not asked yet.

    An issue needs it that is serious, or that stands in place of an answer which had a detail.

    Args:
        medical: the answer.
        before: the answer in whose place it stands, if any.
    """
    if not isinstance(medical, dict) or medical.get("detail"):
        return False
    had_detail = isinstance(before, dict) and bool(before.get("detail"))
    return any(had_detail or SERIOUS.search(str(issue)) for issue in medical["issues"])


def check_detail(text: str, asked: Asked) -> Checked:
    """Accept the parent's account of a serious issue, in their own words."""
    plain = tidy(text)
    if not plain or len(plain) > LONGEST:
        return refuse(
            text, "Could you tell me in a sentence or two where it is kept and what we must know?"
        )
    return accept(text, plain)


def show_medical(medical: object) -> str:
    """Return the issues with commas between them; "None" when there are none."""
    return ", ".join(medical["issues"]) or "None" if isinstance(medical, dict) else ""
