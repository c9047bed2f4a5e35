"""The programs of examples/comparison: ours do what they say, and are not longer than the others."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast import ToolCall
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.errors import ProviderError
from holdfast.testing import ScriptedModel

FOLDER = Path(__file__).parents[2] / "examples" / "comparison"
TASKS = sorted(path.stem.removesuffix("_holdfast") for path in FOLDER.glob("*_holdfast.py"))

RUN_THEIRS = """
import asyncio, builtins, importlib.util, sys
from pathlib import Path
from pydantic_ai.models.test import TestModel

builtins.input = lambda words: "y"
for path in sys.argv[1:]:
    print("##", path)
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.MODEL = TestModel()
    texts = [["one", "two"]] if "batch" in path else []
    print(asyncio.run(program.main(*texts)))
"""


def load(name: str, *replies: Any) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.MODEL = ScriptedModel(*replies)  # type: ignore[attr-defined]
    return program


def find_python_of_theirs() -> str | None:
    """The interpreter that has pydantic-ai: this one, or the one that PYDANTIC_AI_PYTHON names."""
    if importlib.util.find_spec("pydantic_ai") is not None:
        return sys.executable
    return os.environ.get("PYDANTIC_AI_PYTHON")


def test_there_are_six_tasks_in_two_forms() -> None:
    assert len(TASKS) == 6
    assert all((FOLDER / f"{task}_pydantic_ai.py").exists() for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_ours_is_not_longer(task: str) -> None:
    ours, theirs = load("count_lines").count_programs()[task]
    assert 5 < ours <= theirs


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_every_program_compiles(path: Path) -> None:
    compile(path.read_text("utf-8"), str(path), "exec")


@pytest.mark.slow  # starts a program or a server
def test_theirs_runs() -> None:
    python = find_python_of_theirs()
    if python is None:
        pytest.skip("SKIPPED WITHOUT EVIDENCE: pydantic-ai is not installed (PYDANTIC_AI_PYTHON)")
    programs = [str(FOLDER / f"{task}_pydantic_ai.py") for task in TASKS]
    done = subprocess.run(
        [python, "-c", RUN_THEIRS, *programs], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = [part.partition("\n") for part in done.stdout.split("## ")[1:]]
    assert [name for name, _, text in printed if text.strip()] == programs


async def test_structured_output() -> None:
    program = load("structured_output_holdfast", '{"customer": "Ana", "euros": 20}')
    assert (await program.main()).euros == 20


async def test_a_tool_with_deps() -> None:
    call = ToolCall("1", "find_balance", '{"customer": "Ana"}')
    program = load("tool_with_deps_holdfast", call, "Ana has 20 euros.")
    assert await program.main() == "Ana has 20 euros."
    assert program.MODEL.requests[1].messages[-1].parts[0].text == "20.0"


async def test_streaming(capsys: pytest.CaptureFixture[str]) -> None:
    program = load("streaming_holdfast", "Once upon a time.")
    assert await program.main() == "Once upon a time."
    assert capsys.readouterr().out == "Once upon a time."


@pytest.mark.parametrize(("typed", "said"), [("y", "a.txt is deleted"), ("n", "denied")])
async def test_an_approval(typed: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ToolCall("1", "delete_file", '{"path": "a.txt"}')
    program = load("approval_holdfast", call, "Done.")
    monkeypatch.setattr("builtins.input", lambda _: typed)
    assert await program.main() == "Done."
    assert said in program.MODEL.requests[1].messages[-1].parts[0].text.lower()


async def test_a_subagent() -> None:
    replies = [ToolCall("1", "write_jokes", '{"task": "Cats."}'), '{"answer": ["A.", "B."]}', "B."]
    program = load("subagent_holdfast", *replies)
    assert await program.main() == "B."


async def test_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: Any) -> Any:
        if request.messages[0].text == "two":
            info = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="no key")
            return ProviderError("no key", info=info)
        return request.messages[0].text.upper()

    program = load("batch_holdfast", *[answer] * 20)
    assert await program.main(["one", "two", "three"]) == ["ONE", None, "THREE"]
    assert capsys.readouterr().out.splitlines() == ["two no key", "30 tokens"]
