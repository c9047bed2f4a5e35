"""What happens next: the two functions that move a registration from step to step, and nothing else does."""

from collections.abc import Mapping
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
from registration.club.outcomes import take_outcome
from registration.club.progress import Effect, Facts, Further, Progress, Reading, Said, Terms
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

TRIES_OF_A_RESUME = 3
Answered = tuple[Progress, Said]


class JourneyError(Exception):
    """The program used the journey wrongly: a message while an effect is pending, or a step that does not exist."""


def begin(
    code: RegistrationCode, stored: Mapping[str, object] | None = None, terms: Terms | None = None
) -> Answered:
    """Return the first state of a registration and what is said first.

    Args:
        code: The code that the parent typed.
        stored: The answers of last season, for a code of the kind `100`. They are shown once the parent has named
            the mobile number or e-mail address in them.
        terms: What the texts say about the club.
    """
    progress = Progress(code, step=1, terms=terms or Terms())
    if code.kind == "100":
        if stored is None:
            raise JourneyError("a code of the kind 100 needs the stored answers")
        progress = replace(progress, step=28, answers=start_again_from(stored), further="identity")
        return progress, Said("asked", ask(progress))
    return progress, Said("asked", fill(WELCOME, progress) + ask(progress))


def take(progress: Progress, reading: Reading, today: date) -> Answered:
    """Return the state after a message, and what is said.

    Args:
        progress: The state before.
        reading: What the message says. Only its value counts, and only after the validator of the open question.
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
    """Return what is said to a code that comes when one was accepted already; nothing changes."""
    return Said("asked", f"{fill(ONE_AT_A_TIME, progress)} {ask(progress)}")


def finish_effect(progress: Progress, effect: Effect, outcome: Mapping[str, object]) -> Answered:
    """Return the state after an effect was performed, and what is said.

    Args:
        progress: The state, in which the effect is pending. `check_photo` is never pending: its job ends at step 34.
        effect: The effect.
        outcome: What came of it; `take_outcome` names the keys.

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
    """Return what is said before the question of a step, about the step before."""
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
    """Return what a validator may look at."""
    return Asked(today, progress.code.age_group, progress.answers, progress.code.season)


def read_facts(progress: Progress) -> Facts:
    """Return what conditions of the table may look at."""
    return Facts(progress.code, progress.answers, progress.outcomes, progress.back_to is not None)
