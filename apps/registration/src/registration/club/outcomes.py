"""What the outcome of an effect changes in the state of a registration."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from registration.club.kit import offer_free_numbers
from registration.club.progress import Effect, Offer, Progress

# Effect, and the key of its outcome that says whether it succeeded.
SUCCESS: Mapping[Effect, str] = {
    "find_registration": "found",
    "look_up_parent_address": "found",
    "look_up_child_address": "found",
    "request_payment": "done",
    "save_registration": "saved",
    "send_payment_link": "sent",
    "tell_club": "told",
    "check_kit": "needed",
    "reserve_shirt": "reserved",
    "check_photo": "accepted",
    "update_registration": "saved",
}


def take_outcome(
    progress: Progress, effect: Effect, outcome: Mapping[str, object]
) -> tuple[Progress, str]:
    """Return the state with the outcome of an effect, and a sentence about it; the step stays.

    Args:
        progress: The state, in which nothing is pending.
        effect: The effect that was performed.
        outcome: Whether it succeeded, under the key of `SUCCESS`, and with it: `address` of a lookup, in its parts;
            `registration`, `step` and `answers` of a registration that was found; `registration` of one that was
            saved; `taken`, the numbers, when a shirt was not reserved; `photo` of an accepted photo and
            `reason` of a rejected one.
    """
    succeeded = outcome.get(SUCCESS[effect]) is True
    progress = replace(progress, outcomes={**progress.outcomes, effect: succeeded})
    if effect in {"look_up_parent_address", "look_up_child_address"}:
        person = "parent" if "parent" in effect else "child"
        taken = take_address(progress, person, outcome if succeeded else {})
        return taken, "" if succeeded else "I could not find that address."
    if effect == "find_registration" and succeeded:
        return take_offer(progress, outcome), ""
    if effect == "reserve_shirt" and not succeeded:
        return release_number(progress, outcome)
    if effect == "check_photo":
        return take_photo(progress, outcome, accepted=succeeded)
    registration = outcome.get("registration")
    if effect in {"request_payment", "save_registration"} and registration is not None:
        progress = replace(progress, registration=str(registration))
    return progress, ""


def take_address(progress: Progress, person: str, outcome: Mapping[str, object]) -> Progress:
    """Save an address that was looked up."""
    answers = dict(progress.answers)
    answers.pop(f"{person}_address", None)
    if outcome:
        answers[f"{person}_address"] = outcome["address"]
    return replace(progress, answers=answers)


def take_offer(progress: Progress, outcome: Mapping[str, object]) -> Progress:
    """Keep a registration that was found until the parent shows that it is theirs."""
    answers, step = outcome.get("answers"), outcome.get("step")
    # Before step 30 there is no record yet.
    if not isinstance(answers, Mapping) or not isinstance(step, int) or step not in range(30, 36):
        return progress
    offer = Offer(str(outcome["registration"]), step, answers)
    return replace(progress, offer=offer, further="resume", tries=0)


def release_number(progress: Progress, outcome: Mapping[str, object]) -> tuple[Progress, str]:
    """Forget a shirt number that somebody else has, and offer free ones; nobody is named."""
    answers = dict(progress.answers)
    wanted = answers.pop("shirt_number", 0)
    taken = outcome.get("taken")
    known = taken if isinstance(taken, Collection) else ()
    free = offer_free_numbers(known, wanted if isinstance(wanted, int) else 0)
    offered = ", ".join(map(str, free))
    free_now = f" These are free: {offered}." if offered else ""
    return replace(progress, answers=answers), f"Sorry, number {wanted} has gone already.{free_now}"


def take_photo(
    progress: Progress, outcome: Mapping[str, object], *, accepted: bool
) -> tuple[Progress, str]:
    """Save the link of an accepted photo, or say why it was rejected."""
    if accepted:
        return replace(
            progress, answers={**progress.answers, "photo": outcome.get("photo", True)}
        ), ""
    reason = str(outcome.get("reason") or "it could not be used").strip().rstrip(".")
    return progress, f"Sorry, I cannot use that photo: {reason}."
