"""Markdown in the terminal: blocks are found wherever the text is cut, and nothing but Markdown is obeyed."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.markdown_stream import BlockSplitter, MarkdownStream

TEXT = (
    "# Porto\n\nIt has **six** bridges.\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\nEnd."
)
PIECES = ["", "\n", "\n\n", "a", "```", "```\n", "~~~\n", "- x\n", "# T\n"]


def split(pieces: list[str]) -> tuple[list[str], str]:
    splitter = BlockSplitter()
    blocks = [block for piece in pieces for block in splitter.feed(piece)]
    return blocks, splitter.flush()


def test_a_block_ends_at_an_empty_line_outside_of_code() -> None:
    blocks, rest = split([TEXT])
    assert [block.split("\n")[0] for block in blocks] == [
        "# Porto",
        "It has **six** bridges.",
        "- one",
        "```python",
    ]
    assert rest == "End."


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.data())
def test_where_the_text_is_cut_does_not_matter(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert split([text]) == split([text[:cut], text[cut:]]) == split(list(text))
    blocks, rest = split([text])
    assert "".join(blocks) + rest == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is left on a terminal without colours: escape sequences removed, replaced lines too."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    stream = MarkdownStream(terminal)
    stream.write(text)
    stream.finish()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())


def test_markdown_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = shown("It has **six** bridges.\n\n- one\n- two\n\n", monkeypatch)
    assert "six" in printed
    assert "**" not in printed
    assert "• one" in printed


@pytest.mark.parametrize("text", ["[red]stop[/red]", "[bold]x[/]", ":smile:", "[/x]"])
def test_markup_of_rich_is_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text in shown(text, monkeypatch)


def test_the_address_of_a_link_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "https://evil.example" in shown("[bank](https://evil.example)", monkeypatch)
