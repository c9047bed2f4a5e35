from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from apps.terminal.tests.rules.calls import call, line, moment, rules, use, words

from adh.rules.decision import Decision
from adh.rules.facts import CallFacts
from adh.rules.levels import Level
from adh.rules.restrictions import list_texts

BERLIN = ZoneInfo("Europe/Berlin")


def decide_with(restriction: str, facts: CallFacts, **when: object) -> Decision:
    held = rules(
        f"""
own:
  rule:
    pattern: [execute_command, my_*]
    supervision: automatic
    risk: low
    priority: 50
    restrictions: {{{restriction}}}
""",
        built_in=False,
    )
    return held.decide(facts, moment(**when))  # type: ignore[arg-type]


def broken(decision: Decision) -> bool:
    if decision.level is not Level.DENY:
        assert decision.violations == ()
        return False
    (violation,) = decision.violations
    assert decision.reason == f"{violation.restriction}: {violation.reason}"
    assert violation.reason
    return True


@pytest.mark.parametrize(
    ("path", "expected"),
    [("docs/a.md", False), ("docs/b/c.md", False), ("docs/secret.md", True), ("a.md", True)],
)
def test_paths_fit_what_is_allowed_and_nothing_that_is_denied(path: str, expected: bool) -> None:
    restriction = "path_pattern: {allow: docs/, deny: secret*}"
    assert broken(decide_with(restriction, call("my_tool", use(path)))) is expected


def test_every_path_of_a_call_is_restricted() -> None:
    facts = call("my_tool", use("docs/a"), use("b"))
    assert broken(decide_with("path_pattern: {allow: docs/}", facts))


def test_a_call_without_paths_breaks_no_restriction_of_paths() -> None:
    assert not broken(decide_with("path_pattern: {allow: docs/}", call("my_tool")))


@pytest.mark.parametrize(
    ("limit", "most"),
    [("7", 7), ("7 B", 7), ("2kb", 2000), ("1 KiB", 1024), ("3 MB", 3_000_000), ("1GiB", 2**30)],
)
def test_sizes_have_units(limit: str, most: int) -> None:
    assert decide_with(f"size_limit: {limit}", call("my_tool")).max_bytes == most


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"content": "x" * 10}, False),
        ({"content": "x" * 11}, True),
        ({"content": "ä" * 6}, True),
        ({"content": "\ud800" * 10}, False),
        ({"edits": [{"old": "x" * 5, "new": "y" * 6}]}, True),
        ({"max_bytes": 10}, False),
        ({"max_bytes": 11}, True),
        ({"max_bytes": float("nan")}, True),
        ({"timeout": 11}, False),
        ({}, False),
    ],
)
def test_arguments_are_no_larger_than_the_limit(
    arguments: dict[str, object], expected: bool
) -> None:
    assert broken(decide_with("size_limit: 10", call("my_tool", **arguments))) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/a?b", False),
        ("HTTPS://EXAMPLE.ORG/", False),
        ("http://example.org/", True),
        ("https://localhost:8000/", False),
        ("https://localhost:9000/", True),
        ("https://10.0.0.7/", False),
        ("https://10.0.0.8/", True),
        ("https://[fe80::1]/", True),
        ("https://[fd00::1]/", True),
        ("https://[::ffff:127.0.0.1]/", True),
        ("https://[64:ff9b::7f00:1]/", True),
        ("https://[2002:7f00:1::]/", True),
        ("https://0/", True),
        ("https://0177.0.0.1/", True),
        ("https://100.64.0.1/", True),
        ("https://224.0.0.1/", True),
        ("https://metadata.google.internal/", True),
        ("https://localhost./", True),
        ("https://a.localhost/", True),
        ("https://127.0.0.1\\@example.org/", True),
        ("https://example.org\t.evil/", True),
        ("https://user:secret@example.org/", True),
        ("https://①②⑦.⓪.⓪.①/", True),
        ("https://", True),
        ("https://[::1", True),
        ("https://example.org:99999/", True),
        ("example.org", True),
        ("", True),
    ],
)
def test_addresses_are_public_or_named(url: str, expected: bool) -> None:
    restriction = 'url_scheme: {schemes: HTTPS, private: ["localhost:8000", 10.0.0.7]}'
    assert broken(decide_with(restriction, call("my_tool", urls=[url]))) is expected
    assert broken(decide_with(restriction, line(words("curl x", urls=(url,))))) is expected


def test_all_private_addresses_can_be_allowed() -> None:
    restriction = 'url_scheme: {schemes: [http], private: "*"}'
    assert not broken(decide_with(restriction, call("my_tool", urls=["http://127.0.0.1:1/"])))


@pytest.mark.parametrize(
    ("recent", "expected"),
    [
        ([], False),
        ([5.0], False),
        ([5.0, 59.9], True),
        ([5.0, 60.0], False),
        ([5.0, -3600.0], True),
        ([1.0] * 50, True),
    ],
)
def test_rates_count_the_calls_of_the_period(recent: list[float], expected: bool) -> None:
    restriction = "rate_limit: {calls: 2, seconds: 60}"
    assert broken(decide_with(restriction, call("my_tool"), recent=recent)) is expected


def test_rates_are_asked_for_by_the_name_of_the_rule() -> None:
    asked: list[str] = []
    held = rules(
        "a: {b: {pattern: x, supervision: notify, risk: low,"
        " restrictions: {rate_limit: {calls: 1, seconds: 5}}}}"
    )
    now = moment()
    held.decide(call("x"), type(now)(now.at, lambda rule: asked.append(rule) or ()))  # type: ignore[func-returns-value]
    assert asked == ["a.b"]


WEEK = "time_window: {from: '09:00', to: '17:30', days: [mon, tue, wed, thu, fri]}"
NIGHT = "time_window: {from: '22:00', to: '06:00', days: [fri]}"
# 2026-07-03 is a Friday. Clocks change on 2026-03-29 at 02:00 and on 2026-10-25 at 03:00.
WINDOWS = [
    (WEEK, "2026-07-03T09:00", False),
    (WEEK, "2026-07-03T08:59", True),
    (WEEK, "2026-07-03T17:29", False),
    (WEEK, "2026-07-03T17:30", True),
    (WEEK, "2026-07-04T12:00", True),
    (NIGHT, "2026-07-03T22:00", False),
    (NIGHT, "2026-07-03T21:59", True),
    (NIGHT, "2026-07-04T05:59", False),
    (NIGHT, "2026-07-04T06:00", True),
    (NIGHT, "2026-07-03T05:59", True),
    (NIGHT, "2026-07-04T22:00", True),
    ("time_window: {from: '02:00', to: '03:00'}", "2026-03-29T01:59", True),
    ("time_window: {from: '02:00', to: '03:00'}", "2026-03-29T03:00", True),
    ("time_window: {from: '22:00', to: '04:00'}", "2026-03-29T03:00", False),
]


@pytest.mark.parametrize(("restriction", "at", "expected"), WINDOWS)
def test_windows_follow_the_wall_clock(restriction: str, at: str, expected: bool) -> None:
    local = datetime.fromisoformat(at).replace(tzinfo=BERLIN)
    assert broken(decide_with(restriction, call("my_tool"), at=local)) is expected


@pytest.mark.parametrize("fold", [0, 1])
def test_an_hour_that_comes_twice_is_open_twice(fold: int) -> None:
    local = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold)
    restriction = "time_window: {from: '02:00', to: '03:00', days: sun}"
    assert not broken(decide_with(restriction, call("my_tool"), at=local))


def test_the_hour_that_is_left_out_never_comes() -> None:
    restriction = "time_window: {from: '02:00', to: '03:00'}"
    begin = datetime(2026, 3, 29, 0, 0, tzinfo=BERLIN).astimezone(ZoneInfo("UTC"))
    minutes = [(begin + timedelta(minutes=at)).astimezone(BERLIN) for at in range(0, 300, 5)]
    assert all(broken(decide_with(restriction, call("my_tool"), at=at)) for at in minutes)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"branch": "feature/a"}, False),
        ({"branch": "main"}, True),
        ({"branch": ["feature/a", "main"]}, True),
        ({"branch": "feature/a", "force": True}, True),
        ({"branch": "feature/a", "force": False}, False),
        ({"branch": "feature/a", "note": {"x": ["TOP SECRET"]}}, True),
        ({}, False),
    ],
)
def test_parameters_are_filtered(arguments: dict[str, object], expected: bool) -> None:
    restriction = (
        "parameter_filter: {allow: {branch: feature/*}, deny: {force: 'true', note: '*secret*'}}"
    )
    assert broken(decide_with(restriction, call("my_tool", **arguments))) is expected


def test_a_secret_that_is_denied_is_not_repeated() -> None:
    decision = decide_with("parameter_filter: {deny: {key: '*'}}", call("my_tool", key="hunter2"))
    assert broken(decision)
    assert "hunter2" not in decision.reason


def test_every_broken_restriction_is_named() -> None:
    restrictions = "size_limit: 1, rate_limit: {calls: 1, seconds: 9}"
    decision = decide_with(restrictions, call("my_tool", a="xx"), recent=[1.0])
    assert [one.restriction for one in decision.violations] == ["size_limit", "rate_limit"]
    assert decision.reason.startswith("size_limit: a has 2 bytes, more than 1; rate_limit: 1 calls")
    assert decision.restrictions == (
        "size_limit: at most 1 bytes",
        "rate_limit: at most 1 calls in 9 s",
    )


@pytest.mark.slow  # takes half a second or more
def test_texts_of_any_value_are_found_however_deep() -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    assert list(list_texts(deep)) == ["x"]
    assert set(list_texts({"a": {1, 2}, "b": (True, None, 1.5)})) == {
        "a",
        "1",
        "2",
        "b",
        "True",
        "1.5",
    }
