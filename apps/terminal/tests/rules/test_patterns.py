import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.rules.addresses import find_address_problem, is_private_host
from adh.rules.patterns import defines_fork_bomb, match_path, match_tool, match_words


@pytest.mark.parametrize(
    ("pattern", "tool", "expected"),
    [
        ("read_file", "READ_FILE", True),
        ("*", "anything", True),
        ("mcp__*__delete*", "mcp__git__delete_branch", True),
        ("delete", "delete_file", False),
        ("[d]elete", "delete", False),
        ("[d]elete", "[d]elete", True),
    ],
)
def test_tools(pattern: str, tool: str, expected: bool) -> None:
    assert match_tool(pattern, tool) is expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.env", "/p/.env", True),
        ("*.env", "/p/a/b.ENV", True),
        ("*.env", "/p/a.env/b", False),
        ("credentials*", "/p/a/Credentials.json", True),
        ("docs/*", "/p/docs/a/b", True),
        ("./docs/*", "/p/docs/a", True),
        ("docs/*", "/p/x/docs/a", False),
        ("docs/*", "/q/docs/a", False),
        ("**/docs/*", "/p/docs/a", True),
        ("**/docs/*", "/p/x/docs/a", True),
        ("src/**/a.py", "/p/src/a.py", True),
        ("src/**/a.py", "/p/src/b/c/a.py", True),
        ("docs/", "/p/docs", True),
        ("docs/", "/p/x/docs/a", True),
        ("docs/", "/p/mydocs/a", False),
        ("/p/docs/", "/p/docs/a/b", True),
        ("/p/docs/", "/p/docs2", False),
        ("/etc/", "/etc", True),
        ("/etc/", "/etcetera", False),
        ("/", "/anything", True),
        ("[/]", "/", True),
        ("[/]", "/a", False),
        ("~/a/*", "/h/a/b", True),
        ("~/a/*", "/q/a/b", False),
        ("e\u0301.md", "/p/\u00e9.md", True),
        ("*", "/p/a", True),
        ("/p", "/p", True),
    ],
)
def test_paths(pattern: str, path: str, expected: bool) -> None:
    assert match_path(pattern, path, "/p", "/h") is expected


def test_a_home_folder_with_signs_of_patterns_is_taken_as_it_is() -> None:
    assert match_path("~/a", "/h[1]*/a", "/p", "/h[1]*")
    assert not match_path("~/a", "/h1x/a", "/p", "/h[1]*")


def test_many_stars_are_matched_in_time() -> None:
    assert not match_words("*a" * 60, ["a" * 5000, "b"])
    assert not match_path("*a*" * 40 + "b", "/" + "a" * 5000, "/p")


def test_many_functions_are_read_in_time() -> None:
    assert not defines_fork_bomb("f(){" * 300_000 + "x")


@given(st.text(max_size=40))
def test_a_line_without_a_function_is_no_fork_bomb(text: str) -> None:
    assert not defines_fork_bomb(text.replace("{", ""))


@given(st.ip_addresses())
def test_a_number_is_private_in_each_of_its_forms(address: object) -> None:
    host = str(address)
    assert is_private_host(host) == is_private_host(host.upper())
    if ":" not in host:
        value = int(address)  # type: ignore[call-overload]
        forms = (str(value), hex(value), f"::ffff:{host}", f"64:ff9b::{host}")
        assert {is_private_host(form) for form in forms} == {is_private_host(host)}


@given(st.text(max_size=30))
def test_no_address_breaks_the_reader(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}@example.org/", f"http://[{text}]/"):
        assert isinstance(find_address_problem(url, ["http"], []), str)
