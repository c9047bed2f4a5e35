"""A project with rules, small tools and a scripted model, through the real agent and the real approval."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from adh.approval.pipeline import ApprovalPipeline, make_pipeline
from adh.approval.question import ApprovalQuestion
from adh.approval.setup import ApprovalSetup, SafetySwitch
from adh.rules.rule_files import RuleFile, built_in_files, load_rules
from adh.rules.rule_set import RuleSet
from adh.storage.audit_log import AuditEntry, AuditLog
from adh.storage.backups import Backups
from adh.storage.call_context import ApprovedCalls, CallContext
from adh.storage.content_digest import digest_path
from adh.storage.places import find_places
from holdfast import (
    Agent,
    Answer,
    Question,
    Result,
    SqliteJournal,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from holdfast.testing import FakeClock, ScriptedModel

Answering = Callable[[ApprovalQuestion], Answer[Any] | None]

EFFECTS = {
    "read_file": frozenset({"reads_fs"}),
    "write_file": frozenset({"writes_fs"}),
    "delete_file": frozenset({"deletes_fs"}),
    "execute_command": frozenset({"executes_process"}),
    "fetch_url": frozenset({"network_read"}),
}


class Desk:
    """Everything that one person works with; `reopen` is a new process over the same files.

    Args:
        folder: an empty folder.
        rules: rules of the person as YAML text, beside the built-in ones.
        search_path: the PATH of the person; empty for the usual one.
    """

    def __init__(self, folder: Path, rules: str = "", search_path: str = "") -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        (folder / "home").mkdir(exist_ok=True)
        environ = {"HOME": str(folder / "home"), "PATH": search_path}
        self.places = find_places(environ, self.project)
        self.rules = self.load(rules)
        self.audit = AuditLog(self.places.audit_file)
        self.switch = SafetySwitch(self.audit)
        self.clock = FakeClock(auto=False)
        self.ran: list[str] = []
        self.asked: list[ApprovalQuestion] = []
        self.before_run: Callable[[], None] = lambda: None
        self.answering: Answering | None = None

    @staticmethod
    def load(rules: str) -> RuleSet:
        files = [*built_in_files(), *([RuleFile("policies/own.yaml", rules)] if rules else [])]
        return load_rules(files)

    def setup(self, **changes: Any) -> ApprovalSetup:
        setup = ApprovalSetup(
            places=self.places,
            read_rules=lambda: self.rules,
            effects=EFFECTS,
            audit=self.audit,
            switch=self.switch,
            save_backup=Backups(self.places.backups).save,
        )
        return msgspec.structs.replace(setup, **changes)

    def context(self) -> CallContext:
        project = str(self.places.project)
        return CallContext(
            user="ada",
            session="s1",
            agent="orchestrator",
            request_id="r1",
            folder=project,
            project=project,
        )

    def agent(self, *script: Any, setup: ApprovalSetup | None = None, **options: Any) -> Agent[str]:
        pipeline = make_pipeline(setup or self.setup())
        options.setdefault("tools", self.tools())
        options.setdefault("middleware", [pipeline.permission, pipeline.safeguards])
        options.setdefault("clock", self.clock)
        options.setdefault("on_question", self.answer_question)
        options.setdefault("name", "orchestrator")
        return Agent(ScriptedModel(*script), **options)

    def pipeline(self) -> ApprovalPipeline:
        return make_pipeline(self.setup())

    async def run(self, agent: Agent[str], answer: Answering | None = None) -> Result[str]:
        """Run one turn; `answer` answers its questions."""
        self.answering = answer
        return await agent.run("Do it.", deps=self.context())

    async def answer_question(self, question: Question[Any]) -> Answer[Any] | None:
        assert isinstance(question, ApprovalQuestion)
        self.asked.append(question)
        return self.answering(question) if self.answering is not None else None

    def journal(self) -> SqliteJournal:
        return SqliteJournal(self.folder / "journal.db")

    def lines(self) -> list[AuditEntry]:
        return list(self.audit.read()) if self.places.audit_file.exists() else []

    def decisions(self) -> list[tuple[str, str, str]]:
        return [(line.tool, line.decision, line.decided_by) for line in self.lines()]

    def tools(self) -> list[Tool]:
        """Tools that act on what was approved, as those of the application do."""

        def find_path(context: ToolContext, written: str) -> Path:
            self.before_run()
            approved = context.shared(ApprovedCalls).find(context.key)
            assert approved is not None
            path = approved.paths[written]
            expected = approved.content.get(path)
            if expected is not None and digest_path(path) != expected:
                raise ToolError(f"{path} has changed since it was approved.")
            return Path(path)

        @tool(effect="read")
        async def read_file(file_path: str, context: ToolContext) -> str:
            """Read a file."""
            self.ran.append(f"read {file_path}")
            return find_path(context, file_path).read_text()

        @tool(effect="write")
        async def write_file(file_path: str, content: str, context: ToolContext) -> str:
            """Write a file."""
            find_path(context, file_path).write_text(content)
            self.ran.append(f"write {file_path}")
            return "written"

        @tool(effect="write")
        async def delete_file(file_path: str, context: ToolContext) -> str:
            """Delete a file."""
            find_path(context, file_path).unlink()
            self.ran.append(f"delete {file_path}")
            return "deleted"

        @tool(effect="write")
        async def execute_command(command: str, context: ToolContext) -> str:
            """Run a command."""
            self.before_run()
            self.ran.append(f"run {command}")
            return "exit status 0"

        return [read_file, write_file, delete_file, execute_command]


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


def texts(result: Result[Any]) -> list[str]:
    """Return what the model read from its tools."""
    return [
        part.text
        for message in result.history
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


def approve(question: ApprovalQuestion) -> Answer[Any]:
    return question.approve(by="ada")


def answer_each(*answers: Answering) -> Answering:
    """Answer the questions one after the other."""
    left = list(answers)

    def answer(question: ApprovalQuestion) -> Answer[Any] | None:
        return left.pop(0)(question)

    return answer
