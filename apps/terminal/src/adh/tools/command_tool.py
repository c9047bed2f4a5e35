"""The tool execute_command.

It must never run a line in another shell than bash: the rules judged it as bash reads it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated

from msgspec import Meta

from adh.shell.plain_words import make_bash_line, split_plain_words
from adh.storage.call_context import CallContext
from adh.storage.path_steps import open_folder, open_parent
from adh.tools.command_environment import make_environment
from adh.tools.command_runner import Command, CommandEnd, find_shell, run_command
from adh.tools.failure_words import raise_as_tool_error
from adh.tools.judged_paths import find_approval, find_judged_path
from adh.tools.live_output import LiveOutput
from adh.tools.safe_git import make_git_environment, only_reads_with_git
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
        context: what the tools work with.
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
            with raise_as_tool_error("command"), running.note(mark) if running else nullcontext():
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
