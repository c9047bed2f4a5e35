"""The labelled errors of real providers: category, whether to retry, and how long to wait.

Every row is tried as its wire would write it, and once more as it was recorded, where it was.
"""

import pytest
from tests.codecs.labelled_errors import Labelled, labelled

DIFFERS = {
    (
        "azure",
        "The model produced invalid content.",
    ): "its next sentence speaks of an error that stays: another sample may pass",
    (
        "llamacpp",
        "image input is not supported",
    ): "the server lacks the part that it needs: no retry brings it",
    (
        "google",
        "Quota exceeded for quota metric 'Generate Content API requests per minute'",
    ): "the recorded body names a limit of 0: no wait brings it",
    (
        "google_vertex",
        "Quota exceeded for quota metric 'Generate Content API requests per minute'",
    ): "the recorded body names a limit of 0: no wait brings it",
    (
        "voyage",
        "Model nonexistent is not supported. Supported models are",
    ): "the model is unknown there, said like the supported names of others",
}
"""Provider and words -> why our answer differs from the label on purpose."""


def reason(case: Labelled) -> str | None:
    return next(
        (
            why
            for (provider, words), why in DIFFERS.items()
            if case.row["provider"] == provider and case.row["message"].startswith(words)
        ),
        None,
    )


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("recorded", [False, True], ids=["written", "recorded"])
def test_labelled_errors_are_understood(recorded: bool, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case for case in labelled() if case.recorded is recorded]
    misses = [case for case in cases if case.problem()]
    with capsys.disabled():
        print(f"\n{len(cases) - len(misses)} of {len(cases)} labelled errors understood")
        for case in misses:
            print(f"  {case.title}: {case.problem()}: {reason(case) or 'UNEXPLAINED'}")
    assert [case.title for case in misses if reason(case) is None] == []


def test_at_least_98_percent_of_the_labelled_errors_are_right_in_every_form() -> None:
    rows = {case.row["id"] for case in labelled()}
    wrong = {case.row["id"] for case in labelled() if case.problem()}
    assert len(wrong) <= 0.02 * len(rows)


def test_every_delay_that_a_provider_states_is_found() -> None:
    stated = [case for case in labelled() if case.row["retry_delay_at"] and not case.recorded]
    assert [case.title for case in stated if case.classify().retry_after is None] == []


def test_no_label_is_missing_from_the_mapping() -> None:
    assert all(case.allowed for case in labelled())


def test_every_error_names_the_problem_and_the_provider() -> None:
    for case in labelled():
        info = case.classify()
        assert info.safe.startswith(case.row["provider"])
        assert info.safe.isprintable()
