"""Answers out of a few: yes or no, gender, relationship."""

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

YES = list_words(
    "y yes yep yeah yup ya aye sure ok okay correct right true certainly definitely "
    "absolutely indeed fine agreed agree perfect great good"
)
NO = list_words(
    "n no nope nah not never don't doesn't didn't isn't wasn't hasn't haven't wrong incorrect false"
)
DOUBT = list_words("but except however unless maybe perhaps unsure")
NEGATIONS = list_words("not never don't doesn't didn't isn't wasn't hasn't haven't")
PHRASES = (
    "of course",
    "i do",
    "we do",
    "i have",
    "it is",
    "he did",
    "she did",
    "they did",
    "got it",
    "arrived",
    "received",
    "came",
)
NEITHER = ("no problem", "no worries", "not a problem")
GENDERS = {
    "Male": list_words("male m boy man son lad"),
    "Female": list_words("female f girl woman daughter lass"),
    "Not disclosed": list_words("undisclosed non-binary nonbinary other"),
}
NOT_DISCLOSED = re.compile(
    r"not disclosed|(prefer|rather|'d rather|do not|don't) not|no thanks|don't want to"
)
RELATIONSHIPS = {
    "Mother": list_words("mother mum mummy mom mam mama"),
    "Father": list_words("father dad daddy papa pa"),
    "Guardian": list_words("guardian carer foster"),
    "Other": list_words(
        "other grandma grandmother gran granny nan nana nanny grandad granddad grandfather "
        "grandpa grandparent aunt auntie aunty uncle sister brother stepmum stepmother stepdad "
        "stepfather cousin step partner godmother godfather law"
    ),
}


def check_yes_or_no(text: str, asked: Asked) -> Checked:
    """Accept a plain yes or no; the value is a bool. A yes with a "but" is neither."""
    answer = read_yes_or_no(text)
    if answer is None:
        return refuse(text, "Is that a yes or a no?")
    return accept(text, answer, "read as yes" if answer else "read as no")


def read_yes_or_no(text: str) -> bool | None:
    """Return the choice in a text; None when it has neither or both."""
    words = read_words(text)
    found = set(words)
    if found & DOUBT:
        return None
    if any(f" {known} " in f" {' '.join(words)} " for known in NEITHER):
        return None
    phrase = any(f" {known} " in f" {' '.join(words)} " for known in PHRASES)
    yes, no = bool(found & YES) or phrase, bool(found & NO)
    if yes and no:
        return None if words[0] in YES or not found & NEGATIONS else False
    return yes if yes != no else None


def check_gender(text: str, asked: Asked) -> Checked:
    """Accept Male, Female or Not disclosed, and the usual words for them."""
    if NOT_DISCLOSED.search(tidy(text).lower()):
        return accept(text, "Not disclosed")
    found = find_choice(text, GENDERS)
    if found is None:
        return refuse(text, "Would that be male, female, or would you rather not say?")
    return accept(text, found)


def check_relationship(text: str, asked: Asked) -> Checked:
    """Accept Mother, Father, Guardian or Other, and the usual words for them."""
    words = set(read_words(text.replace("-", " ")))
    is_other = words & RELATIONSHIPS["Other"] and not words & NEGATIONS
    found = "Other" if is_other else find_choice(text, RELATIONSHIPS)
    if found is None:
        return refuse(text, "Are you the mother, the father, a guardian, or somebody else?")
    return accept(text, found)


def find_choice(text: str, choices: dict[str, frozenset[str]]) -> str | None:
    """Return the one choice whose words a text holds; None when it holds none or several, or says not."""
    words = set(read_words(text))
    if words & NEGATIONS:
        return None
    found = [choice for choice, known in choices.items() if words & known]
    return found[0] if len(found) == 1 else None
