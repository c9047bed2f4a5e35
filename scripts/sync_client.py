"""Writes `SyncClient` from `Client`: each public coroutine becomes a method that blocks.

usage: python scripts/sync_client.py --write | --check
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent as indent_by

ROOT = Path(__file__).resolve().parent.parent
ROOM = ROOT / "src" / "holdfast" / "client"
WRITTEN = ROOM / "sync_client.py"
SOURCES = ("turn_calls", "session_calls", "question_calls", "queue_calls", "client")

HEAD = '''"""`SyncClient`: the same client for synchronous code. It drives `Client`, and has no logic of its own.

This module is generated from the modules of `Client` by `scripts/sync_client.py`; change those instead.
"""

from __future__ import annotations

'''

INDENT = "    "

Function = ast.FunctionDef | ast.AsyncFunctionDef


def render() -> str:
    """The module, as it is saved."""
    modules = [ast.parse((ROOM / f"{name}.py").read_text("utf-8")) for name in SOURCES]
    classes = [render_class(node) for module in modules for node in classes_of(module)]
    used = set(re.findall(r"\w+", "\n".join(classes)))
    imports = [
        "import builtins",
        "from collections.abc import Iterator",
        "from holdfast.client.client import Client",
        "from holdfast.runtime.sync_bridge import iterate_blocking, run_blocking",
        *(line for module in modules for line in imports_of(module, used)),
    ]
    return tidy(HEAD + "\n".join([*imports, *classes]))


def classes_of(module: ast.Module) -> Iterator[ast.ClassDef]:
    """The classes whose methods are calls."""
    for node in module.body:
        if isinstance(node, ast.ClassDef) and re.fullmatch("Client|[A-Za-z]+Calls", node.name):
            yield node


def imports_of(module: ast.Module, used: set[str]) -> Iterator[str]:
    """The imports of a module that bring one of the used names."""
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [name for name in node.names if name.name in used]
            if names:
                yield ast.unparse(ast.ImportFrom(node.module, names, node.level))


def render_class(node: ast.ClassDef) -> str:
    """The synchronous form of a class."""
    methods = [
        render_method(one)
        for one in node.body
        if isinstance(one, Function) and not one.name.startswith("_") and one.name != "aclose"
    ]
    return f"class Sync{node.name}:\n" + indent_lines("\n".join([render_start(node), *methods]))


def render_start(node: ast.ClassDef) -> str:
    """The beginning of a class: its docstring, and how it is made."""
    if node.name != "Client":
        return (
            f'"""The calls of `{node.name}`, for synchronous code."""\n'
            f"def __init__(self, calls: {node.name}) -> None:\n    self._calls = calls\n"
        )
    text = (ast.get_docstring(node) or "").replace("Client(", "SyncClient(")
    text = text.replace("<...", "<...Sync").replace(
        " a service.", " a service, for synchronous code.", 1
    )
    start = next(one for one in node.body if isinstance(one, Function) and one.name == "__init__")
    spaces = re.findall(r"self\.(\w+) = (\w+Calls)\(", ast.unparse(start))
    made = "\n".join(f"self.{name} = Sync{kind}(self._calls.{name})" for name, kind in spaces)
    return f'''{quote(text)}

def __init__({ast.unparse(start.args)}) -> None:
    self._calls = Client({pass_on(start.args)})
{indent_lines(made)}
def __enter__(self) -> Self:
    return self
def __exit__(self, *_error: object) -> None:
    self.close()
def close(self) -> None:
    """Close every connection."""
    run_blocking(self._calls.aclose())
'''


def render_method(method: Function) -> str:
    """The synchronous form of a method."""
    runs = "run_blocking" if isinstance(method, ast.AsyncFunctionDef) else "iterate_blocking"
    returns = ast.unparse(method.returns or ast.Constant(None)).replace("AsyncIter", "Iter")
    text = (ast.get_docstring(method) or "").replace("async for ", "for ")
    call = f"{runs}(self._calls.{method.name}({pass_on(method.args)}))"
    body = call if returns == "None" else f"return {call}"
    docstring = quote(text)
    head = f"def {method.name}({ast.unparse(method.args)}) -> {returns}:"
    return "\n".join([head, indent_lines(docstring), indent_lines(body)])


def quote(text: str) -> str:
    """A text as a docstring."""
    return f'"""{text}' + ("\n" if "\n" in text else "") + '"""'


def pass_on(arguments: ast.arguments) -> str:
    """The arguments of a call that passes on those of the function around it."""
    passed = [argument.arg for argument in arguments.args[1:]]
    passed += [f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs]
    return ", ".join(passed + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg else []))


def indent_lines(text: str) -> str:
    """A text, one step to the right."""
    return indent_by(text, INDENT)


def tidy(text: str) -> str:
    """Format a module as the others are."""
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format", "--quiet"]):
        tool = Path(sys.executable).with_name("ruff")
        done = subprocess.run(  # noqa: S603  # REASON: the linter of this environment
            [tool, *command, "--stdin-filename", WRITTEN, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


def main(arguments: list[str]) -> int:
    """Write the module, or compare it."""
    written = render()
    if arguments == ["--write"]:
        WRITTEN.write_text(written, "utf-8")
        return 0
    if arguments == ["--check"]:
        return int(WRITTEN.read_text("utf-8") != written)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
