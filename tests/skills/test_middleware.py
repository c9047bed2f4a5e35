"""A model that opens skills, end to end: what it reads in each iteration, and when skills close."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.skills.folders import HEAD, write

from holdfast import Agent, MemoryJournal, Middleware, Skills, ToolContext, tool
from holdfast.core.errors import ConfigurationError, StoppedError
from holdfast.core.events import Status, ToolFinished, TurnClosed
from holdfast.core.messages import Media, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.middleware import AfterTool, BeforeIteration, Deny
from holdfast.middleware.decisions import Patch, Stop
from holdfast.middleware.folds import Folds, FoldTable
from holdfast.skills.middleware import SkillInstructions
from holdfast.skills.wording import CLOSED_TEXT, INDEX_HEAD, PROTOCOLS_HEAD
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools import Toolset


@tool(effect="read")
async def buy_stock(symbol: str) -> str:
    """Buy a stock."""
    return f"bought {symbol}"


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    head = HEAD + "\nallowed-tools: buy_stock"
    write(tmp_path, "trading", head=head, body="Check the price first.", rules_md="Never short.")
    write(tmp_path, "audit", body="Write it down.")
    return Skills(tmp_path)


def agent_of(model: ScriptedModel, skills: Skills, **others: object) -> Agent:
    return Agent(
        model,
        instructions="You are a broker.",
        tools=[buy_stock],
        toolsets=[skills],
        **others,  # type: ignore[arg-type]
    )


def opens(name: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, "open_skill", f'{{"name": "{name}"}}')


def tool_texts(request: ModelRequest) -> list[str]:
    results = [part for part in request.messages[-1].parts if isinstance(part, ToolResult)]
    return [result.text for result in results]


INDEX = f"You are a broker.\n\n{INDEX_HEAD}\n\n- audit: About audit.\n- trading: About trading."
TRADING = (
    "## trading:\n\n"
    "**Available functions:** buy_stock\n\n"
    "Check the price first.\n\n"
    '📚 **Available Documents:** (read them with read_skill_file("trading", path))\n- rules.md'
)


async def test_a_skill_opened_in_iteration_0_is_seen_from_iteration_1_until_the_turn_ends(
    skills: Skills,
) -> None:
    buy = ToolCall("c2", "buy_stock", '{"symbol": "AAPL"}')
    model = ScriptedModel(opens("trading"), buy, "Bought.", "Hello again.")
    agent = agent_of(model, skills)
    result = await agent.run("Buy AAPL", session="ann")
    assert result.output == "Bought."
    seen = [request.instructions for request in model.requests]
    block = f"{INDEX}\n\n🔧 ACTIVE SKILL PROTOCOLS (Execute ALL steps completely)\n\n{TRADING}"
    assert seen == [INDEX, block, block]
    assert tool_texts(model.requests[1]) == [
        (
            "Skill 'trading' is open. Its instructions now stand in your own instructions, until the "
            "end of this turn."
        )
    ]
    await agent.run("Hi", session="ann")
    assert model.requests[3].instructions == INDEX
    assert "Check the price first" not in str(list(model.requests[3].messages))


async def test_several_open_skills_are_sorted_by_name_and_shown_once(skills: Skills) -> None:
    both = (opens("trading"), opens("audit", "c2"), opens("trading", "c3"))
    model = ScriptedModel(both, opens("audit"), "done")
    await agent_of(model, skills).run("go")
    for request in model.requests[1:]:
        text = request.instructions
        assert text.index("## audit:") < text.index("## trading:")
        assert text.count(PROTOCOLS_HEAD) == text.count("## trading:") == 1


async def test_a_document_is_read_when_the_model_asks(skills: Skills) -> None:
    read = ToolCall("c1", "read_skill_file", '{"name": "trading", "path": "rules.md"}')
    out = ToolCall("c2", "read_skill_file", '{"name": "trading", "path": "../../etc/passwd"}')
    model = ScriptedModel((read, out), "done")
    await agent_of(model, skills).run("go")
    assert tool_texts(model.requests[1]) == [
        "Never short.",
        (
            "Error: '../../etc/passwd' is not a path in the skill's folder. "
            "Skill 'trading' has: rules.md."
        ),
    ]
    assert model.requests[1].instructions == INDEX


async def test_an_image_of_a_skill_is_shown_as_an_image(tmp_path: Path) -> None:
    write(tmp_path, "art", logo_png=b"\x89PNG\r\n\x1a\n")
    skills = Skills(tmp_path)
    read = ToolCall("c1", "read_skill_file", '{"name": "art", "path": "logo.png"}')
    model = ScriptedModel(read, "done")
    await agent_of(model, skills).run("go")
    (result,) = model.requests[1].messages[-1].parts
    assert isinstance(result, ToolResult)
    assert [part.media_type for part in result.content if isinstance(part, Media)] == ["image/png"]


@pytest.mark.parametrize(
    "arguments", ['{"name": "tradin"}', '{"name": 3}', "{}", '{"name": "tra', '{"name": "../x"}']
)
async def test_an_unknown_skill_opens_nothing(skills: Skills, arguments: str) -> None:
    model = ScriptedModel(ToolCall("c1", "open_skill", arguments), "done")
    result = await agent_of(model, skills).run("go")
    assert result.output == "done"
    assert model.requests[1].instructions == INDEX
    assert "is open" not in tool_texts(model.requests[1])[0]


async def test_a_skill_that_was_denied_is_not_open(skills: Skills) -> None:
    class No(Middleware):
        async def before_tool(self, context):
            return Deny("Not today.")

    model = ScriptedModel(opens("trading"), "done")
    agent = Agent(model, tools=skills.tools, middleware=[skills.middleware, No()])
    await agent.run("go")
    assert tool_texts(model.requests[1]) == ["Not today."]
    assert PROTOCOLS_HEAD not in model.requests[1].instructions


async def test_two_runs_at_once_never_see_each_others_skills(skills: Skills) -> None:
    both_there = asyncio.Barrier(2)

    def script(name: str) -> ScriptedModel:
        async def meet(request: ModelRequest) -> str:
            async with asyncio.timeout(60):
                await both_there.wait()
            return request.instructions

        return ScriptedModel(opens(name), meet)

    async def run(name: str) -> str:
        return (await agent_of(script(name), skills).run("go")).output

    trading, audit = await asyncio.gather(run("trading"), run("audit"))
    assert ("## trading:" in trading, "## audit:" in trading) == (True, False)
    assert ("## trading:" in audit, "## audit:" in audit) == (False, True)


async def test_one_agent_separates_the_skills_of_its_sessions(skills: Skills) -> None:
    names = {"ann": "trading", "bob": "audit"}

    async def answer(request: ModelRequest) -> str | ToolCall:
        await asyncio.sleep(0)
        said = request.messages[0].text
        return opens(names[said]) if len(request.messages) == 1 else request.instructions

    model = ScriptedModel(*[answer] * 40)
    agent = agent_of(model, skills)
    who = ["ann", "bob"] * 10
    runs = [agent.run(said, session=f"{said}{n}") for n, said in enumerate(who)]
    for said, result in zip(who, await asyncio.gather(*runs), strict=True):
        other = names["bob" if said == "ann" else "ann"]
        assert f"## {names[said]}:" in result.output
        assert f"## {other}:" not in result.output


async def test_a_skill_stays_open_while_the_output_is_repaired(skills: Skills) -> None:
    class Order(BaseModel):
        symbol: str

    model = ScriptedModel(opens("audit"), "no JSON", '{"symbol": "AAPL"}')
    result = await agent_of(model, skills, output=Order).run("go")
    assert result.output == Order(symbol="AAPL")
    assert PROTOCOLS_HEAD in model.requests[2].instructions


async def test_a_stopped_turn_closes_its_skills(skills: Skills) -> None:
    class Ends(Middleware):
        async def after_iteration(self, context):
            return Stop("enough", "Bye.") if context.turn == 1 else None

    model = ScriptedModel(opens("audit"), "hello")
    agent = Agent(model, tools=skills.tools, middleware=[skills.middleware, Ends()])
    try:
        result = await agent.run("go", session="s")
    except StoppedError as error:
        result = error.result  # type: ignore[assignment]
    assert result.status is Status.STOPPED
    await agent.run("again", session="s")
    assert PROTOCOLS_HEAD not in model.requests[-1].instructions


async def test_the_open_skills_are_rebuilt_from_the_journal_alone(skills: Skills) -> None:
    journal = MemoryJournal()
    model = ScriptedModel(opens("trading"), "done")
    await agent_of(model, skills, journal=journal).run("go", session="s")
    folds = Folds(FoldTable((skills.middleware,)))
    states = []
    for record in await journal.read("s", 0):
        folds.apply(record.event)
        states.append((type(record.event).__name__, folds.states[id(skills.middleware)]))
    assert ("ToolFinished", frozenset({"trading"})) in states
    assert states[-1] == ("TurnClosed", frozenset())


def test_only_the_exact_result_opens_a_skill(skills: Skills) -> None:
    middleware = skills.middleware
    said = "Skill 'audit' is open. Its instructions now stand in your own instructions, until "
    said += "the end of this turn."

    def after(result: ToolResult) -> frozenset[str]:
        return middleware.fold(frozenset(), ToolFinished("t1.i0.tool.0", 1.0, result))

    assert after(ToolResult("c", "open_skill", (Text(said),))) == {"audit"}
    assert after(ToolResult("c", "open_skill", (Text(said),), is_error=True)) == set()
    assert after(ToolResult("c", "other", (Text(said),))) == set()
    assert after(ToolResult("c", "open_skill", (Text(said.replace("audit", "x")),))) == set()
    closed = TurnClosed("t1.closed", 1.0, Status.COMPLETED)
    assert middleware.fold(frozenset({"audit"}), closed) == set()


async def test_no_instructions_are_added_twice(skills: Skills) -> None:
    again = SkillInstructions(skills)

    class Appends(Middleware):
        async def before_iteration(self, context):
            return Patch(instructions=context.instructions + "\n\nBe brief.")

    model = ScriptedModel(opens("audit"), "done")
    middleware = [skills.middleware, Appends(), again]
    agent = Agent(model, tools=skills.tools, middleware=middleware)
    await agent.run("go")
    text = model.requests[1].instructions
    assert text.startswith(INDEX_HEAD)
    assert text.endswith("\n\nBe brief.")
    assert text.count(INDEX_HEAD) == text.count(PROTOCOLS_HEAD) == 1


async def test_instructions_longer_than_a_result_may_be_still_open(tmp_path: Path) -> None:
    from holdfast.skills.skill_limits import SkillLimits

    write(tmp_path, "long", body="x" * 200_000)
    skills = Skills(tmp_path, limits=SkillLimits(instructions=300_000))
    model = ScriptedModel(opens("long"), "done")
    await agent_of(model, skills).run("go")
    assert "x" * 200_000 in model.requests[1].instructions


async def test_without_the_middleware_the_instructions_are_the_result(skills: Skills) -> None:
    model = ScriptedModel(opens("trading"), "done")
    await Agent(model, tools=skills.tools).run("go")
    assert tool_texts(model.requests[1]) == [TRADING]


def test_an_agent_describes_its_skills(skills: Skills) -> None:
    assert skills.middleware.describe() == {"skills": "audit trading"}
    assert repr(skills) == "Skills(audit, trading)"
    assert (len(skills), [one.name for one in skills]) == (2, ["audit", "trading"])
    assert "SkillInstructions: skills=audit trading" in agent_of(ScriptedModel(), skills).describe()


def test_an_empty_collection_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there are none"):
        SkillInstructions([])


async def test_both_tools_are_described_for_the_model(skills: Skills) -> None:
    model = ScriptedModel("hi")
    await Agent(model, tools=skills.tools, middleware=[skills.middleware]).run("go")
    opened, read = model.requests[0].tools
    assert (opened.name, read.name) == ("open_skill", "read_skill_file")
    assert opened.description == "Open a skill: get its instructions for the rest of this turn."
    assert opened.schema["required"] == ["name"]
    assert read.schema["required"] == ["name", "path"]


RESUMED = 6
"""Events of the run below: opened, replied, begun, the tool, replied, closed."""


@pytest.mark.parametrize("crash_at", range(1, RESUMED + 1))
async def test_a_run_that_crashed_resumes_with_its_open_skills(
    skills: Skills, crash_at: int
) -> None:
    def answer(request: ModelRequest) -> str | ToolCall:
        return request.instructions if PROTOCOLS_HEAD in request.instructions else opens("audit")

    journal = MemoryJournal()
    first = ScriptedModel(*[answer] * 9)
    crashing = agent_of(first, skills, journal=CrashAt(journal, crash_at))
    with pytest.raises(SimulatedCrash):
        await crashing.run("go", session="s")
    model = ScriptedModel(*[answer] * 9)
    result = await agent_of(model, skills, journal=journal).resume("s")
    assert result.output.endswith("\n\n## audit:\n\nWrite it down.")


async def test_a_tool_of_skills_may_be_declared_like_any_other(skills: Skills) -> None:
    opened = tool(effect="read")(skills.open_skill)
    model = ScriptedModel(opens("audit"), "done")
    await Agent(model, tools=[opened], middleware=[skills.middleware]).run("go")
    assert (opened.name, opened.effect) == ("open_skill", "read")
    assert PROTOCOLS_HEAD in model.requests[1].instructions


async def test_skills_for_one_run(skills: Skills) -> None:
    opened = ToolCall("a", "open_skill", '{"name": "trading"}')
    model = ScriptedModel("plain", opened, "open", "plain again")
    agent = Agent(model, journal=MemoryJournal())
    await agent.run("One.", session="s")
    await agent.run("Two.", session="s", toolsets=[skills])
    await agent.run("Three.", session="s")
    shown = ["## trading:" in request.instructions for request in model.requests]
    assert shown == [False, False, True, False]
    assert [len(request.tools) for request in model.requests] == [0, 2, 2, 0]


@pytest.mark.parametrize("append", [2, 3, 4, 5])
async def test_skills_for_one_run_are_open_after_a_crash(skills: Skills, append: int) -> None:
    def answer(request: ModelRequest) -> str | ToolCall:
        if request.messages[-1].role == "user":
            return ToolCall("a", "open_skill", '{"name": "trading"}')
        return "open" if "## trading:" in request.instructions else "not open"

    journal = MemoryJournal()
    read = tool(effect="read")(skills.open_skill)
    once = Toolset("once", [skills.filtered(lambda _, one: one.name != "open_skill"), read])
    with suppress(SimulatedCrash):
        await Agent(ScriptedModel(answer, answer), journal=CrashAt(journal, append)).run(
            "Go.", session="s", toolsets=[once]
        )
    agent = Agent(ScriptedModel(answer, answer), journal=journal)
    assert (await agent.resume("s", toolsets=[once])).output == "open"


def test_skills_are_not_renamed(skills: Skills) -> None:
    with pytest.raises(ConfigurationError, match="cannot be renamed: SkillInstructions reads"):
        skills.prefixed("x_")


# The model, a hook or a tool ends an open skill within the turn.


@pytest.fixture
def skills_closing(tmp_path: Path) -> Skills:
    write(tmp_path, "trading", body="Check the price first.")
    write(tmp_path, "audit", body="Write it down.")
    return Skills(tmp_path)


def opens_closing(name: str) -> ToolCall:
    return ToolCall("c", "open_skill", f'{{"name": "{name}"}}')


def closes(name: str) -> ToolCall:
    return ToolCall("c", "close_skill", f'{{"name": "{name}"}}')


SELL = ToolCall("s", "sell")


@tool(effect="read")
def sell() -> str:
    """Sell."""
    return "sold"


def open_skills(model: ScriptedModel) -> list[list[str]]:
    """The skills whose instructions each request has."""
    blocks = [request.instructions.partition(PROTOCOLS_HEAD)[2] for request in model.requests]
    return [[name for name in ("audit", "trading") if f"## {name}:" in block] for block in blocks]


async def test_the_model_closes_one_of_two(skills_closing: Skills) -> None:
    model = ScriptedModel(
        [opens_closing("trading"), opens_closing("audit")], closes("trading"), "done"
    )
    tools = [*skills_closing.tools, skills_closing.close_skill]
    result = await Agent(model, tools=tools, middleware=[skills_closing.middleware]).run("go")
    assert open_skills(model) == [[], ["audit", "trading"], ["audit"]]
    assert CLOSED_TEXT.format(name="trading") in repr(result.messages)


async def test_what_the_model_closed_stays_closed_after_a_crash(skills_closing: Skills) -> None:
    journal = MemoryJournal()
    tools = [*skills_closing.tools, skills_closing.close_skill]
    model = ScriptedModel(opens_closing("trading"), closes("trading"))
    agent = Agent(
        model, tools=tools, middleware=[skills_closing.middleware], journal=CrashAt(journal, 7)
    )
    with pytest.raises(SimulatedCrash):
        await agent.run("go", session="s")
    again = ScriptedModel("done")
    await Agent(again, tools=tools, middleware=[skills_closing.middleware], journal=journal).resume(
        "s"
    )
    assert open_skills(again) == [[]]


async def test_a_skill_that_does_not_exist_closes_nothing(skills_closing: Skills) -> None:
    model = ScriptedModel(opens_closing("trading"), closes("tradin"), "done")
    tools = [*skills_closing.tools, skills_closing.close_skill]
    result = await Agent(model, tools=tools, middleware=[skills_closing.middleware]).run("go")
    assert open_skills(model) == [[], ["trading"], ["trading"]]
    assert "Did you mean 'trading'?" in repr(result.messages)


@pytest.mark.parametrize("names", [("trading",), ()])
async def test_a_hook_closes_skills_and_the_model_opens_one_again(
    skills_closing: Skills, names: tuple[str, ...]
) -> None:
    class Close(Middleware):
        tools = ("sell",)

        async def after_tool(self, context: AfterTool) -> None:
            skills_closing.close(context, *names)

    model = ScriptedModel(
        [opens_closing("trading"), opens_closing("audit")],
        SELL,
        SELL,
        opens_closing("trading"),
        "done",
        "more",
    )
    agent = Agent(
        model, tools=[sell, *skills_closing.tools], middleware=[Close(), skills_closing.middleware]
    )
    await agent.run("go", session="s")
    left = ["audit"] if names else []
    assert open_skills(model) == [[], ["audit", "trading"], left, left, [*left, "trading"]]
    await agent.run("more", session="s")
    assert open_skills(model)[-1] == []


async def test_a_hook_before_the_model_call_closes_at_once(skills_closing: Skills) -> None:
    class Close(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> None:
            if context.iteration == 2:
                skills_closing.close(context)

    model = ScriptedModel(opens_closing("trading"), SELL, "done")
    await Agent(
        model, tools=[sell, *skills_closing.tools], middleware=[Close(), skills_closing.middleware]
    ).run("go")
    assert open_skills(model) == [[], ["trading"], []]


async def test_a_tool_of_the_skill_closes_it(skills_closing: Skills) -> None:
    @tool(effect="read")
    def finish(context: ToolContext) -> str:
        """Finish the task."""
        skills_closing.close(context, "trading")
        return "finished"

    model = ScriptedModel(opens_closing("trading"), ToolCall("f", "finish"), "done")
    await Agent(
        model, tools=[finish, *skills_closing.tools], middleware=[skills_closing.middleware]
    ).run("go")
    assert open_skills(model) == [[], ["trading"], []]


async def test_what_a_hook_closed_is_open_again_after_a_crash(skills_closing: Skills) -> None:
    class Close(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> None:
            if context.iteration == 1:
                skills_closing.close(context)

    journal, middleware = MemoryJournal(), [Close(), skills_closing.middleware]
    model = ScriptedModel(opens_closing("trading"), SELL)
    agent = Agent(
        model,
        tools=[sell, *skills_closing.tools],
        middleware=middleware,
        journal=CrashAt(journal, 6),
    )
    with pytest.raises(SimulatedCrash):
        await agent.run("go", session="s")
    again = ScriptedModel("done")
    await Agent(
        again, tools=[sell, *skills_closing.tools], middleware=middleware, journal=journal
    ).resume("s")
    assert open_skills(model) == [[], []]
    assert open_skills(again) == [["trading"]]


def test_a_wrong_name_is_refused(skills_closing: Skills) -> None:
    context = ToolContext(run_id="r", key="t1.i0.tool.0")
    with pytest.raises(ConfigurationError, match="names: there is no skill 'art'"):
        skills_closing.close(context, "trading", "art")
