"""The finished texts of the replies: questions filled in, the summary, and the texts of mistakes."""

from collections.abc import Mapping

from registration.club.answers.club_matters import SIZES, show_played
from registration.club.answers.contact import show_address, space_postcode
from registration.club.answers.medical import show_medical
from registration.club.fees import show_pence
from registration.club.kit import recommend_size
from registration.club.progress import Effect, Progress
from registration.club.steps import FURTHER, LAST_STEP, STEP_OF, STEPS, Step

WELCOME = (
    "Your registration code is valid: welcome to {team} {age_group}! Please have a passport-style photo of your "
    "child ready. The payment link comes by text message, so keep this chat open until we are done; an answer may "
    "take a moment. Brothers and sisters with the same surname get 10 % off the monthly fee.\n\n"
)
WORKING: Mapping[Effect, str] = {
    "find_registration": "One moment, I am looking whether you have been here before.",
    "look_up_parent_address": "One moment, I am looking up your address.",
    "look_up_child_address": "One moment, I am looking up the address.",
    "request_payment": "Thank you. One moment, I am preparing your payment link.",
    "save_registration": "One moment, I am saving the registration.",
    "send_payment_link": "One moment, I am sending you the payment link.",
    "tell_club": "Thank you for telling me. One moment, I am letting the club know.",
    "check_kit": "One moment, I am looking whether a kit is due.",
    "reserve_shirt": "One moment, I am looking whether that number is free.",
    "check_photo": "Photo received. One moment, I am checking it.",
    "update_registration": "One moment, I am saving the change.",
}
NOT_UNDERSTOOD = "Sorry, I did not quite catch that."
ONE_AT_A_TIME = "This conversation is about {child} in {team} {age_group}: please begin a new one for another code."
TOO_MANY_TRIES = (
    "I cannot check any more numbers or addresses for {child} today. Please write to {contact} and somebody will help "
    "you."
)
PHOTO_BY_BUTTON = "Please use the + button to upload the photo: I cannot take it from a message."
DUPLICATE = (
    "It looks as if {child} is registered already. Nothing has been charged. Please write to {contact} and somebody "
    "will sort it out with you."
)
NO_MESSAGE = "I have told the club, and somebody will be in touch about the payment link."
PAY_IN_A_WEEK = "Lovely. If you have not paid yet, please do so within 7 days: until then {child} is not registered."
# The answers that the summary leaves out: steps on the way to a value, and those asked after it.
UNLISTED = frozenset(
    {"parent_address_right", "same_address", "child_address_right", "confirmed", "photo"}
)


def open_question(progress: Progress) -> Step:
    """Return the question that a message answers now."""
    return FURTHER[progress.further] if progress.further else STEPS[progress.step]


def ask(progress: Progress) -> str:
    """Return the open question, filled in."""
    return fill(open_question(progress).asks, progress)


def fill(template: str, progress: Progress) -> str:
    """Return a template with the words of this registration; a person's text is never a template."""
    answers, fees = progress.answers, progress.terms.fees
    summary = ""
    if "{summary}" in template:
        summary = "\n".join(f"- {label}: {value}" for label, value, _ in summarize(progress))
    size = (
        recommend_size(str(answers["child_born"]), progress.code.season)
        if "{size}" in template
        else ""
    )
    return template.format_map({
        "child": first_name(answers.get("child_name"), progress.code.first or "your child"),
        "parent": first_name(answers.get("parent_name"), "there"),
        "team": progress.code.team,
        "age_group": progress.code.age_group,
        "parent_phone": answers.get("parent_phone", "your mobile"),
        "parent_address": show_address(answers.get("parent_address")),
        "child_address": show_address(answers.get("child_address")),
        "signing_fee": show_pence(fees.signing),
        "monthly_fee": show_pence(fees.monthly),
        "sibling_fee": show_pence(fees.sibling_monthly),
        "sizes": ", ".join(SIZES),
        "size": size,
        "summary": summary,
        "contact": progress.terms.contact,
    })  # fmt: skip


def first_name(name: object, otherwise: str) -> str:
    """Return the first name of a stored name."""
    return str(name["first"]) if isinstance(name, Mapping) else otherwise


def summarize(progress: Progress) -> list[tuple[str, str, str]]:
    """Return the saved answers as rows of a label, a value and a field, in the order of the steps.

    Nothing is shown before the parent of a saved record said who they are.
    """
    if progress.further == "identity":
        return []
    rows = []
    for step in STEPS.values():
        if progress.answers.get(step.field) is not None and is_listed(step.field, progress.answers):
            label = step.title.replace(
                "{child}", first_name(progress.answers.get("child_name"), "Your child")
            )
            rows.append((label, show_value(step.field, progress.answers), step.field))
    return rows


def is_listed(field: str, answers: Mapping[str, object]) -> bool:
    """Return whether the summary has a row for a field: an address stands for its postcode and house."""
    if field in UNLISTED:
        return False
    person, _, part = field.partition("_")
    return part not in {"postcode", "house"} or f"{person}_address" not in answers


def show_value(field: str, answers: Mapping[str, object]) -> str:
    """Return a saved value as a person reads it."""
    value = answers.get(field)
    if field == "played_last_season":
        return show_played({"played": value, "team": answers.get("previous_team")})
    if field == "medical":
        detail = value.get("detail") if isinstance(value, Mapping) else None
        return show_medical(value) + (f" ({detail})" if detail else "")
    if field.endswith("_postcode"):
        return space_postcode(str(value))
    return STEPS[STEP_OF[field]].show(value)


def count_steps(progress: Progress) -> tuple[int, int]:
    """Return how far a registration is, for "step 12 of 35"; a correction does not lead back."""
    return max(progress.step, progress.back_to or 0), LAST_STEP


def say_again(progress: Progress, message: str) -> str:
    """Return a friendly repetition; after three tries with an example, after six with the club's address."""
    parts = [message or f"{NOT_UNDERSTOOD} {ask(progress)}"]
    question = open_question(progress)
    if progress.tries >= 3 and question.example:
        parts.append(f"For example: {question.example}.")
    if progress.tries >= 6:
        parts.append(
            f"If you are stuck, please write to {progress.terms.contact} and somebody will help you."
        )
    return " ".join(parts)


def say_changed(progress: Progress) -> str:
    """Return the change, and the open question again."""
    changed = "\n".join(
        f"- {label}: {value}"
        for label, value, field in summarize(progress)
        if field in progress.changed
    )
    asks = "Is everything right now?" if progress.step == 28 else ask(progress)
    return f"I have changed this:\n{changed}\n{asks}" if changed else asks
