"""The table walked along every branch, by all choices and by chance."""

from collections.abc import Iterator

import pytest
from apps.registration.tests.club.registrations import (
    ADDRESS,
    ANSWERS,
    FURTHER_ANSWERS,
    NEW,
    OLDER,
    OUTCOMES,
    RETURNING,
    TODAY,
    Parent,
    answer_of,
)
from hypothesis import given
from hypothesis import strategies as st

from registration.club import diagram
from registration.club.answers.checked import Asked
from registration.club.codes import RegistrationCode
from registration.club.journey import begin, finish_effect, take
from registration.club.progress import Effect, Progress, Reading
from registration.club.steps import STEPS
from registration.club.wording import open_question

# Besides the usual answer and outcome, each step and effect has others that lead elsewhere.
OTHER_ANSWERS = {5: ["yes, EpiPen"], 6: ["no"], 15: ["no"], 16: ["no"], 21: ["no"], 30: ["no"]}
OTHER_OUTCOMES: dict[Effect, dict[str, object]] = {
    "look_up_parent_address": {"found": False},
    "look_up_child_address": {"found": False},
    "request_payment": {"done": False},
    "send_payment_link": {"sent": False},
    "check_kit": {"needed": True},
    "reserve_shirt": {"reserved": False, "taken": [7]},
    "check_photo": {"accepted": False, "reason": "it is too dark"},
}
STORED = Parent().go_to(30).progress.answers


def start(code: RegistrationCode) -> Progress:
    progress, _ = begin(code, STORED if code.kind == "100" else None)
    return progress


def choices(progress: Progress) -> list[Progress]:
    """The states that may follow a state."""
    effect: Effect | None = "check_photo" if progress.step == 34 else progress.pending
    if effect:
        outcomes = [
            OUTCOMES[effect],
            *([OTHER_OUTCOMES[effect]] if effect in OTHER_OUTCOMES else []),
        ]
        return [finish_effect(progress, effect, outcome)[0] for outcome in outcomes]
    others = [] if progress.further else OTHER_ANSWERS.get(progress.step, [])
    texts = [answer_of(progress), *others]
    return [take(progress, Reading(understood=True, value=text), TODAY)[0] for text in texts]


def walk(code: RegistrationCode) -> tuple[set[int], set[tuple[int, int]]]:
    """All steps and moves that are reached from the start of a registration."""
    seen: set[str] = set()
    moves: set[tuple[int, int]] = set()
    steps: set[int] = set()
    left = [start(code)]
    while left:
        progress = left.pop()
        steps.add(progress.step)
        key = (
            progress.step,
            progress.pending,
            progress.further,
            decisive(progress),
            dict(progress.outcomes),
        )
        if repr(key) in seen or progress.step == 35:
            continue
        seen.add(repr(key))
        for following in choices(progress):
            moves.add((progress.step, following.step))
            left.append(following)
    return steps, moves


def decisive(progress: Progress) -> list[object]:
    """The answers on which a branch depends, and which are known."""
    return [progress.answers.get(field) for field in ("played_last_season", "same_address")]


def lead_on(number: int, code: RegistrationCode) -> Iterator[int]:
    """The steps to which the table leads, through those that ask nothing."""
    for branch in STEPS[number].next:
        if STEPS[branch.to].check is None:
            yield from lead_on(branch.to, code)
        else:
            yield branch.to


def test_every_step_is_reached_but_the_unused_ones() -> None:
    steps = {number for code in (NEW, OLDER, RETURNING) for number in walk(code)[0]}
    # Step 22 asks nothing and is passed within a turn.
    assert steps | {22} == set(STEPS)
    assert set(range(1, 36)) - set(STEPS) == {17, 25, 26, 27}


def test_every_branch_of_the_table_is_taken_and_no_other() -> None:
    moves = {move for code in (NEW, OLDER, RETURNING) for move in walk(code)[1]}
    table = {(number, to) for number in STEPS for to in lead_on(number, NEW) if STEPS[number].check}
    taken = {move for move in moves if move[0] != move[1]}
    again = {(number, number) for number in STEPS if (number, number) in table}
    # From 35 contact data may change through 28, and then a saved record is updated: another test.
    assert taken | again == table - {(28, 35)}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("code", [NEW, OLDER, RETURNING], ids=lambda code: code.text)
@given(picks=st.lists(st.integers(0, 5), max_size=80))
def test_whatever_happens_on_the_way_it_ends_at_35(
    code: RegistrationCode, picks: list[int]
) -> None:
    progress = start(code)
    for pick in picks:
        following = choices(progress)
        progress = following[pick % len(following)]
        assert_saved_values_are_accepted_again(progress)
    for _ in range(120):
        if progress.step == 35 and not progress.pending:
            break
        progress = choices(progress)[0]
    assert (progress.step, progress.pending, progress.further) == (35, None, None)


def assert_saved_values_are_accepted_again(progress: Progress) -> None:
    asked = Asked(TODAY, progress.code.age_group, progress.answers)
    for step in STEPS.values():
        value = progress.answers.get(step.field)
        if step.check is None or value is None or step.field in {"played_last_season", "photo"}:
            continue
        again = step.check(step.show(value), asked)
        if step.field == "medical":
            assert isinstance(value, dict)
            assert isinstance(again.value, dict)
            assert again.value["issues"] == value["issues"]
        else:
            assert again.value == value, step.field


@pytest.mark.slow  # takes half a second or more
@given(
    picks=st.lists(
        st.tuples(
            st.booleans(),
            st.none()
            | st.text(max_size=12)
            | st.sampled_from([*ANSWERS.values(), *FURTHER_ANSWERS.values()]),
            st.none()
            | st.sampled_from(
                [*(step.field for step in STEPS.values() if step.field), "step", "tries"]
            ),
            st.none() | st.just("why?"),
        ),
        max_size=60,
    )
)
def test_no_reading_of_a_model_breaks_the_journey(
    picks: list[tuple[bool, str | None, str | None, str | None]],
) -> None:
    parent = Parent()
    for understood, value, field, question in picks:
        before = parent.progress
        parent.send(Reading(understood, value, field, question))
        assert parent.said.text
        assert open_question(parent.progress)
        frozen = before.outcomes.get("save_registration", False)
        assert not frozen or parent.progress.answers["payment_day"] == before.answers["payment_day"]
        assert parent.performed.count("save_registration") <= 1
        if parent.progress.step == 34:
            parent.finish("check_photo")


def test_the_page_of_the_steps_is_up_to_date(request: pytest.FixtureRequest) -> None:
    page = request.config.rootpath / "apps" / "registration" / "docs" / "steps.md"
    assert page.read_text("utf-8") == diagram.write_page(), "run: ./run generate"


def test_the_address_of_a_lookup_is_what_a_parent_could_type() -> None:
    check = STEPS[14].check
    assert check is not None
    assert check(ADDRESS["full"], Asked(TODAY, "u10s")).value == ADDRESS
