import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.rules.yaml_tree import DEEPEST, LARGEST_FILE, Items, Keyed, Node, Scalar, parse_yaml


def values(node: Node | None) -> object:
    if isinstance(node, Items):
        return [values(item) for item in node.nodes]
    if isinstance(node, Keyed):
        return {key.text: values(value) for key, value in node.entries}
    assert isinstance(node, Scalar)
    return node.value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("True", True),
        ("'true'", "true"),
        ("010", 10),
        ("0x10", 16),
        ("0o10", 8),
        ("1_000", "1_000"),
        ("22:30", "22:30"),
        ("1e3", 1000.0),
        ("-.inf", float("-inf")),
        ("~", None),
        ("2026-07-01", "2026-07-01"),
        ("9" * 40, "9" * 40),
        ('"\\u00e4"', "ä"),
    ],
)
def test_words_are_read_as_yaml_1_2_has_them(written: str, expected: object) -> None:
    node, problems = parse_yaml("a.yaml", f"a: {written}")
    assert not problems
    found = values(node)
    assert found == {"a": expected}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(expected)


def test_each_value_knows_its_line() -> None:
    node, _ = parse_yaml("a.yaml", "# first\na:\n  - b\n  - c: d\n")
    assert isinstance(node, Keyed)
    (key, items) = node.entries[0]
    assert isinstance(items, Items)
    assert (key.line, [item.line for item in items.nodes]) == (2, [3, 4])


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null"])
def test_a_file_without_values_is_empty(text: str) -> None:
    assert parse_yaml("a.yaml", text) == (None, ())


@pytest.mark.parametrize(
    ("text", "line", "problem", "fix"),
    [
        ("a:\n\t- b\n", 2, "not valid YAML: found character", "spaces, not tabs"),
        ("a: [b\n", 2, "expected ',' or ']'", "correct the YAML"),
        ("a: 'b\n", 2, "end of stream", "correct the YAML"),
        ("a: b: c\n", 1, "mapping values are not allowed here", "correct the YAML"),
        ("a: *\n", 1, "expected alphabetic", "in quotes"),
        ("a: &x 1\nb: *x\n", 1, "names a value with &", "in quotes"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "has a tag with !", "in quotes"),
        ("a: [!*.pub]\n", 1, "has a tag with !", "in quotes"),
        ("a: 1\n---\nb: 2\n", 2, "a second document", "one document"),
        ("1: a\n", 1, "a key that is not text", "in quotes"),
        ("true: a\n", 1, "a key that is not text", "in quotes"),
        ("? [a]\n: b\n", 1, "a key that is not text", "in quotes"),
        ("a: b\nc: \x01\n", 2, "a character that YAML does not allow", "remove it"),
        ("a: " + "[" * 50_000, 1, f"nested deeper than {DEEPEST}", "flat"),
        ("a: b\n" * LARGEST_FILE, 1, "too large", "split"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_wrong_has_a_line_and_a_fix(text: str, line: int, problem: str, fix: str) -> None:
    _, problems = parse_yaml("a.yaml", text)
    assert (problems[0].file, problems[0].line) == ("a.yaml", line)
    assert problem in problems[0].problem
    assert fix in problems[0].fix


def test_values_that_refer_to_each_other_do_not_grow() -> None:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 30)]
    node, problems = parse_yaml("a.yaml", "\n".join(lines))
    assert isinstance(node, Keyed)
    assert len(problems) == 30 + 29 * 9


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@,?\n\t \\0~é\u2028"), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    node, problems = parse_yaml("a.yaml", text)
    assert node is None or isinstance(node.line, int)
    assert all(one.line >= 1 and one.problem and one.fix for one in problems)
