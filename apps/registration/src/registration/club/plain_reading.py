"""Reads an answer from the words of a message by code alone, for the turns in which no model answers."""

import re
from collections.abc import Callable, Iterator

from registration.club.answers.checked import Asked, list_words, read_words, tidy
from registration.club.answers.club_matters import FIRST_WORDS
from registration.club.answers.contact import POSTCODE_IN_TEXT
from registration.club.answers.medical import SERIOUS, says_no
from registration.club.progress import Reading
from registration.club.steps import FURTHER, Step

LEAD = re.compile(
    r"^((hi|hello|hey|yes|ok|okay|sure|thanks|thank you|well|so)[\s,.!:-]+|"
    r"(my|his|her|their|the|our)( \w+('s)?)? (full )?(name|names|number|mobile|phone|e-?mail|address|postcode|house|birthday|dob|"
    r"date of birth)( number| address)?( is|'s| are|:)?\s+|"
    r"(it is|it's|its|i am|i'm|he is|he's|she is|she's|they are|this is|that is|that's|we are at|we live at|we are)\s+|"
    r"((he|she|i|they|\w+) (was|were) )?born( on)?( the)?\s+|(was|is|on|at|number|no\.) (?=\S))+",
    re.IGNORECASE,
)
QUESTION = re.compile(
    r"\?\s*$|^(why|what|who|when|where|how|which|can|could|do|does|is|are|will|would|may|must) (?!not\b)\w+",
    re.IGNORECASE,
)
NOT_IN_NAMES = list_words(
    "a about afternoon am and are as ask asked at back be busy but by can can't cannot checking cheers didn't "
    "does don't evening for forget from give good great had hang has have he hello help hey hi hold how i idea "
    "ignore in is it it's just know later let lovely me mind minute moment morning my need never night no not now "
    "ok okay on one paid please previous really register registration say sec second see send set she skip soon "
    "sorry sounds step stop system tell test testing thank thanks that the there they this to wait want was we "
    "were what when where which who why with won't wrong yes you your"
)
BESIDE_NUMBERS = list_words(
    "a at can day each end every for goalie goalkeeper have he he'd he's she'd they'd him his "
    "i i'd in is it keeper last like month no number of on or please prefer she she's shirt "
    "take the them they to us want would will wear"
)
HOUSE = re.compile(
    r"(flat |apartment |unit )?\d{1,5} ?[a-z]?|([\w'-]+ ){1,3}(cottage|house|lodge|farm|villa|barn|hall)",
    re.IGNORECASE,
)
CORRECTION = re.compile(
    r"\b(wrong|mistake|actually|correction|mistyped|typo|not right)\b", re.IGNORECASE
)
OF_THE_CHILD = re.compile(r"\b(his|her|their|child|son|daughter)\b", re.IGNORECASE)
EMAIL = re.compile(r"[^\s@<>,;:()]{1,64}@[^\s@<>,;:()]{1,189}[a-z]", re.IGNORECASE)
PHONE = re.compile(r"\+?\(?\d[\d\s().-]{9,24}\d")
CONTACT = re.compile(f"{EMAIL.pattern}|{PHONE.pattern}", re.IGNORECASE)
DATE = re.compile(
    r"\d{1,4}[-/. ]\d{1,2}[-/. ]\d{2,4}|(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? [a-z]{3,9}|[a-z]{3,9} \d{1,2}(?:st|nd|rd|th)?),? \d{2,4}",
    re.IGNORECASE,
)


def read_plainly(step: Step, words: str, asked: Asked) -> Reading:
    """Return the reading of a message, as far as code is certain of it.

    Args:
        step: The open question.
        words: The message.
        asked: The facts for its validator.
    """
    correction = find_correction(step, words, asked)
    if correction:
        return correction
    if not step.readable or step.check is None:
        return ask_or_give_up(words)
    is_question = bool(QUESTION.search(tidy(words)))
    if is_question and not is_found_anywhere(step):
        return ask_or_give_up(words)
    for value in find_candidates(step, words):
        if step.check(value, asked).valid and is_sure(step, value):
            return Reading(understood=True, value=value)
    return ask_or_give_up(words)


def find_correction(step: Step, words: str, asked: Asked) -> Reading | None:
    """Return the correction of contact data that a message names: "that was wrong, my number is ..."."""
    plain = tidy(words)
    if not CORRECTION.search(plain) or OF_THE_CHILD.search(plain):
        return None
    for field, pattern in (("parent_phone", PHONE), ("parent_email", EMAIL)):
        found = pattern.findall(plain)
        if field in asked.answers and field != step.field and len(found) == 1:
            return Reading(understood=True, value=found[0].strip(), wants_to_change=field)
    return None


def ask_or_give_up(words: str) -> Reading:
    """Return a message as a question, or as not understood."""
    question = words if QUESTION.search(tidy(words)) else None
    return Reading(understood=False, question=question)


def find_candidates(step: Step, words: str) -> Iterator[str]:
    """Yield the parts of a message that may be the answer, the surest first."""
    if step is FURTHER["which_field"]:
        yield words
        return
    plain = tidy(words)
    pattern = find_pattern(step)
    if pattern:
        found = [match[0].strip() for match in pattern.finditer(plain)]
        if len(set(found)) == 1:
            yield found[0]
    without = LEAD.sub("", plain).strip(" .!,")
    if without:
        yield without
    yield words


def find_pattern(step: Step) -> re.Pattern[str] | None:
    """Return the form by which an answer is found in a sentence; None when it has none."""
    if step in (FURTHER["identity"], FURTHER["resume"]):
        return CONTACT
    for ending, pattern in PATTERNS.items():
        if step.field.endswith(ending):
            return pattern
    return None


def is_found_anywhere(step: Step) -> bool:
    """Return whether an answer is known by its form, also within a question."""
    return find_pattern(step) is not None


def is_sure(step: Step, value: str) -> bool:
    """Return whether a valid value is the answer rather than a remark that happens to be valid."""
    test = TESTS.get(step.field)
    return test is None or test(value)


def is_surely_name(value: str) -> bool:
    """Return whether a text reads as a name: two to four words, none of them an everyday word."""
    words = read_words(value)
    return 2 <= len(words) <= 4 and not set(words) & NOT_IN_NAMES


def is_surely_medical(value: str) -> bool:
    """Return whether a text says no, says yes with something behind it, or names something serious."""
    plain = tidy(value).lower()
    listed = re.match(r"(yes|yeah|yep)\b.*\w{3}", plain) and len(plain) > 7
    return bool(says_no(plain) or listed or SERIOUS.search(plain))


def is_surely_house(value: str) -> bool:
    """Return whether a text is a house number, or a name that ends as houses' names do."""
    return bool(HOUSE.fullmatch(tidy(value)))


def is_surely_number(value: str) -> bool:
    """Return whether a text holds a number and only words that people say beside one."""
    words = {word for word in read_words(value) if not re.fullmatch(r"-?\d+(st|nd|rd|th)?", word)}
    return words <= BESIDE_NUMBERS | set(FIRST_WORDS)


PATTERNS = {
    "_email": EMAIL,
    "_phone": PHONE,
    "_born": DATE,
    "_postcode": POSTCODE_IN_TEXT,
}
TESTS: dict[str, Callable[[str], bool]] = {
    "parent_name": is_surely_name,
    "child_name": is_surely_name,
    "medical": is_surely_medical,
    "parent_house": is_surely_house,
    "child_house": is_surely_house,
    "payment_day": is_surely_number,
    "shirt_number": is_surely_number,
}
