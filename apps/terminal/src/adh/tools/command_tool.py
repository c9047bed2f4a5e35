"""The tool execute_command.

It must never run a line in another shell than bash: the rules judged it as bash reads it.

The rules let the read-only forms of git run unasked, and a hostile repository names programs in its settings. A
line whose uses of git are all such forms finds another `git` first in its search path, which adds options and
calls the real one. A line that does more with git is never changed: a person agreed to that as it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from adh.shell.command_line import parse_command_line
from adh.shell.git_forms import (
    SAFE_GIT_ENVIRONMENT,
    is_read_only_git,
    make_git_program,
)
from adh.shell.quoting import make_bash_line, split_plain_words
from adh.shell.uses import find_uses
from adh.storage.call_context import CallContext
from adh.storage.path_steps import open_folder, open_parent
from adh.storage.private_files import read_private_file, replace_private_file
from adh.tools.command_environment import make_environment
from adh.tools.command_runner import Command, CommandEnd, find_shell, run_command
from adh.tools.failure_words import raise_as_tool_error
from adh.tools.judged_paths import find_approval, find_judged_path
from adh.tools.live_output import LiveOutput
from adh.tools.tools_context import ToolsContext
from holdfast import tool
from holdfast.tools import ToolContext, ToolError

LONGEST_SECONDS = 3_600.0
"""The longest timeout of a command."""

_LONGEST_RESULT = 1_000_000
"""Characters: the bounded outputs always fit, as a result that is cut is no JSON."""

Seconds = Annotated[float, Meta(gt=0, le=LONGEST_SECONDS)]


class CommandTools:
    """The tool that runs commands.

    Args:
        context: the parts that the tools work with.
    """

    def __init__(self, context: ToolsContext) -> None:
        self._context = context

    def list_tools(self) -> tuple[Callable[..., object], ...]:
        """Return the tool."""
        return (self.execute_command,)

    # The command's own timeout comes first, and its processes are ended after it.
    @tool(effect="write", timeout=LONGEST_SECONDS + 60, result_limit=_LONGEST_RESULT)
    async def execute_command(
        self,
        context: ToolContext[CallContext],
        command: str,
        *,
        cwd: str | None = None,
        timeout: Seconds = 300.0,
        shell: bool = True,
    ) -> dict[str, object]:
        """Run a command to its end. It has no input, and what it leaves in the background is ended.

        Args:
            context: the call.
            command: the command line.
            cwd: the folder to run it in; the working folder by default.
            timeout: seconds until the command is ended, at most an hour.
            shell: whether bash reads the line; otherwise its words are run as they are.
        """
        words = _find_words(command, shell=shell)
        approval = find_approval(context)
        environ = make_environment(self._context.environ, approval.environment)
        folder, path = self._open_folder(context, cwd)
        mark = secrets.token_hex(16)
        running = self._context.running
        try:
            with raise_as_tool_error("command"), running.record(mark) if running else nullcontext():
                programs = self._context.programs
                line = make_bash_line(command, shell=shell)
                if programs is not None and only_reads_with_git(line, path, self._context.home):
                    environ = make_git_environment(environ, programs)
                end = await run_command(
                    Command(
                        words=(*approval.command_prefix, *words),
                        folder=folder,
                        folder_path=path,
                        environ=environ,
                        mark=mark,
                        timeout=timeout,
                    ),
                    LiveOutput(context.emit),
                )
        finally:
            os.close(folder)
        return _describe_end(end, timeout)

    def _open_folder(self, context: ToolContext[CallContext], cwd: str | None) -> tuple[int, str]:
        with raise_as_tool_error("cwd"):
            written = context.deps.folder if cwd is None else cwd
            path = find_judged_path(context, written, self._context.home)
            with open_parent(path) as (parent, name):
                return open_folder(parent, name, path), path


def _find_words(command: str, *, shell: bool) -> tuple[str, ...]:
    if "\0" in command or not command.strip():
        raise ToolError("ValueError: command is empty or holds a NUL character.")
    if shell:
        return (find_shell(), "--noprofile", "--norc", "-c", command)
    try:
        return split_plain_words(command)
    except ValueError as error:
        raise ToolError(f"ValueError: command {error}.") from None


def _describe_end(end: CommandEnd, timeout: float) -> dict[str, object]:
    described: dict[str, object] = {
        "success": end.return_code == 0,
        "stdout": end.stdout.read_text(),
        "stderr": end.stderr.read_text(),
        "return_code": end.return_code,
    }
    if end.return_code is None:
        described["error"] = f"the command did not end within {timeout:g} seconds and was ended"
    elif end.left:
        count = f"{end.left} process{'es' if end.left > 1 else ''}"
        described["note"] = f"{count} in the background ended with the command"
    return described


_MOST_BYTES = 100_000


def only_reads_with_git(command: str, folder: str, home: str) -> bool:
    """Whether a line uses git, and only in forms that read.

    Args:
        command: the command line.
        folder: its working folder, absolute and resolved.
        home: the person's home folder.

    >>> only_reads_with_git("git log | head", "/", "/"), only_reads_with_git("git push", "/", "/")
    (True, False)
    """
    line = parse_command_line(command)
    if line.problem:
        return False
    uses = [use for use in find_uses(line, folder, home, os.path.realpath) if "git" in use.program]
    return bool(uses) and all(is_read_only_git(use.argv) for use in uses)


def make_git_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of a command whose uses of git only read.

    Args:
        environ: the environment that it has otherwise.
        folder: where the program stands that calls git; it is written if it is not there.

    Raises:
        StorageError: the program cannot be written.
    """
    search_path = environ.get("PATH", "")
    program = shutil.which("git", path=search_path)
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    kept |= SAFE_GIT_ENVIRONMENT
    if program is not None:
        _write_program(folder / "git", program)
        kept["PATH"] = os.pathsep.join((str(folder), search_path))
    return kept


def _write_program(path: Path, program: str) -> None:
    content = make_git_program(program).encode()
    if read_private_file(path, _MOST_BYTES) != content:
        replace_private_file(path, content, mode=0o700)
