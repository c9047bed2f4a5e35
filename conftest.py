"""Executes the examples of the documents: `python` blocks of Markdown and `>>>` lines of docstrings.

Only what a reader sees is executed; there are no hidden blocks. A page runs in an empty folder of its own:

- a block with a title (```` ```toml title="agent.toml" ````) is a file, and is saved there under that name;
- any other `python` block runs; the blocks of a page share their names;
- a `text` block after it, under the same heading, is what it prints, and is compared with it.

`tests/docs/providers.py` says what the providers that a page names answer.
"""

import ast
import asyncio
import inspect
import io
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.parsers.rest import DocTestParser

pytest_plugins = ["tests.hung_tests"]


def pytest_configure() -> None:
    """Lets Ctrl-C end programs: a shell that starts a job in the background lets it, and all that it starts, ignore that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" in os.environ:
        # A test that starts pytest gets a folder elsewhere: each session removes folders of earlier ones.
        os.environ.pop("PYTEST_DEBUG_TEMPROOT", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives the slow tests of rooms with processes to one worker, which runs them one after another, from the beginning.

    The other tests are shared out by their files, between that worker and the others; slow ones come first.
    """
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            rooms = item.path.relative_to(config.rootpath).parts
            alone = is_slow(item) and not PROCESS_ROOMS.isdisjoint(rooms)
            group = "processes" if alone else item.path.as_posix()
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: not is_slow(item))


# Their tests kill processes, or take over from them in time.
PROCESS_ROOMS = frozenset({"cli", "crash", "hosting", "journal", "server", "sessions", "worker"})


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


RUNNER = "__runner__"
PRINTED = "__printed__"
OPENED = "__opened__"
TITLE = re.compile(r'(?P<language>\w+) +title="(?P<name>[^"]+)"')


def parse_blocks(document: Document) -> Iterable[Region]:
    """Finds the files, the programs and the printed texts of a page."""
    lexer = FencedCodeBlockLexer(".+", mapping={"language": "language", "source": "source"})
    for region in lexer(document):
        language = region.lexemes["language"]
        evaluators = {"python": run_block, "text": check_printed}
        region.evaluator = save_file if TITLE.fullmatch(language) else evaluators.get(language)
        region.parsed = region.lexemes["source"]
        if region.evaluator is not None:
            yield region


def save_file(example: Example) -> None:
    """Saves a block with a title under that name, in the folder of the page."""
    open_page(example)
    titled = TITLE.fullmatch(example.region.lexemes["language"])
    assert titled is not None
    path = Path(titled["name"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(example.parsed)


def run_block(example: Example) -> None:
    """Runs one block, in which `await` may stand at the top as in a notebook."""
    open_page(example)
    with redirect_stdout(io.StringIO()) as printed:
        execute(example)
    example.namespace[PRINTED] = printed.getvalue(), example.region.end


def check_printed(example: Example) -> None:
    """Compares a block with what the block before it printed; one that follows none is prose."""
    printed, end = example.namespace.pop(PRINTED, ("", 0))
    follows = end and "\n#" not in example.document.text[end : example.region.start]
    assert not follows or printed.rstrip() == str(example.parsed).rstrip()


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


def open_page(example: Example) -> None:
    """Gives a page its folder and its providers, before its first block."""
    if OPENED in example.namespace:
        return
    # Only a page needs it, and not every test run.
    from tests.docs.providers import answer_for  # noqa: PLC0415

    page = Path(example.path).relative_to(Path(__file__).parent).as_posix()
    opened = example.namespace[OPENED] = ExitStack()
    folder = opened.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
    opened.enter_context(chdir(folder))
    opened.enter_context(import_from(folder))
    opened.enter_context(answer_for(page))


@contextmanager
def import_from(folder: str) -> Iterator[None]:
    """Lets the page import its own files, which no other page finds."""
    known = set(sys.modules)
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


def close_namespace(namespace: dict[str, object]) -> None:
    runner = namespace.pop(RUNNER, None)
    if isinstance(runner, asyncio.Runner):
        runner.close()
    opened = namespace.pop(OPENED, None)
    if isinstance(opened, ExitStack):
        opened.close()


pytest_collect_file = (
    Sybil(
        parsers=[parse_blocks],
        patterns=["README.md", "docs/*.md", "docs/**/*.md"],
        setup=open_namespace,
        teardown=close_namespace,
    )
    + Sybil(
        parsers=[DocTestParser()],
        # Before Python 3.13 a pattern's ** stands for one folder only.
        patterns=[
            package + "*/" * depth + "*.py"
            for package in (
                "src/holdfast/",
                "apps/registration/src/registration/",
                "apps/terminal/src/adh/",
            )
            for depth in range(4)
        ],
        document_types={".py": PythonDocStringDocument},
    )
).pytest()
