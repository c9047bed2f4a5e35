"""The order of a registration: the two functions that move it from step to step, and nothing else does.

The outcome of an effect changes the state here as well.
"""

from collections.abc import Collection, Mapping
from datetime import date

from msgspec.structs import replace

from registration.club.answers.checked import Asked
from registration.club.answers.choices import read_yes_or_no
from registration.club.answers.medical import needs_detail
from registration.club.codes import RegistrationCode
from registration.club.corrections import (
    find_field,
    find_missing,
    group_of,
    is_same_person,
    refuse_change,
    save_answer,
    start_again_from,
    wants_to_keep,
)
from registration.club.kit import offer_free_numbers
from registration.club.progress import Effect, Facts, Further, Offer, Progress, Reading, Said, Terms
from registration.club.steps import FURTHER, STEP_OF, STEPS
from registration.club.wording import (
    DUPLICATE,
    NO_MESSAGE,
    NOT_UNDERSTOOD,
    ONE_AT_A_TIME,
    PAY_IN_A_WEEK,
    PHOTO_BY_BUTTON,
    TOO_MANY_TRIES,
    WELCOME,
    WORKING,
    ask,
    fill,
    open_question,
    say_again,
    say_changed,
)

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


TRIES_OF_A_RESUME = 3
Answered = tuple[Progress, Said]


class JourneyError(Exception):
    """The program used the journey wrongly: a message while an effect is pending, or a step that does not exist."""


def begin(
    code: RegistrationCode, stored: Mapping[str, object] | None = None, terms: Terms | None = None
) -> Answered:
    """Return the first state of a registration and the first reply.

    Args:
        code: The code that the parent typed.
        stored: The answers of last season, for a code of the kind `100`. They are shown once the parent has named
            the mobile number or e-mail address in them.
        terms: The facts about the club in the texts.
    """
    progress = Progress(code, step=1, terms=terms or Terms())
    if code.kind == "100":
        if stored is None:
            raise JourneyError("a code of the kind 100 needs the stored answers")
        progress = replace(progress, step=28, answers=start_again_from(stored), further="identity")
        return progress, Said("asked", ask(progress))
    return progress, Said("asked", fill(WELCOME, progress) + ask(progress))


def take(progress: Progress, reading: Reading, today: date) -> Answered:
    """Return the state after a message, and the reply.

    Args:
        progress: The state before.
        reading: The reading of the message. Only its value counts, and only after the validator of the open question.
        today: The date of the message.

    Raises:
        JourneyError: An effect is pending, which must be performed first; or the step is one that is not used.
    """
    if progress.step not in STEPS:
        raise JourneyError(f"step {progress.step} is not used")
    if progress.pending:
        raise JourneyError(f"{progress.pending} is pending: perform it and call finish_effect")
    field = reading.wants_to_change
    if field and progress.further not in {"identity", "resume"}:
        known = STEP_OF.get(field)
        if known is not None and (known != progress.step or progress.further):
            progress, said = correct_field(progress, field, reading.value, today)
            return progress, replace(said, question=reading.question)
    if reading.value is not None and reading.understood:
        progress, said = answer(progress, reading.value, today)
        return progress, replace(said, question=reading.question)
    if reading.question:
        why = fill(open_question(progress).why, progress)
        return progress, Said(
            "answered_question", f"{why} {ask(progress)}".strip(), reading.question
        )
    return ask_again(progress)


def ask_after_code(progress: Progress) -> Said:
    """Return the reply to a code that comes when one was accepted already; nothing changes."""
    return Said("asked", f"{fill(ONE_AT_A_TIME, progress)} {ask(progress)}")


def finish_effect(progress: Progress, effect: Effect, outcome: Mapping[str, object]) -> Answered:
    """Return the state after an effect was performed, and the reply.

    Args:
        progress: The state, in which the effect is pending. `check_photo` is never pending: its job ends at step 34.
        effect: The effect.
        outcome: Its outcome; `take_outcome` names the keys.

    Raises:
        JourneyError: The effect is not pending.
    """
    if effect == "check_photo":
        return finish_photo(progress, outcome)
    if effect != progress.pending:
        raise JourneyError(f"{effect} is not pending")
    progress, message = take_outcome(replace(progress, pending=None), effect, outcome)
    if progress.further:
        return progress, Said("asked", ask(progress))
    if effect == "save_registration" and not progress.outcomes[effect]:
        return progress, Said("asked_again", fill(DUPLICATE, progress))
    if effect not in {duty.effect for duty in STEPS[progress.step].duties}:
        return progress, Said("changed", say_changed(progress))
    progress, said = go_on(progress, after=effect)
    return progress, replace(said, text=f"{message} {said.text}") if message else said


def finish_photo(progress: Progress, outcome: Mapping[str, object]) -> Answered:
    """Take the verdict on a photo, which may come while the parent corrects something else at step 34."""
    if 34 not in {progress.step, progress.back_to}:
        raise JourneyError("no photo is awaited")
    progress, message = take_outcome(progress, "check_photo", outcome)
    target = choose_next(replace(progress, step=34))
    if progress.step == 34:
        progress = replace(progress, step=target, tries=0)
    else:
        progress = replace(progress, back_to=target)
    text = f"{message} {ask(progress)}".strip()
    return progress, Said(
        "done" if progress.step == 35 else "asked_again" if message else "asked", text
    )


def answer(progress: Progress, value: str, today: date) -> Answered:
    """Take an answer to the open question."""
    if progress.further == "identity":
        return identify(progress, value)
    if progress.further == "resume":
        return resume(progress, value)
    if progress.further == "which_field":
        return choose_field(progress, value, today)
    if progress.step == 34:
        return progress, Said("asked_again", PHOTO_BY_BUTTON)
    if progress.step == 35:
        return progress, Said("done", ask(progress))
    if progress.back_to is not None and wants_to_keep(value) and can_keep(progress):
        progress = replace(progress, step=progress.back_to, back_to=None, further=None, tries=0)
        return progress, Said("asked", f"Of course, it stays as it is. {ask(progress)}")
    question = open_question(progress)
    checked = question.check(value, ask_of(progress, today)) if question.check else None
    if checked is None or not checked.valid:
        return ask_again(progress, checked.message if checked else "")
    before, answers = progress.answers.get("medical"), save_answer(progress, checked.value)
    progress = replace(progress, answers=answers, tries=0, further=None)
    if progress.step == 5 and needs_detail(answers["medical"], before):
        return open_further(progress, "medical_detail")
    if progress.step == 28:
        return confirm(progress)
    return go_on(progress)


def can_keep(progress: Progress) -> bool:
    """Return whether a correction may be given up: nothing that was answered before it is missing now."""
    missing = find_missing(progress)
    return missing is None or (progress.back_to is not None and missing >= progress.back_to)


def choose_field(progress: Progress, value: str, today: date) -> Answered:
    """Go to the field that a parent names at step 28; a yes there means that nothing is wrong after all."""
    field = find_field(value, progress)
    if field:
        return correct_field(progress, field, None, today)
    if read_yes_or_no(value):
        return answer(replace(progress, further=None), value, today)
    return ask_again(progress)


def confirm(progress: Progress) -> Answered:
    """Go on from step 28: to the field that is wrong, to one that is missing, or to the payment."""
    if not progress.answers["confirmed"]:
        return open_further(progress, "which_field")
    missing = find_missing(progress)
    if missing:
        progress = replace(progress, step=missing, back_to=28)
        return progress, Said("asked", f"Nearly there, I only need one more thing. {ask(progress)}")
    return go_on(replace(progress, changed=()))


def identify(progress: Progress, value: str) -> Answered:
    """Show a saved record to the person who gave it, and to nobody else."""
    if not is_same_person(value, progress.answers):
        return ask_again(
            progress, "Sorry, that is not what we have. Is there another number or e-mail address?"
        )
    progress = replace(progress, further=None, tries=0)
    return progress, Said("asked", ask(progress))


def refuse_identity(progress: Progress) -> Answered:
    """Look at no further guess; a registration that is new goes on, without the saved one."""
    if progress.further == "identity":
        return progress, Said("asked_again", fill(TOO_MANY_TRIES, progress))
    return go_on(replace(progress, further=None, offer=None, tries=0), after="find_registration")


def resume(progress: Progress, value: str) -> Answered:
    """Go on with a saved registration, if the parent shows that it is theirs; else with this one."""
    offer = progress.offer
    if offer and is_same_person(value, offer.answers):
        progress = replace(
            Progress(progress.code, offer.step, offer.answers, terms=progress.terms),
            registration=offer.registration,
            outcomes={"request_payment": True, "save_registration": True},
        )
        return progress, Said("asked", f"Welcome back! {ask(progress)}")
    refused = value.strip().lower().rstrip(".!").startswith(("no", "new"))
    if not refused and progress.tries + 1 < TRIES_OF_A_RESUME:
        return ask_again(
            progress,
            "Sorry, that is not what we have. Is there another one? Or say no to start afresh.",
        )
    return go_on(replace(progress, further=None, offer=None, tries=0), after="find_registration")


def correct_field(progress: Progress, field: str, value: str | None, today: date) -> Answered:
    """Change an earlier answer, or go to its step and come back."""
    refusal = refuse_change(progress, field)
    if refusal:
        return progress, Said("not_changed", f"{refusal} {ask(progress)}")
    number = STEP_OF[field]
    if field == "previous_team" and value:
        value = f"No, {value}"
    back_to = progress.back_to or (28 if progress.step == 35 else progress.step)
    there = replace(progress, step=number, back_to=back_to, further=None, tries=0)
    if number == progress.step:
        there = replace(there, back_to=progress.back_to)
    if value is None:
        return there, Said("asked", ask(there))
    check = STEPS[number].check
    checked = check(value, ask_of(progress, today)) if check else None
    if checked is None or not checked.valid:
        message = checked.message if checked else NOT_UNDERSTOOD
        return progress, Said("asked_again", f"{message}\n\n{ask(progress)}")
    return answer(there, value, today)


def go_on(progress: Progress, after: Effect | None = None) -> Answered:
    """Ask for the next effect of the step; when there is none left, move to the next step."""
    facts = read_facts(progress)
    duties = list(STEPS[progress.step].duties)
    done = [duty.effect for duty in duties]
    left = duties[done.index(after) + 1 :] if after in done else duties if after is None else []
    for duty in left:
        if duty.holds(facts):
            return replace(progress, pending=duty.effect), Said("working", WORKING[duty.effect])
    return move(progress)


def move(progress: Progress) -> Answered:
    """Move to the next step; a correction returns to where it was made, unless it answered that question too."""
    step = progress.step
    target = choose_next(progress)
    if progress.back_to is not None and target not in group_of(step):
        if progress.back_to not in group_of(step):
            return come_back(progress)
        progress = replace(progress, back_to=None)
    while STEPS[target].check is None:
        target = choose_next(replace(progress, step=target))
    progress = replace(progress, step=target, tries=0, changed=())
    return progress, Said(
        "done" if target == 35 else "asked", introduce(progress, step) + ask(progress)
    )


def come_back(progress: Progress) -> Answered:
    """Return from a correction; a record that is saved already is updated first."""
    field = STEPS[progress.step].field
    field = {
        13: "parent_address",
        15: "parent_address",
        19: "child_address",
        21: "child_address",
    }.get(progress.step, field)
    changed = (*(name for name in progress.changed if name != field), field)
    back_to = progress.back_to or 28
    progress = replace(
        progress,
        step=back_to,
        back_to=None,
        changed=changed if back_to == 28 else (field,),
        tries=0,
    )
    if progress.outcomes.get("save_registration") and back_to != 28:
        return replace(progress, pending="update_registration"), Said(
            "working", WORKING["update_registration"]
        )
    return progress, Said("changed", say_changed(progress))


def choose_next(progress: Progress) -> int:
    """Return the step that the table names next."""
    facts = read_facts(progress)
    return next(branch.to for branch in STEPS[progress.step].next if branch.holds(facts))


def introduce(progress: Progress, came_from: int) -> str:
    """Return the sentence before the question of a step, about the step before."""
    if came_from != 30:
        return ""
    received = progress.answers.get("sms_received")
    return fill(PAY_IN_A_WEEK if received else NO_MESSAGE, progress) + " "


def open_further(progress: Progress, further: Further) -> Answered:
    """Ask a further question of the same step."""
    progress = replace(progress, further=further, tries=0)
    return progress, Said("asked", fill(FURTHER[further].asks, progress))


def ask_again(progress: Progress, message: str = "") -> Answered:
    """Count a try and repeat the question in a friendly way."""
    progress = replace(progress, tries=progress.tries + 1)
    return progress, Said("asked_again", say_again(progress, message))


def ask_of(progress: Progress, today: date) -> Asked:
    """Return the facts for a validator."""
    return Asked(today, progress.code.age_group, progress.answers, progress.code.season)


def read_facts(progress: Progress) -> Facts:
    """Return the facts for conditions of the table."""
    return Facts(progress.code, progress.answers, progress.outcomes, progress.back_to is not None)
