"""Finds in a bash command line every program that would run, and every file that it would touch.

Everything that is not understood for certain is a problem, which a person must judge. It must never run a
command, read a file or the environment, or guess.
"""

from adh.shell.command_line import parse_command_line
from adh.shell.git_forms import (
    SAFE_GIT_ENVIRONMENT,
    is_read_only_git,
    make_git_arguments,
    make_git_program,
)
from adh.shell.parsed_line import (
    Assignment,
    FolderStep,
    ParsedLine,
    Redirection,
    SimpleCommand,
    Word,
)
from adh.shell.uses import find_uses

__all__ = [
    "SAFE_GIT_ENVIRONMENT",
    "Assignment",
    "FolderStep",
    "ParsedLine",
    "Redirection",
    "SimpleCommand",
    "Word",
    "find_uses",
    "is_read_only_git",
    "make_git_arguments",
    "make_git_program",
    "parse_command_line",
]
