"""The page on one call under faults says what was measured, and Holdfast gives the right result for each fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.sdk_calls.faults import FAULTS, NamedFault, meet_fault
from benchmarks.sdk_calls.table import PAGE, make_table, put_table, read_result

from holdfast.testing import no_waits


def test_the_page_says_what_the_saved_result_says() -> None:
    page = PAGE.read_text("utf-8")
    result = read_result()
    assert set(result) == {fault.name for fault in FAULTS}
    assert make_table(result) in page
    assert put_table(page, result) == page


def test_the_table_tells_a_kept_wait_from_one_that_was_too_short() -> None:
    met = {"requests": 2, "told": "the answer", "is_right": True, "names_problem": False}
    asked = FAULTS[1].name
    result: Any = {asked: {"a": {**met, "waits": [3.0]}, "b": {**met, "waits": [0.5]}}}
    row = make_table(result).splitlines()[-1]
    assert "2 requests after 3 s (kept): the answer ✓" in row
    assert "2 requests after 0.5 s (too early): the answer ✓" in row


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_the_right_result(fault: NamedFault) -> None:
    pytest.importorskip("openai")
    from benchmarks.sdk_calls.callers import tell_outcome, use_holdfast

    ask, stream = use_holdfast()

    def meet(url: str, is_stream: bool) -> dict[str, Any]:
        told = tell_outcome(stream if is_stream else ask, url)
        return json.loads(json.dumps(told))  # type: ignore[no-any-return]

    with no_waits():
        met = meet_fault(fault, meet)
    assert met["is_right"], met
    assert met["requests"] == (1 if fault.stays else 2)
    assert met["names_problem"] == (fault.name == "a typed answer without a field")
