"""Each broken rule of a front matter is an error that names the file, the line and the key."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ConfigurationError
from holdfast.skills.front_matter import parse_header, split_front_matter
from holdfast.skills.skill import Header


def header(head: str, folder: str = "pdf") -> Header:
    return parse_header(head, "SKILL.md", folder)


def test_a_complete_header_is_read_as_written() -> None:
    found = header(
        "name: pdf\n"
        "description: >\n  Fills in\n  PDF forms.\n"
        "license: MIT\n"
        "compatibility: needs poppler\n"
        "metadata:\n  version: 1.0\n  since: 2026-01-02\n"
        "allowed-tools: Bash(git add:*), read_pdf write_pdf read_pdf\n"
        "model: whatever\n"
    )
    assert found == Header(
        name="pdf",
        description="Fills in PDF forms.",
        license="MIT",
        compatibility="needs poppler",
        metadata={"version": "1.0", "since": "2026-01-02"},
        allowed_tools=("Bash(git add:*)", "read_pdf", "write_pdf"),
    )


def test_allowed_tools_may_be_a_list_and_a_name_may_look_like_a_number() -> None:
    found = header("name: 123\ndescription: true\nallowed-tools: [a, b]", "123")
    assert (found.name, found.description, found.allowed_tools) == ("123", "true", ("a", "b"))


def test_optional_fields_may_be_empty_where_the_specification_allows_it() -> None:
    found = header("name: pdf\ndescription: x\nmetadata:\nlicense: ~\nallowed-tools:")
    assert (found.metadata, found.license, found.allowed_tools) == ({}, "", ())


GOOD = "name: pdf\ndescription: x\n"


@pytest.mark.parametrize(
    ("head", "place", "problem"),
    [
        ("description: x", "SKILL.md:1 name", "is missing"),
        ("name: pdf", "SKILL.md:1 description", "is missing"),
        ("name: pdf\ndescription:", "SKILL.md:3 description", "is empty"),
        ("name: pdf\ndescription: '  '", "SKILL.md:3 description", "is empty"),
        ("description: x\nname: PDF", "SKILL.md:3 name", "'PDF' is not a valid name of a skill"),
        ("name: -pdf\ndescription: x", "SKILL.md:2 name", "is not a valid name of a skill"),
        ("name: pdf-\ndescription: x", "SKILL.md:2 name", "is not a valid name of a skill"),
        ("name: p--df\ndescription: x", "SKILL.md:2 name", "is not a valid name of a skill"),
        ("name: pdf/..\ndescription: x", "SKILL.md:2 name", "is not a valid name of a skill"),
        (f"name: {'a' * 65}\ndescription: x", "SKILL.md:2 name", "at most 64 characters, got 65"),
        ("name: docx\ndescription: x", "SKILL.md:2 name", "but the folder is 'pdf'"),
        ("name: [pdf]\ndescription: x", "SKILL.md:2 name", "must be text"),
        (f"name: pdf\ndescription: {'x' * 1025}", "SKILL.md:3 description", "1,024 characters"),
        (GOOD + f"compatibility: {'x' * 501}", "SKILL.md:4 compatibility", "at most 500"),
        (GOOD + "compatibility:", "SKILL.md:4 compatibility", "is empty"),
        (GOOD + "license: [MIT]", "SKILL.md:4 license", "must be text"),
        (GOOD + "metadata: text", "SKILL.md:4 metadata", "must be a mapping of keys to text"),
        (
            GOOD + "metadata:\n  a: [1]",
            "SKILL.md:5",
            "metadata.a contains a value that is not text",
        ),
        (GOOD + "allowed-tools: {a: b}", "SKILL.md:4 allowed-tools", "must be text or a list"),
        (GOOD + "allowed-tools: [a, '']", "SKILL.md:4 allowed-tools", "empty"),
        (GOOD + "allowed_tools: a", "SKILL.md:4 allowed_tools", "is not a key of a skill"),
        (GOOD + "Name: pdf", "SKILL.md:4 Name", "is not a key of a skill"),
        (GOOD + "name: pdf", "SKILL.md:4", "has the key 'name' twice"),
        (GOOD + "[a]: b", "SKILL.md:4", "has a key that is not text"),
        ("", "SKILL.md:1", "its front matter is empty"),
        ("- name", "SKILL.md:2", "must consist of `key: value` lines"),
        ("name: pdf\ndescription: Use when: asked", "SKILL.md:3", "is not YAML"),
        ("name: pdf\ndescription: 'open", "SKILL.md", "is not YAML"),
        ("name: pdf\ndescription: \x07", "SKILL.md:1", "a character that is not allowed"),
        ("name: &a pdf\ndescription: *a", "SKILL.md:2", "an anchor or an alias"),
        (GOOD + "metadata: {<<: *x}", "SKILL.md:4", "an anchor or an alias"),
        (GOOD + "x: !!python/object/apply:os.system [ls]", "SKILL.md:4", "uses a YAML tag"),
        (GOOD + "x: " + "[" * 8_000, "SKILL.md:4", "is nested too deeply"),
        (GOOD + "...\n--- \nname: b", "SKILL.md", "is not YAML"),
    ],
)
def test_a_broken_header_is_refused(head: str, place: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        header(head)
    assert refused.value.argument.startswith(place)
    assert problem in refused.value.problem


def test_nested_aliases_are_refused_before_expansion() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    with pytest.raises(ConfigurationError, match=r"SKILL\.md:2: uses an anchor or an alias"):
        header(bomb)


@pytest.mark.parametrize("text", ["", "# Hi", "----\nname: x", "name: x\n---\n"])
def test_no_front_matter(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"SKILL\.md:1: has no front matter\. Begin"):
        split_front_matter(text, "SKILL.md")


def test_a_front_matter_without_end() -> None:
    with pytest.raises(ConfigurationError, match="has no end"):
        split_front_matter("---\nname: x\n", "SKILL.md")


def test_lines_may_end_as_on_windows() -> None:
    assert split_front_matter("---\r\nname: x\r\n---\r\n\r\nA\r\nB\r\n", "f") == (
        "name: x\n",
        "A\nB",
    )


def test_without_pyyaml_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "holdfast.skills.yaml_text", raising=False)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[skills\]'"):
        header("name: pdf")


@given(st.text(max_size=200) | st.text("&*![]{}:,-|>'\"~<? \n#%@ab", max_size=60))
def test_any_text_is_a_header_or_a_configuration_error(text: str) -> None:
    try:
        found = header(text)
    except ConfigurationError:
        return
    assert found.name == "pdf"
