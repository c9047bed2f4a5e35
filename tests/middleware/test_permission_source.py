"""A source of rulings: what it is asked, and that no approval outlives what was approved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.tool_results import results_in_history

from holdfast import Agent, ConfigurationError, MemoryJournal, Middleware, tool
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.questions import AnyQuestion, Approved, PermissionQuestion
from holdfast.middleware import BeforeTool, PermissionSource, Rule, Ruling
from holdfast.middleware.tool_permission import ASKED_OFTEN_TEXT, ToolPermission
from holdfast.testing import FakeClock, ScriptedModel

written: list[tuple[str, str]] = []
disk: dict[str, str] = {}


class WriteQuestion(PermissionQuestion, frozen=True, kw_only=True):
    before: str
    who: str = ""


@tool(effect="write")
async def write(path: str, text: str) -> str:
    """Write a file."""
    written.append((path, text))
    disk[path] = text
    return f"wrote {path}"


@pytest.fixture(autouse=True)
def _empty_disk() -> None:
    written.clear()
    disk.clear()


class DiskSource:
    """Denies /etc, and asks about each write until the file is the one that was approved."""

    def __init__(self, *, remembered: bool = True) -> None:
        self.remembered = remembered
        self.judged: list[tuple[object, object, str]] = []
        self.fail: Exception | None = None

    async def judge(self, context: BeforeTool, answered: PermissionQuestion | None) -> Ruling:
        if self.fail is not None:
            raise self.fail
        arguments = context.arguments or {}
        path = str(arguments["path"])
        seen = answered.before if isinstance(answered, WriteQuestion) else None
        self.judged.append((arguments["text"], seen, context.agent))
        if path.startswith("/etc"):
            return Ruling(permission="deny", reason="Not in /etc.")
        before = disk.get(path, "")
        if seen == before:
            assert answered is not None
            assert answered.arguments == arguments
            return Ruling(permission="allow")
        question = WriteQuestion(tool="", before=before, who=context.agent)
        return Ruling(permission="ask", question=question, remembered=self.remembered)

    def describe(self) -> Mapping[str, object]:
        return {"rules": "disk"}


def call(path: str = "a", text: str = "new", **more: object) -> ToolCall:
    return ToolCall("c1", "write", json.dumps({"path": path, "text": text, **more}))


def agent(source: PermissionSource, *script: Any, **options: Any) -> Agent[str]:
    options.setdefault("clock", FakeClock(auto=False))
    options.setdefault("middleware", [ToolPermission(source=source)])
    return Agent(ScriptedModel(*script), tools=[write], **options)


Answering = Callable[[WriteQuestion], object]


def answers(*given: Answering) -> tuple[list[WriteQuestion], Any]:
    asked: list[WriteQuestion] = []

    async def handler(question: AnyQuestion) -> object:
        assert isinstance(question, WriteQuestion)
        asked.append(question)
        return given[min(len(asked), len(given)) - 1](question)

    return asked, handler


def yes(question: WriteQuestion) -> object:
    return question.approve()


async def test_its_question_is_asked_with_the_call_filled_in() -> None:
    asked, handler = answers(yes)
    source = DiskSource()
    await agent(source, call(), "Done.", on_question=handler).run("Go.")
    (question,) = asked
    assert (question.tool, question.call_id, question.before) == ("write", "c1", "")
    assert question.arguments == {"path": "a", "text": "new"}
    assert question.source == "ToolPermission by DiskSource"
    assert question.description == "Write a file."
    assert written == [("a", "new")]
    assert source.judged == [("new", None, "agent"), ("new", "", "agent")]


async def test_it_denies_in_its_own_words() -> None:
    result = await agent(DiskSource(), call("/etc/passwd"), "Done.").run("Go.")
    assert results_in_history(result) == ["Not in /etc."]
    assert written == []


async def test_a_file_that_changed_meanwhile_voids_the_approval_and_is_asked_about_again() -> None:
    def change(question: WriteQuestion) -> object:
        disk["a"] = "other"
        return question.approve()

    asked, handler = answers(change, yes)
    await agent(DiskSource(), call(), "Done.", on_question=handler).run("Go.")
    assert [question.before for question in asked] == ["", "other"]
    assert written == [("a", "new")]


async def test_a_call_that_changes_before_each_approval_is_denied_after_five() -> None:
    def change(question: WriteQuestion) -> object:
        disk["a"] = disk.get("a", "") + "x"
        return question.approve()

    asked, handler = answers(change)
    result = await agent(DiskSource(), call(), "Done.", on_question=handler).run("Go.")
    assert len(asked) == 5
    assert results_in_history(result) == [ASKED_OFTEN_TEXT.format(tool="write")]
    assert written == []


async def test_edited_arguments_are_judged_again() -> None:
    def edit(question: WriteQuestion) -> object:
        return question.approve(arguments={"path": "/etc/passwd", "text": "x"})

    _, handler = answers(edit)
    result = await agent(DiskSource(), call(), "Done.", on_question=handler).run("Go.")
    assert results_in_history(result) == ["Not in /etc."]
    assert written == []


async def test_edited_arguments_void_an_approval_of_what_was_shown() -> None:
    disk["b"] = "precious"

    def edit(question: WriteQuestion) -> object:
        return question.approve(arguments={"path": "b", "text": "mine"})

    asked, handler = answers(edit, yes)
    await agent(DiskSource(), call(), "Done.", on_question=handler).run("Go.")
    assert [(question.arguments["path"], question.before) for question in asked] == [
        ("a", ""),
        ("b", "precious"),
    ]
    assert written == [("b", "mine")]


async def test_an_edit_cannot_pass_a_pattern_rule() -> None:
    rules = ToolPermission(ask=["write"], deny=[Rule("write", {"path": "/etc/*"})])

    async def edit(question: AnyQuestion) -> object:
        return Approved(arguments={"path": "/etc/passwd", "text": "x"})

    options = {"middleware": [rules], "on_question": edit}
    result = await agent(DiskSource(), call(), "Done.", **options).run("Go.")
    assert results_in_history(result) == ["Execution of 'write' was denied by a rule."]
    assert written == []


@pytest.mark.parametrize("remember", ["call", "tool"])
async def test_a_remembered_yes_does_not_count_when_the_source_says_so(remember: Any) -> None:
    asked, handler = answers(lambda question: question.approve(remember=remember))
    script = [call(), "Done.", call(), "Done."]
    run = agent(DiskSource(remembered=False), *script, on_question=handler)
    await run.run("Go.", session="ada")
    disk.clear()
    await run.run("Go.", session="ada")
    assert [question.may_remember for question in asked] == [False, False]


async def test_a_yes_that_was_not_to_be_remembered_is_not_remembered_for_other_rulings() -> None:
    source = DiskSource(remembered=False)
    asked, handler = answers(lambda question: question.approve(remember="tool"))
    run = agent(source, call("a"), "Done.", call("b"), "Done.", on_question=handler)
    await run.run("Go.", session="ada")
    source.remembered = True
    await run.run("Go.", session="ada")
    assert [question.arguments["path"] for question in asked] == ["a", "b"]


async def test_a_remembered_no_counts_in_any_case() -> None:
    source = DiskSource(remembered=False)
    asked, handler = answers(lambda question: question.deny("No.", remember="tool"))
    run = agent(source, call("a"), "Done.", call("b"), "Done.", on_question=handler)
    await run.run("Go.", session="ada")
    result = await run.run("Go.", session="ada")
    assert len(asked) == 1
    assert results_in_history(result)[-1].endswith("denied by a stored user preference.")


async def test_a_remembered_yes_counts_when_the_source_allows_it() -> None:
    asked, handler = answers(lambda question: question.approve(remember="tool"))
    run = agent(DiskSource(), call("a"), "Done.", call("b"), "Done.", on_question=handler)
    await run.run("Go.", session="ada")
    await run.run("Go.", session="ada")
    assert len(asked) == 1
    assert [path for path, _ in written] == ["a", "b"]


@pytest.mark.parametrize("problem", [RuntimeError("broken"), None])
async def test_a_source_that_fails_lets_nothing_run(problem: Exception | None) -> None:
    class Wrong(DiskSource):
        async def judge(self, context: Any, answered: Any) -> Any:
            return "allow"

    source = DiskSource() if problem else Wrong()
    source.fail = problem
    result = await agent(source, call(), "Done.").run("Go.")
    assert written == []
    assert results_in_history(result) == ["Error: Function 'write' failed."]


async def test_a_call_that_a_hook_changes_is_judged_with_what_it_became() -> None:
    class Redirect(Middleware):
        async def wrap_tool(self, context: Any, call_next: Any) -> ToolResult:
            import msgspec

            changed = msgspec.structs.replace(context.call, arguments=call("b").arguments)
            result: ToolResult = await call_next(msgspec.structs.replace(context, call=changed))
            return result

    asked, handler = answers(yes)
    middleware = [ToolPermission(source=DiskSource()), Redirect()]
    options = {"middleware": middleware, "on_question": handler}
    await agent(DiskSource(), call(), "Done.", **options).run("Go.")
    assert [question.arguments["path"] for question in asked] == ["a", "b"]
    assert written == [("b", "new")]


class Desk:
    """Programs that share a journal; each `program` is a new process with rules of its own."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    def program(self, source: PermissionSource, *script: Any) -> Agent[str]:
        return agent(source, *script, journal=self.journal, on_wait="suspend")

    async def question(self) -> WriteQuestion:
        (question,) = await self.program(DiskSource()).questions("ada")
        assert isinstance(question, WriteQuestion)
        return question

    async def answer(self, answer: Any) -> None:
        assert await self.program(DiskSource()).answer("ada", answer)


async def test_what_was_approved_while_no_process_ran_is_judged_with_what_is_there_now() -> None:
    desk = Desk()
    await desk.program(DiskSource(), call()).run("Go.", session="ada")
    await desk.answer((await desk.question()).approve())
    disk["a"] = "other"
    waiting = await desk.program(DiskSource(), "Done.").resume("ada")
    assert waiting.status == "waiting"
    assert written == []
    question = await desk.question()
    assert question.before == "other"
    await desk.answer(question.approve())
    source = DiskSource()
    assert (await desk.program(source, "Done.").resume("ada")).text == "Done."
    assert written == [("a", "new")]
    assert source.judged == [("new", "other", "agent")]


async def test_an_open_question_stays_the_one_that_was_asked_although_the_file_changed() -> None:
    desk = Desk()
    await desk.program(DiskSource(), call()).run("Go.", session="ada")
    first = await desk.question()
    disk["a"] = "other"
    assert (await desk.program(DiskSource()).resume("ada")).status == "waiting"
    assert await desk.question() == first
    await desk.answer(first.approve())
    assert (await desk.program(DiskSource(), "Done.").resume("ada")).status == "waiting"
    assert (await desk.question()).before == "other"
    assert written == []


async def test_a_rule_that_denies_now_ends_a_call_that_was_approved_before() -> None:
    desk = Desk()
    await desk.program(DiskSource(), call()).run("Go.", session="ada")
    await desk.answer((await desk.question()).approve())

    class Strict(DiskSource):
        async def judge(self, context: Any, answered: Any) -> Ruling:
            return Ruling(permission="deny")

    strict = agent(
        DiskSource(),
        "Done.",
        journal=desk.journal,
        on_wait="suspend",
        middleware=[ToolPermission(source=Strict())],
    )
    result = await strict.resume("ada")
    assert results_in_history(result) == ["Execution of 'write' was denied by a rule."]
    assert written == []


async def test_a_no_counts_although_the_rules_allow_the_call_now() -> None:
    desk = Desk()
    await desk.program(DiskSource(), call()).run("Go.", session="ada")
    await desk.answer((await desk.question()).deny("Not today."))

    class Lenient(DiskSource):
        async def judge(self, context: Any, answered: Any) -> Ruling:
            return Ruling(permission="allow")

    Lenient.__name__ = "DiskSource"
    result = await desk.program(Lenient(), "Done.").resume("ada")
    assert results_in_history(result) == ["Not today."]
    assert written == []


async def test_edits_that_were_approved_while_no_process_ran_are_what_runs() -> None:
    desk = Desk()
    await desk.program(DiskSource(), call()).run("Go.", session="ada")
    question = await desk.question()
    await desk.answer(question.approve(arguments={"path": "a", "text": "better"}))
    assert (await desk.program(DiskSource(), "Done.").resume("ada")).text == "Done."
    assert written == [("a", "better")]


async def test_the_number_of_questions_is_counted_across_processes() -> None:
    desk = Desk()
    result = await desk.program(DiskSource(), call()).run("Go.", session="ada")
    for number in range(5):
        await desk.answer((await desk.question()).approve())
        disk["a"] = f"other {number}"
        result = await desk.program(DiskSource(), "Done.").resume("ada")
    assert results_in_history(result) == [ASKED_OFTEN_TEXT.format(tool="write")]
    assert written == []


TASK = ToolCall("b", "clerk", '{"task": "Write."}')


def boss(source: PermissionSource, inner: Agent[str], *script: Any, **options: Any) -> Agent[str]:
    model = ScriptedModel(*(script or (TASK, "Done.")))
    permission = ToolPermission(source=source)
    return Agent(model, name="boss", tools=[inner.as_tool()], middleware=[permission], **options)


def clerk(*own: Middleware[Any], arguments: ToolCall | None = None) -> Agent[str]:
    def write_once(request: Any) -> Any:
        has_written = request.messages[-1].role == "tool"
        return "Done." if has_written else arguments or call()

    model = ScriptedModel(*[write_once] * 2)
    return Agent(model, name="clerk", tools=[write], middleware=own)


class DelegatingSource(DiskSource):
    async def judge(self, context: Any, answered: Any) -> Ruling:
        if context.tool == "clerk":
            return Ruling(permission="allow")
        return await super().judge(context, answered)


async def test_the_source_of_a_caller_judges_the_tools_of_its_agents() -> None:
    asked, handler = answers(yes)
    source = DelegatingSource()
    await boss(source, clerk(), on_question=handler).run("Go.")
    assert [question.who for question in asked] == ["clerk"]
    assert source.judged == [("new", None, "clerk"), ("new", "", "clerk")]
    assert written == [("a", "new")]


async def test_an_agent_with_rules_of_its_own_keeps_the_denials_of_its_caller() -> None:
    own = ToolPermission(allow=["*"])
    asked, handler = answers(yes)
    await boss(DelegatingSource(), clerk(own), on_question=handler).run("Go.")
    assert (asked, written) == ([], [("a", "new")])
    written.clear()
    denied = clerk(own, arguments=call("/etc/passwd"))
    await boss(DelegatingSource(), denied, on_question=handler).run("Go.")
    assert (asked, written) == ([], [])


async def test_a_suspended_question_of_a_nested_agent_is_judged_with_what_is_there_now() -> None:
    journal = MemoryJournal()

    def program(*script: Any) -> Agent[str]:
        source, options = DelegatingSource(), {"journal": journal, "on_wait": "suspend"}
        return boss(source, clerk(), *script, **options)

    (question,) = (await program().run("Go.", session="ada")).questions
    assert isinstance(question, WriteQuestion)
    assert (question.who, question.before) == ("clerk", "")
    disk["a"] = "other"
    assert await program().answer("ada", question.approve())
    (again,) = (await program().resume("ada")).questions
    assert isinstance(again, WriteQuestion)
    assert again.before == "other"
    assert await program().answer("ada", again.approve())
    assert (await program("Done.").resume("ada")).text == "Done."
    assert written == [("a", "new")]


async def test_a_tool_that_does_not_exist_is_not_asked_about() -> None:
    class Asking(DiskSource):
        async def judge(self, context: Any, answered: Any) -> Ruling:
            return Ruling(permission="ask")

    asked, handler = answers(yes)
    result = await agent(Asking(), ToolCall("1", "wrote", "{}"), "Done.", on_question=handler).run(
        "Go."
    )
    assert asked == []
    assert "there is no such function" in results_in_history(result)[0]


@pytest.mark.parametrize("rules", [{"allow": ["*"]}, {"default": "allow"}, {"ask": ["a"]}])
def test_rules_beside_a_source_are_refused(rules: Any) -> None:
    with pytest.raises(ConfigurationError, match="source: judges every call"):
        ToolPermission(source=DiskSource(), **rules)


def test_an_object_that_cannot_judge_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="source: must be an object with judge, describe"):
        ToolPermission(source={})  # type: ignore[arg-type]


def test_it_describes_its_source_and_has_no_rules_to_look_up() -> None:
    permission = ToolPermission(source=DiskSource(), timeout=5)
    assert permission.describe() == {"rules": "disk", "timeout": 5}
    with pytest.raises(ConfigurationError, match="permission_for: needs rules"):
        permission.permission_for("write", {})
