"""Reads `agent.md`: front matter, the system prompt and the template of the person's messages.

Text in, value out: this module must never read a file. An error of a file of agents or models names the file, the
line and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError


class AgentFileError(Exception):
    """A file of an agent, of aliases or of project instructions cannot be used.

    Args:
        file: the file.
        problem: the problem, such as "has no description".
        fix: the instruction that solves it.
        line: the line, from 1; 0 if the whole file is meant.

    >>> str(AgentFileError("agents/a/agent.md", "has no description", "Add one", 2))
    'agents/a/agent.md:2: has no description. Add one.'
    """

    def __init__(self, file: str, problem: str, fix: str, line: int = 0) -> None:
        place = f"{file}:{line}" if line else file
        super().__init__(f"{place}: {problem}. {fix}.")
        self.file = file
        self.problem = problem
        self.fix = fix
        self.line = line


Origin = Literal["built-in", "person", "project"]

ALL_TOOLS = "*"
BUILT_IN_VARIABLES = ("tool_descriptions", "current_date", "agent_role")
MESSAGE_VARIABLE = "message"

_KEYS = ("name", "description", "model", "tools", "variables")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_VARIABLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_SYSTEM = "# System Prompt"
_USER = "# User Prompt Template"


class AgentFile(Struct, frozen=True, kw_only=True):
    """An agent as its file describes it.

    Args:
        name: its name.
        description: its role, in a sentence.
        system_prompt: its instructions, with variables.
        user_prompt: the template of the person's messages; empty for the message itself.
        model: a model or an alias; empty for the person's choice.
        tools: the names of its tools, or `ALL_TOOLS` alone.
        tool_lines: the line of each name in `tools`.
        variables: its own variables.
        origin: who wrote it.
        file: its file, for errors.
    """

    name: str
    description: str
    system_prompt: str
    user_prompt: str = ""
    model: str = ""
    tools: tuple[str, ...] = (ALL_TOOLS,)
    tool_lines: Mapping[str, int] = {}
    variables: Mapping[str, str] = {}
    origin: Origin = "built-in"
    file: str = ""

    def choose_tools(self, known: frozenset[str]) -> tuple[str, ...]:
        """Return the names of its tools, sorted for `*`.

        Args:
            known: the names of all tools.

        Raises:
            AgentFileError: there is no such tool.
        """
        if self.tools == (ALL_TOOLS,):
            return tuple(sorted(known))
        for name in self.tools:
            if name not in known:
                fix = f"The tools are: {', '.join(sorted(known))}"
                line = self.tool_lines.get(name, 0)
                raise AgentFileError(self.file, f"there is no tool {name!r}", fix, line)
        return self.tools


def parse_agent_file(text: str, file: str, folder: str, origin: Origin) -> AgentFile:
    """Return the agent that a text describes.

    Args:
        text: the content of `agent.md`.
        file: its name, for errors.
        folder: the name of its folder, which must be the name of the agent.
        origin: who wrote it.

    Raises:
        AgentFileError: a key, a heading or a variable is missing, unknown or wrong.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    end = _find_end(lines, file)
    fields = _FrontMatter(_load_yaml("\n".join(lines[1:end]), file), file)
    name = fields.take_text("name", required=True)
    if name != folder or not _NAME.fullmatch(name):
        fix = f"Name it as its folder, {folder!r}, in small letters, digits, '_' and '-'"
        raise fields.error("name", f"the name {name!r} is wrong", fix)
    system, user = _split_prompts(lines, end + 1, file)
    tools, tool_lines = fields.take_tools()
    agent = AgentFile(
        name=name,
        description=fields.take_text("description", required=True),
        system_prompt=_join(lines, system),
        user_prompt=_join(lines, user),
        model=fields.take_text("model"),
        tools=tools,
        tool_lines=tool_lines,
        variables=fields.take_variables(),
        origin=origin,
        file=file,
    )
    known = (*BUILT_IN_VARIABLES, *agent.variables)
    _check_variables(lines, system, known, file)
    _check_variables(lines, user, (*known, MESSAGE_VARIABLE), file)
    return agent


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its variables. A value is never searched for variables.

    >>> fill_variables("Today is {{ current_date }}.", {"current_date": "{{x}}"})
    'Today is {{x}}.'
    """
    return _VARIABLE.sub(lambda match: values[match[1]], text)


class _FrontMatter:
    """The fields between the two lines `---`.

    Args:
        fields: the mapping, with the lines of its keys.
        file: its file.
    """

    def __init__(self, fields: CommentedMap, file: str) -> None:
        self._fields = fields
        self._file = file
        for key in fields:
            if key not in _KEYS:
                raise self.error(
                    str(key), f"{key!r} is not a key", f"The keys are: {', '.join(_KEYS)}"
                )

    def error(self, key: str, problem: str, fix: str) -> AgentFileError:
        """Return an error about a key, with its line."""
        return AgentFileError(self._file, problem, fix, self._line_of(key))

    def _line_of(self, key: str) -> int:
        # The text begins in the second line of the file, and ruamel counts from 0.
        return int(self._fields.lc.key(key)[0]) + 2 if key in self._fields else 1

    def take_text(self, key: str, *, required: bool = False) -> str:
        """Return the text of a key; empty if it is not there."""
        value = self._fields.get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{key} is missing or no text", f"Write `{key}: ...`")
        return str(value).strip()

    def take_tools(self) -> tuple[tuple[str, ...], dict[str, int]]:
        """Return the names of the tools, and the line of each."""
        value = self._fields.get("tools", ALL_TOOLS)
        if value == ALL_TOOLS:
            return (ALL_TOOLS,), {}
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            fix = "Write a list of names, or '*' for all tools"
            raise self.error("tools", "tools is no list of names", fix)
        lines = {name: int(value.lc.item(at)[0]) + 2 for at, name in enumerate(value)}  # type: ignore[attr-defined]  # a CommentedSeq
        return tuple(map(str, value)), lines

    def take_variables(self) -> dict[str, str]:
        """Return the agent's own variables."""
        value = self._fields.get("variables") or {}
        fix = "Write `variables:` and below it `name: text` for each"
        if not isinstance(value, dict):
            raise self.error("variables", "variables is no mapping", fix)
        for name, text in value.items():
            if not isinstance(name, str) or not isinstance(text, str | int | float):
                raise self.error("variables", f"the variable {name!r} is no text", fix)
            if name in (*BUILT_IN_VARIABLES, MESSAGE_VARIABLE):
                raise self.error("variables", f"{name!r} is built in", "Choose another name")
        return {str(name): str(text) for name, text in value.items()}


def _find_end(lines: list[str], file: str) -> int:
    """Return the index of the line that ends the front matter."""
    fix = "Begin the file with '---', the fields, and '---'"
    if lines[0].rstrip() != "---":
        raise AgentFileError(file, "there is no front matter", fix, 1)
    for at, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return at
    raise AgentFileError(file, "the front matter has no end", fix, len(lines))


def _load_yaml(text: str, file: str) -> CommentedMap:
    yaml = YAML(typ="rt")
    try:
        fields = yaml.load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark is not None else 0
        problem = f"the front matter is no YAML: {error.problem}"
        raise AgentFileError(file, problem, "Correct the line", line) from None
    except (YAMLError, ValueError, RecursionError):
        raise AgentFileError(file, "the front matter is no YAML", "Correct it", 2) from None
    if not isinstance(fields, CommentedMap):
        raise AgentFileError(file, "the front matter has no fields", "Write `name: ...`", 2)
    return fields


def _split_prompts(lines: list[str], begin: int, file: str) -> tuple[range, range]:
    """Return the lines of the system prompt and of the template."""
    headings = {line.strip(): at for at, line in reversed([*enumerate(lines)][begin:])}
    system, user = headings.get(_SYSTEM), headings.get(_USER)
    before = [line for line in lines[begin : system or len(lines)] if line.strip()]
    if system is None or before:
        fix = f"Write the heading '{_SYSTEM}' and the instructions below it"
        raise AgentFileError(file, "the system prompt is missing", fix, begin + 1)
    if user is not None and user < system:
        raise AgentFileError(file, "the template stands first", f"Move '{_SYSTEM}' up", user + 1)
    prompt = range(system + 1, user if user is not None else len(lines))
    if not _join(lines, prompt):
        raise AgentFileError(file, "the system prompt is empty", "Write it", system + 1)
    return prompt, range(user + 1 if user is not None else len(lines), len(lines))


def _join(lines: list[str], part: range) -> str:
    return "\n".join(lines[part.start : part.stop]).strip()


def _check_variables(lines: list[str], part: range, known: tuple[str, ...], file: str) -> None:
    for at in part:
        for match in _VARIABLE.finditer(lines[at]):
            if match[1] not in known:
                fix = f"Add it to `variables`, or use one of: {', '.join(known)}"
                problem = f"there is no variable {match[1]!r}"
                raise AgentFileError(file, problem, fix, at + 1)
