"""Executes the examples of the documents: `python` blocks of Markdown and `>>>` lines of docstrings.

A `text` block after a `python` block is what that one prints, and is compared with it.
"""

import ast
import asyncio
import inspect
import io
import sys
from contextlib import redirect_stdout
from types import CodeType

from sybil import Example, Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

RUNNER = "__runner__"
PRINTED = "__printed__"


def run_block(example: Example) -> None:
    """Runs one block, in which `await` may stand at the top as in a notebook."""
    if example.document.text[example.region.start :].lstrip().startswith("<!--"):
        execute(example)
        return
    with redirect_stdout(io.StringIO()) as printed:
        execute(example)
    example.namespace[PRINTED] = printed.getvalue()


def check_printed(example: Example) -> None:
    """Compares a block with what the block before it printed; one that follows none is prose."""
    printed = example.namespace.pop(PRINTED, None)
    assert printed is None or printed.rstrip() == str(example.parsed).rstrip()


def execute(example: Example) -> None:
    source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
    code = compile(source, example.path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if not code.co_flags & inspect.CO_COROUTINE:
        exec(code, example.namespace)
        return
    runner = example.namespace.setdefault(RUNNER, asyncio.Runner())
    runner.run(await_block(code, example))


async def await_block(code: CodeType, example: Example) -> None:
    await eval(code, example.namespace)


def open_namespace(namespace: dict[str, object]) -> None:
    """Makes the document a module of its own, so that annotations of its classes resolve."""
    namespace["__name__"] = "__main__"


def close_namespace(namespace: dict[str, object]) -> None:
    if (documents := sys.modules.get("tests.documents")) is not None:
        documents.restore()
    runner = namespace.pop(RUNNER, None)
    if isinstance(runner, asyncio.Runner):
        runner.close()


pytest_collect_file = (
    Sybil(
        parsers=[
            CodeBlockParser("python", run_block),
            CodeBlockParser("text", check_printed),
            SkipParser(),
        ],
        patterns=["README.md", "docs/*.md", "docs/**/*.md"],
        setup=open_namespace,
        teardown=close_namespace,
    )
    + Sybil(
        parsers=[DocTestParser()],
        # Before Python 3.13 a pattern's ** stands for one folder only.
        patterns=["src/holdfast/" + "*/" * depth + "*.py" for depth in range(4)],
        document_types={".py": PythonDocStringDocument},
    )
).pytest()
