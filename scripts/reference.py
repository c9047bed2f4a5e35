"""Writes the tables of docs/reference from the code, and the figures of README.md from the last results.

They stand between marks that name them.

usage: python scripts/reference.py --write | --check
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout, suppress
from difflib import unified_diff
from pathlib import Path
from typing import get_args

import msgspec
from docstring_parser import parse
from public_api import public_modules, public_values

from holdfast import Agent, errors
from holdfast.agent_file.load_agent import find_keyword_forms
from holdfast.cli.main import COMMANDS, build_parser
from holdfast.codecs.output_mode import choose_output_method
from holdfast.core.model_request import ModelRequest, OutputSchema, ToolSpec
from holdfast.errors import ErrorCategory, ErrorInfo, HoldfastError, explain
from holdfast.models.presets import PRESETS, Preset
from holdfast.testing.emulator import DRESSES, Dress
from holdfast.testing.emulator.faults import Fault
from holdfast.testing.emulator.script_file import list_fault_words

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "reference").glob("*.md")))
RESULTS = ROOT / "benchmarks" / "results" / "README.md"
MARKED = re.compile(r"(<!-- generated: ([\w.-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
PUBLIC = public_values()
CHOSEN = ("max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls")
NAMELESS_CHOICE = DRESSES["lmstudio"].own["tool_choice"]
FILE_FORMS = {
    "value": "a value",
    "table": "a table",
    "name": '`"module:name"`',
    "list of names": 'a list of `"module:name"`',
}

MEANING = {
    ErrorCategory.UNKNOWN: "an exception of an unknown type",
    ErrorCategory.TRANSIENT: "overloaded or unavailable, or the connection was lost",
    ErrorCategory.TIMEOUT: "no response in time",
    ErrorCategory.RATE_LIMIT_RETRYABLE: "too many requests or tokens at once; temporary",
    ErrorCategory.RATE_LIMIT_TERMINAL: "a quota or a balance is used up",
    ErrorCategory.CLIENT_ERROR: "the request is wrong",
    ErrorCategory.AUTH_ERROR: "the key is wrong, or lacks a permission",
    ErrorCategory.CONTEXT_WINDOW: "the conversation is longer than the model can read",
    ErrorCategory.SERVER_ERROR: "the provider has an internal error",
    ErrorCategory.MODEL_NOT_FOUND: "the model does not exist, or not for this account",
    ErrorCategory.EMPTY_RESPONSE: "a reply without content",
    ErrorCategory.INVALID_RESPONSE: "the response is not a valid reply, or its output does not have the wanted type",
    ErrorCategory.CONTENT_FILTERED: "a filter withheld the reply, or the model declined",
    ErrorCategory.TRUNCATED: "the reply was cut at the output limit",
    ErrorCategory.PROGRAMMING: "a programming error in a tool",
    ErrorCategory.LIMIT: "a limit of the turn is reached",
    ErrorCategory.CANCELLED: "somebody cancelled the run",
}


def first_sentence(value: object) -> str:
    """The first line of a docstring, fit for a table; "" when there is none of its own."""
    if inspect.isclass(value) and "__doc__" not in vars(value):
        return ""
    return cell(parse(inspect.getdoc(value) or "").short_description or "")


def cell(text: str) -> str:
    """Text on one line, without what would end a cell, and without where a rule comes from."""
    text = re.sub(r"\s*\((?:as in the )?seed \d+[^)]*\)|; \d+ is the default of seed \d+", "", text)
    return " ".join(text.split()).replace("|", "\\|").rstrip(".")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written_below(name: str, value: object) -> str:
    """The text below an assignment such as `Part = Text | Media`; "" when there is none."""
    assignment = re.compile(
        rf'^{name}\b[^\n]* = (?:\(.*?^\)|\{{.*?^\}}|[^\n]*)\n"""(.*?)"""', re.MULTILINE | re.DOTALL
    )
    for path in sorted((ROOT / "src" / "holdfast").rglob("*.py")):
        found = assignment.search(path.read_text("utf-8"))
        if found is not None:
            module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
            if getattr(importlib.import_module(module), name) is value:
                return cell(found[1])
    return ""


def description(name: str, value: object) -> str:
    """What a public name is, in one sentence."""
    documented = inspect.isclass(value) or inspect.isroutine(value)
    return first_sentence(value) if documented else written_below(name, value)


def names() -> str:
    """Every public name under the module to import it from."""
    parts = []
    for module in public_modules():
        rows = [
            (f"`{name}`", description(name, getattr(module, name)))
            for name in module.__all__
            if not name.startswith("_")
        ]
        what = cell((module.__doc__ or "").partition("\n")[0])
        parts.append(f"## `{module.__name__}`\n\n{what}.\n\n{table(('name', 'what it is'), rows)}")
    return "\n".join(parts)


def error_classes() -> str:
    """The public exceptions, parents first, indented by their depth."""
    found = (getattr(errors, name) for name in errors.__all__)
    public = {
        value for value in found if inspect.isclass(value) and issubclass(value, HoldfastError)
    }

    def rows(kind: type[HoldfastError], depth: int) -> Iterable[tuple[str, str, str]]:
        shown = "&nbsp;" * 4 * depth + f"`{kind.__name__}`"
        yield shown, f"`{kind.default_category.value}`", first_sentence(kind)
        for inner in sorted(kind.__subclasses__(), key=lambda inner: inner.__name__):
            if inner in public:
                yield from rows(inner, depth + 1)

    head = ("exception", "default category", "when it is raised")
    return table(head, rows(HoldfastError, 0))


def error_categories() -> str:
    """What a category means, whether it is retried, and the advice to a user."""
    return table(
        ("category", "retried", "meaning", "advice of `explain`"),
        (
            (
                f"`{category.value}`",
                "yes" if category.is_retryable else "no",
                MEANING[category],
                cell(explain(ErrorInfo(category=category, safe="!", provider="any"))[1:])
                or "nothing",
            )
            for category in ErrorCategory
        ),
    )


def settings_of(name: str) -> str:
    """The fields of a settings record with their defaults."""
    record = PUBLIC[name]
    assert isinstance(record, type)  # noqa: S101  # REASON: pages have settings of records only
    about = {part.arg_name: part.description or "" for part in parse(record.__doc__).params}
    return table(
        ("setting", "default", "meaning"),
        (
            (f"`{name}`", f"`{default}`", cell(about.get(name, "")))
            for name, default in defaults(record).items()
        ),
    )


def agent_keywords() -> str:
    """The keywords of `Agent`, with their defaults and how a file writes them."""
    about = {part.arg_name: part.description or "" for part in parse(Agent.__doc__ or "").params}
    forms = find_keyword_forms()
    rows = []
    for name, parameter in inspect.signature(Agent).parameters.items():
        form = FILE_FORMS[forms[name].written_as] if name in forms else "no"
        rows.append((f"`{name}`", f"`{default_of_parameter(parameter)}`", form, cell(about[name])))
    return table(("keyword", "default", "in a file", "meaning"), rows)


def defaults(record: type) -> dict[str, str]:
    """The fields of a record and their defaults as code."""
    if dataclasses.is_dataclass(record):
        return {
            field.name: "required" if field.default is dataclasses.MISSING else repr(field.default)
            for field in dataclasses.fields(record)
        }
    return {field.name: default_of(field) for field in msgspec.structs.fields(record)}


def default_of_parameter(parameter: inspect.Parameter) -> str:
    """A default as code; a type by its name."""
    value = parameter.default
    if value is inspect.Parameter.empty:
        return "required"
    return value.__name__ if isinstance(value, type) else repr(value)


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """A default as code; a record of settings by its name alone."""
    value = field.default
    if value is msgspec.NODEFAULT:
        factory = field.default_factory
        return "required" if factory is msgspec.NODEFAULT else f"{factory.__name__}()"
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()"
    return getattr(value, "__qualname__", None) or repr(value)


def providers() -> str:
    """The presets."""
    return table(
        ("name", "wire", "address", "key from", "for example", "structured output"),
        (
            (
                f"`{preset.name}`",
                preset.wire,
                f"`{preset.base_url}`",
                ", ".join(f"`{variable}`" for variable in preset.key_env) or "no key needed",
                f"`{preset.name}:{preset.models_hint}`"
                if " " not in preset.models_hint
                else cell(preset.models_hint),
                typed_answers(preset),
            )
            for preset in PRESETS.values()
        ),
    )


def typed_answers(preset: Preset) -> str:
    """The output mode that `mode="auto"` chooses for the example model."""
    alone, with_tools = (
        choose_output_method(
            preset.wire,
            preset.profile,
            ModelRequest(
                model=preset.models_hint,
                messages=(),
                tools=tools,
                output=OutputSchema("answer", {"type": "object"}),
            ),
        ).mode
        for tools in ((), (ToolSpec("tool", "", {}),))
    )
    return alone if alone == with_tools else f"{alone}; with tools: {with_tools}"


def faults() -> str:
    """What the emulator can do to a request."""
    return table(
        ("fault", "settings", "what the client sees", "`--fault`"),
        (
            (
                f"`{kind.__name__}`",
                ", ".join(fault_setting(field) for field in msgspec.structs.fields(kind)),
                first_sentence(kind),
                ", ".join(f"`{word}`" for word in list_fault_words(kind)),
            )
            for kind in get_args(Fault)
        ),
    )


def dresses() -> str:
    """What each dress of the emulator refuses and ignores, and how its streams differ."""
    return table(
        ("dress", "refuses", "ignores", "streams"),
        (
            (f"`{name}`", refused_by(dress), code_list(dress.ignores), stream_of(dress))
            for name, dress in DRESSES.items()
        ),
    )


def refused_by(dress: Dress) -> str:
    """The refusals of a dress in words."""
    usual = Dress()
    roles = [f"the role `{role}`" for role in usual.roles if role not in dress.roles]
    formats = [f"the format `{name}`" for name in usual.formats if name not in dress.formats]
    found = [
        *(["unknown fields"] if dress.fields is not None else []),
        *(f"`{name}`" for name in CHOSEN if name not in (dress.fields or CHOSEN)),
        *map("`{}`".format, dress.refuses),
        # The role of results before there were tools.
        *(role for role in roles if "function" not in role),
        *formats,
        *([] if dress.images else ["images"]),
        *(["a named `tool_choice`"] if dress.own.get("tool_choice") == NAMELESS_CHOICE else []),
        *(["roles that do not alternate"] if dress.alternates else []),
    ]
    return ", ".join(found)


def stream_of(dress: Dress) -> str:
    """How the streams of a dress differ from OpenAI's."""
    reasoning = "" if dress.reasoning_field == Dress().reasoning_field else dress.reasoning_field
    found = [
        *([f"reasoning in `{reasoning}`"] if reasoning else []),
        *([] if dress.usage == "asked" else [f"usage {dress.usage}"]),
    ]
    return ", ".join(found)


def code_list(words: Iterable[str]) -> str:
    """Words as code."""
    return ", ".join(map("`{}`".format, words))


def fault_setting(field: msgspec.structs.FieldInfo) -> str:
    """The name of a setting, with a default that is a number or a truth value."""
    if field.required:
        return f"`{field.name}` (required)"
    given = f"={field.default}" if isinstance(field.default, int | float) else ""
    return f"`{field.name}{given}`"


FIGURES = {
    "one turn, no tools": "a turn without tools, its reply whole",
    "one turn, no tools, its reply streamed": "the same, its reply streamed (the default of most providers)",
    "one turn, its reply streamed, saved in a file": "a durable turn: the same again, saved in an SQLite file",
    "`run`: 200 tokens of 10 ms, against appending": "`run` with a reply of 200 tokens, 10 ms apart; the minimal code only collects the bytes",
    "one tool iteration of 10 in a row": "an iteration with a tool",
    "one streamed delta": "a streamed delta",
    "1,000 streams at once: wall time": "1,000 streams at once: wall time",
    "1,000 streams at once: peak memory of a run above the floor's": "the same: peak memory, and what one run adds",
    "`from holdfast import Agent, tool` against `import asyncio`": "`from holdfast import Agent, tool`, against `import asyncio`: instructions",
}
"""A row of the benchmarks' results -> what README.md calls it."""


def figures() -> str:
    """Some rows of the last results: floor, ours, and the ratio or the difference."""
    rows = [
        [part.strip() for part in line.strip("|\n").split("|")]
        for line in RESULTS.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    known = {row[0]: row[1:4] for row in rows}
    return table(
        ("what", "minimal code", "Holdfast", "ratio, or difference"),
        ((shown, *known[name]) for name, shown in FIGURES.items() if name in known),
    )


def command_line() -> str:
    """The help of the command and of each subcommand, 80 columns wide."""
    os.environ["COLUMNS"] = "80"
    return "\n".join(
        f"## {' '.join(words)}\n\n```console\n$ {' '.join(words)} --help\n{help_of(*words[1:])}\n```\n"
        for words in (["holdfast"], *(["holdfast", name] for name in COMMANDS))
    )


def help_of(*words: str) -> str:
    """What `--help` prints after these words."""
    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        build_parser().parse_args([*words, "--help"])
    return printed.getvalue().strip()


TABLES: dict[str, Callable[[], str]] = {
    "names": names,
    "agent-keywords": agent_keywords,
    "error-classes": error_classes,
    "error-categories": error_categories,
    "providers": providers,
    "dresses": dresses,
    "faults": faults,
    "command-line": command_line,
    "figures": figures,
}


def content(name: str) -> str:
    """The generated text between the marks of this name."""
    kind, _, record = name.partition(".")
    return settings_of(record) if kind == "settings" else TABLES[name]()


def rendered(text: str) -> str:
    """A page with its tables written from the code."""
    return MARKED.sub(lambda mark: f"{mark[1]}\n{content(mark[2])}\n{mark[3]}", text)


def main(arguments: list[str]) -> int:
    """Write or check; 1 when a page is out of date."""
    if arguments not in (["--write"], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for page in PAGES:
        old = page.read_text("utf-8")
        new = rendered(old)
        if old == new:
            continue
        stale = 1
        if arguments == ["--write"]:
            page.write_text(new, "utf-8")
        else:
            sys.stdout.writelines(
                unified_diff(old.splitlines(True), new.splitlines(True), page.name, "the code")
            )
    return 0 if arguments == ["--write"] else stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
