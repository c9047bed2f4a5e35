"""The page on dialects says what a conversion of today says."""

from __future__ import annotations

import pytest
from tests.codecs.schemas.dialect_table import PAGE, fill_page, judge, list_outputs, list_tools

from holdfast.codecs.schemas.dialects import DIALECTS


@pytest.mark.slow  # takes half a second or more
def test_the_page_is_current() -> None:
    page = PAGE.read_text("utf-8")
    assert page == fill_page(page), "run ./run generate"


def test_the_page_counts_the_types_and_the_tools_that_it_names() -> None:
    assert (len(list_outputs()), len(list_tools())) == (60, 86)


def test_a_tool_that_is_not_strict_is_refused_by_nobody() -> None:
    for name in ("openai_tool", "anthropic_tool", "gemini", "llguidance", "llama_cpp"):
        refused = [
            tool
            for tool, schema in list_tools().items()
            if judge(schema, DIALECTS[name]).outcome == "refused"
        ]
        assert refused == [], name
