"""What is timed without a server: that it does what its line in the table says."""

import pytest
from benchmarks.case import Timed
from benchmarks.cases import CASES, response_budgets, wire_deltas

WHY = "SKIPPED WITHOUT EVIDENCE: the vendors' SDKs are not installed"
timed = [case for case in CASES if isinstance(case, Timed)]


@pytest.fixture(autouse=True)
def sdks() -> None:
    for name in ("openai", "anthropic", "google.genai"):
        pytest.importorskip(name, reason=WHY)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("case", timed, ids=lambda case: case.name)
def test_a_sample_has_a_value_on_both_sides_for_each_line(
    case: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (response_budgets, wire_deltas):
        monkeypatch.setattr(module, "CALLS", 1)
    floor, ours = case.sample()
    metrics = {budget.metric for budget in case.budgets}
    assert set(floor) == set(ours) == metrics
    assert all(budget.limit and budget.compare == "ratio" for budget in case.budgets)


@pytest.mark.parametrize("wire", wire_deltas.STREAMS)
def test_a_delta_is_read_to_its_text(wire: str) -> None:
    read = wire_deltas.reader(wire)
    assert [read(), read()] == [wire_deltas.WORD] * 2


class TestBudgetsOfTheSeed:
    """Validation 1 ms, a chunk 0.5 ms, a request 5 ms: ours stay 20 times under each."""

    def test_every_wire_has_every_budget(self) -> None:
        found = {budget.metric: budget.limit for budget in response_budgets.CASE.budgets}
        assert response_budgets.SEED == {"validation": 0.001, "chunk": 0.0005, "total": 0.005}
        assert len(found) == 12
        assert set(found.values()) == {1 / 20}

    @pytest.mark.parametrize("wire", response_budgets.WHOLE)
    def test_the_work_is_the_whole_work(self, wire: str) -> None:
        works = response_budgets.works(wire)
        assert works["validation"]() is None
        chunk = works["chunk"]()
        assert getattr(chunk, "text", None) in response_budgets.WORDS
        total = works["total"]()
        assert getattr(total, "text", None) == response_budgets.TEXT
        assert getattr(total, "usage", None).output == 3  # type: ignore[union-attr]

    @pytest.mark.parametrize("wire", response_budgets.WHOLE)
    def test_the_objects_are_those_of_the_sdk(self, wire: str) -> None:
        held = response_budgets.objects(wire)
        package = {"gemini": "google", "anthropic": "anthropic"}.get(wire, "openai")
        for one in (held.response, *held.chunks):
            assert type(one).__module__.partition(".")[0] == package
