"""A user needs the public namespaces and nothing else: for what is documented, and for what it takes and gives."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scripts import public_api

import holdfast

ROOT = Path(__file__).resolve().parents[2]

MEASURED_INSIDE = {
    "benchmarks/cases/hooks.py": "measures the chain of hooks without a run around it",
    "benchmarks/cases/wire_deltas.py": "measures the decoders of the wires without a connection",
    "benchmarks/journal.py": "measures the encoding and the statements of a journal one by one",
    "benchmarks/large_inbox.py": "measures the transactions of the inbox one by one",
    "benchmarks/large_journal.py": "opens sessions of the pool without running a turn",
    "benchmarks/session_list.py": "asks for pages without HTTP",
    "benchmarks/large_store.py": "inserts the rows of a journal without the journal",
    "benchmarks/large_waits.py": "measures each piece of work of the journal's thread",
    "benchmarks/outage/policies.py": "replays the decisions of a retry in simulated time",
    "benchmarks/resilience.py": "measures each strategy around an operation that costs nothing",
    "benchmarks/traces.py": "repeats the calls of the SDK that one turn makes",
    "benchmarks/tenants.py": "makes keys, uploads and names of responses in the store of the service",
    "benchmarks/sessions.py": "measures the pool and the machine of sessions without a model",
}
"""Program that measures an inner part -> why it must import it."""

INNER = {
    "SessionState": "the words of a status are a Literal; its name here is found in core first",
    "PostgresLease": "what PostgresJournal.claim gives is used as a Lease",
    "SessionQuery": "Sessions.list takes its fields",
    "SessionRow": "Sessions.list gives SessionInfo",
    "QuestionQuery": "a service asks for the open questions of its journal",
    "ListedQuestion": "as above",
    "InboxChanges": "a worker watches its own inbox",
    "PostgresLink": "a service opens the link of its journal",
    "ErrorStreak": "the state of ErrorTracking is its own",
    "Inquiry": "the state of ToolPermission is its own",
    "Preference": "the state of ToolPermission is its own",
    "RepetitionState": "the state of RepetitionGuard is its own",
    "ModelPrice": "a row of Prices, which is made of a mapping",
    "TokenEstimate": "the state of HistoryReduction is its own",
    "UsageSpent": "the state of UsageLimits is its own",
    "MaskedStream": "what PIIProtection.live gives is used as a LiveFilter",
    "Channel": "runs make a RunStream, users do not",
    "QuestionBroker": "runs make a RunStream, users do not",
    "BatchPlan": "Agent.map makes a BatchRun, users do not",
    "Engine": "Agent.map makes a BatchRun, users do not",
    "Signature": "made and read by Tool",
    "AgentKeywords": "the keywords of Agent, for type checkers",
    "ToolKeywords": "the keywords of `@tool`, for type checkers",
    "SchemaToolKeywords": "the keywords of `Tool.from_schema`, for type checkers",
    "McpKeywords": "the keywords of McpServer, for type checkers",
    "RunKeywords": "the keywords of Agent.run, for type checkers",
    "SubmitKeywords": "the keywords of Agent.submit, for type checkers",
    "ResumeKeywords": "the keywords of Agent.resume, for type checkers",
    "RecoverKeywords": "the keywords of Agent.recover, for type checkers",
    "ErrorHandlingKeywords": "what ErrorHandling.agent_keywords gives, for type checkers",
    "HandedOver": "made by a journal",
    "Waiter": "used by Cache only",
    "_AskAgain": "used by Cache only",
    "Form": "used by Transcript only",
    "Rewritings": "made by the codecs of the package, read by HttpModel",
}
"""Class that a public signature names -> why no user needs its name."""


def imports_of(text: str) -> Iterator[str]:
    """The modules of the package that a text imports from; programs and pages alike."""
    pattern = r"^[ \t]*(?:>>> |\.\.\. )?(?:from (holdfast[\w.]*) import|import (holdfast[\w.]*))"
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield match[1] or match[2]


def texts() -> list[str]:
    listed = ["README.md", "docs", "examples", "benchmarks"]
    found = subprocess.run(
        ["git", "ls-files", *listed], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in found.stdout.split() if name.endswith((".py", ".md"))]


def test_what_users_read_imports_public_names_only() -> None:
    paths = {name: ROOT / name for name in texts() if name not in MEASURED_INSIDE}
    inner = {
        name: set(imports_of(path.read_text("utf-8"))) - set(public_api.NAMESPACES)
        for name, path in paths.items()
        if path.exists()
    }
    found = {name: names for name, names in inner.items() if names}
    assert not found, f"{found}: use one of {public_api.NAMESPACES}"


def test_a_reason_is_given_only_where_one_is_needed() -> None:
    for name in MEASURED_INSIDE:
        inner = set(imports_of((ROOT / name).read_text("utf-8"))) - set(public_api.NAMESPACES)
        assert inner, name


def everything() -> dict[str, Any]:
    """Every global of the package by its name, to evaluate annotations with."""
    names: dict[str, Any] = {name: getattr(typing, name) for name in typing.__all__}
    names |= {name: getattr(importlib.import_module("collections.abc"), name) for name in _ABC}
    names["os"] = os
    for found in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if found.name != "holdfast.testing.pytest_plugin":
            module = importlib.import_module(found.name)
            for name, value in vars(module).items():
                names.setdefault(name, value)
    return names


_ABC = importlib.import_module("collections.abc").__all__


def public_values() -> list[tuple[str, Any]]:
    return [
        (f"{module.__name__}.{name}", getattr(module, name))
        for module in public_api.public_modules()
        for name in module.__all__
    ]


def signatures(value: Any) -> Iterator[Callable[..., Any]]:
    """What has annotations that a user reads: a function; the methods and the fields of a class."""
    if not inspect.isclass(value):
        if inspect.isfunction(value):
            yield value
        return
    if hasattr(value, "__struct_fields__"):
        yield value
    for name, member in vars(value).items():
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield member.fget
        elif isinstance(member, staticmethod | classmethod):
            yield member.__func__
        elif inspect.isfunction(member):
            yield member


def annotations_of(function: Callable[..., Any], names: dict[str, Any]) -> dict[str, Any]:
    """The annotations as types, without those that use a ParamSpec of another module."""
    try:
        return typing.get_type_hints(function, localns=names)
    except (NameError, TypeError, AttributeError):
        found = {}
        for name, text in function.__annotations__.items():
            with suppress(NameError, TypeError, AttributeError):
                found[name] = eval(text, dict(names))  # REASON: it is our own code
        return found


def named_types(annotation: Any) -> Iterator[type]:
    """The classes in an annotation, at any depth."""
    if inspect.isclass(annotation) and typing.get_origin(annotation) is None:
        yield annotation
    elif not isinstance(annotation, typing.TypeVar):
        for inner in (typing.get_origin(annotation), *typing.get_args(annotation)):
            for one in inner if isinstance(inner, list | tuple) else [inner]:
                if one is not None and not isinstance(one, str | bytes | int):
                    yield from named_types(one)


def test_what_a_public_signature_takes_or_gives_is_public() -> None:
    names, values = everything(), public_values()
    public = {id(value) for _, value in values}
    inner: dict[str, str] = {}
    for path, value in values:
        for function in signatures(value):
            try:
                hints = typing.get_type_hints(function, localns=names)
            except (
                NameError,
                TypeError,
                AttributeError,
            ):  # a ParamSpec, or a name for checkers only
                continue
            for name, annotation in hints.items():
                if inspect.isclass(function) and name.startswith("_"):
                    continue
                for kind in named_types(annotation):
                    if kind.__module__.startswith("holdfast") and id(kind) not in public:
                        inner[kind.__name__] = path
    missing = {name: path for name, path in inner.items() if name not in INNER}
    assert not missing, f"not public, but a signature names them: {missing}"


@pytest.mark.slow  # starts a program or a server
def test_a_namespace_is_cheap() -> None:
    """To import one loads nothing of its room."""
    for name in public_api.NAMESPACES:
        if name == "holdfast.testing.emulator":
            continue
        code = f"import sys, {name}; print(*(m for m in sys.modules if m.startswith('holdfast')))"
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
        )
        assert set(done.stdout.split()) == {"holdfast", name}


# A logger that nobody configured prints nothing, also when only a piece of Holdfast is imported.

PIECES = [
    "Agent",
    "journal.SqliteJournal",
    "middleware.Middleware",
    "resilience.Retry",
    "tools.Tool",
]
PIECES += ["calls.send_message", "calls.ResponseHandler", "testing.Emulator", "models.ModelAt"]
WARN = """
import logging
from holdfast{module} import {name}
for logger in ("holdfast", *logging.root.manager.loggerDict):
    if logger.partition(".")[0] == "holdfast":
        logging.getLogger(logger).warning("nobody asked for this")
"""


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("piece", PIECES)
def test_an_unconfigured_logger_prints_nothing(piece: str) -> None:
    module, dot, name = piece.rpartition(".")
    program = WARN.format(module=f".{module}" if dot else "", name=name)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
