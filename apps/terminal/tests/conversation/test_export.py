from adh.agents.delegation import DELEGATE_TOOL
from adh.conversation.export import LONGEST_RESULT, list_lines, write_markdown
from adh.transcript.blocks import AnswerBlock, PersonBlock, ToolBlock, ToolState

BLOCKS = [
    PersonBlock(id="p", turn=1, text="Look."),
    ToolBlock(id="t1", turn=1, name="read_file", state=ToolState.SUCCESS, result="x" * 1_001),
    ToolBlock(id="t2", turn=1, name=DELEGATE_TOOL, state=ToolState.FAILED, error="no"),
    AnswerBlock(id="a", turn=1, pieces=["I ", "looked."], state="done"),
]


def test_calls_and_delegations_are_told_apart() -> None:
    lines = list(list_lines("s", BLOCKS, {"model": "m"}))
    types = sorted(str(line["type"]) for line in lines)
    assert types == ["agent_delegation", "chat_turn", "session", "tool_invocation"]
    assert lines[0]["type"] == "session"
    assert lines[0]["model"] == "m"


def test_a_result_is_cut_at_1000_characters_and_says_so() -> None:
    (line,) = (one for one in list_lines("s", BLOCKS, {}) if one["type"] == "tool_invocation")
    assert LONGEST_RESULT == 1_000
    assert line["result"] == "x" * 999 + "…"
    assert "x" * 1_000 not in write_markdown("s", BLOCKS)
