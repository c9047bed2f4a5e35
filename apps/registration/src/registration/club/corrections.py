"""The saved form of an answer, which fields may change when, and who may see a saved record."""

import re
from collections.abc import Mapping

from registration.club.answers.checked import tidy
from registration.club.answers.contact import read_mobile
from registration.club.codes import is_sixteen_or_over
from registration.club.progress import Progress
from registration.club.steps import STEP_OF, STEPS
from registration.club.wording import fill, summarize

MONEY = frozenset({"payment_day"})
CONTACT = frozenset({
    "parent_phone", "parent_email", "consent", "parent_postcode", "parent_house", "parent_address", "same_address",
    "child_postcode", "child_house", "child_address", "child_phone", "child_email",
})  # fmt: skip
# A correction inside a group goes on to the group's other steps before it returns.
GROUPS = (frozenset({12, 13, 14, 15}), frozenset({16, 18, 19, 20, 21}), frozenset({33}))
OF_ONE_SEASON = frozenset(
    {
        "confirmed",
        "payment_day",
        "sms_received",
        "kit_size",
        "shirt_number",
        "photo",
        "previous_team",
    }
)
KEEP = re.compile(
    r"(oh |no,? |sorry,? |actually,? )*(never ?mind|forget it|cancel|go back|back|no change|don't change( it)?|"
    r"(leave|keep) (it|that)( as( it is)?)?)( please| thanks| thank you)?"
)
CHANGE = "I would like to change this: "
"""The message of a page's button is this, with the label of a row of the summary behind it."""
CHILDS_ADDRESS = ("child_postcode", "child_house", "child_address", "child_address_right")
WORDS = {
    "parent_phone": ("my number", "my mobile", "my phone", "mobile", "phone"),
    "parent_email": ("my email", "my e-mail", "email", "e-mail"),
    "parent_born": ("my date of birth", "my birthday", "my birth"),
    "parent_name": ("my name", "my surname", "parent"),
    "child_phone": ("child's mobile", "child's phone", "child's number"),
    "child_email": ("child's email", "child's e-mail"),
    "child_born": ("date of birth", "birthday", "birth", "born", "dob"),
    "child_name": ("child's name", "player", "name", "surname"),
    "child_address": ("child's address",),
    "parent_address": ("address", "house", "street", "town", "postcode"),
    "gender": ("gender", "boy", "girl"),
    "medical": ("medical", "health", "allerg", "asthma"),
    "played_last_season": ("last season", "played", "team"),
    "relationship": ("relationship", "mother", "father", "guardian"),
    "consent": ("consent", "messages", "marketing"),
}


def save_answer(progress: Progress, value: object) -> dict[str, object]:
    """Return the answers with the value of the current step; answers that it makes out of date are dropped."""
    answers = dict(progress.answers)
    field = STEPS[progress.step].field
    if progress.further == "medical_detail" and isinstance(answers["medical"], Mapping):
        return {**answers, "medical": {**answers["medical"], "detail": value}}
    if field == "played_last_season" and isinstance(value, Mapping):
        return {**answers, field: value["played"], "previous_team": value["team"]}
    if field.endswith(("_postcode", "_house", "_address")):
        person = field.partition("_")[0]
        if field != "same_address":
            answers.pop(f"{person}_address", None)
            answers.pop(f"{person}_address_right", None)
    if field == "same_address" and value:
        for name in CHILDS_ADDRESS:
            answers.pop(name, None)
    return {**answers, field: value} if field else answers


def start_again_from(stored: Mapping[str, object]) -> dict[str, object]:
    """Return the answers of last season that hold for the new one."""
    kept = {field: value for field, value in stored.items() if field not in OF_ONE_SEASON}
    return {**kept, "played_last_season": True}


def group_of(step: int) -> frozenset[int]:
    """Return the steps that belong together when one of them is corrected."""
    return next((group for group in GROUPS if step in group), frozenset())


def find_missing(progress: Progress) -> int | None:
    """Return the first step whose answer a registration needs and does not have."""
    answers = progress.answers
    needed = [
        "parent_name", "child_name", "child_born", "gender", "medical", "played_last_season", "relationship",
        "parent_phone", "parent_email", "consent", "parent_born", "parent_address", "same_address",
    ]  # fmt: skip
    if answers.get("same_address") is False:
        needed.append("child_address")
    if is_sixteen_or_over(progress.code.age_group):
        needed += ["child_phone", "child_email"]
    missing = next((field for field in needed if answers.get(field) is None), None)
    if missing is None:
        return None
    return {"parent_address": 12, "child_address": 18}.get(missing, STEP_OF[missing])


def refuse_change(progress: Progress, field: str) -> str:
    """Return why a field cannot change now; empty when it can."""
    if field not in progress.answers and STEP_OF[field] != progress.step:
        return "We will come to that."
    registered = progress.outcomes.get("save_registration", False)
    kit = field == "kit_size" and progress.step in {33, 34}
    if field in MONEY and (registered or progress.step > 29):
        return fill(
            "The payment is set up and cannot change here. Please write to {contact}.", progress
        )
    if registered and not kit and field not in CONTACT:
        return fill("I cannot change that here any more. Please write to {contact}.", progress)
    return ""


def find_field(text: str, progress: Progress) -> str | None:
    """Return the field that a parent names in their own words, among those that are saved."""
    plain = tidy(text).lower()
    child = progress.answers.get("child_name")
    names = ["child", "son", "daughter"]
    if isinstance(child, Mapping):
        names.append(str(child["first"]).lower())
    for name in names:
        plain = plain.replace(f"my {name}'s", "child's").replace(f"{name}'s", "child's")
    if plain in STEP_OF:
        return plain
    named = [field for field, words in WORDS.items() if any(word in plain for word in words)]
    mine = [field for field in named if field in progress.answers]
    mine.sort(key=lambda field: ("child's" in plain) != field.startswith("child_"))
    return mine[0] if mine else None


def find_chosen_field(text: str, progress: Progress) -> str | None:
    """Return the field of a row of the summary that a parent chose to change by a button."""
    if progress.further in {"identity", "resume"} or not text.startswith(CHANGE):
        return None
    label = text.removeprefix(CHANGE).strip()
    rows = summarize(progress)
    return next((field for name, _, field in rows if name == label), None)


def wants_to_keep(text: str) -> bool:
    """Return whether a parent gives a correction up: "never mind", "leave it as it is"."""
    return bool(KEEP.fullmatch(tidy(text).lower().strip(" .!,")))


def names_person(text: str) -> bool:
    """Return whether a text is a mobile number or an e-mail address, and so could name a person."""
    return read_mobile(text) is not None or "@" in text


def is_same_person(text: str, answers: Mapping[str, object]) -> bool:
    """Return whether a text is the parent's mobile number or e-mail address of a saved record."""
    phone, email = read_mobile(text), tidy(text).lower()
    saved_phone = read_mobile(str(answers.get("parent_phone")))
    saved_email = str(answers.get("parent_email") or "").lower()
    return (phone is not None and phone == saved_phone) or bool(email and email == saved_email)
