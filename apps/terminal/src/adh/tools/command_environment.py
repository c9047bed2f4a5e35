"""The environment of a command: that of the program, without secrets and without variables that change other programs.

It must never pass an API key or a token on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from adh.storage.api_keys import list_key_variables
from adh.storage.audit_log import names_secret
from adh.storage.search_path import list_program_folders

COMMAND_MARK = "ADH_COMMAND_ID"
"""The variable by which the processes of a command are recognized."""

_SHELL_VARIABLES = frozenset(
    {
        "BASHOPTS",
        "BASH_ENV",
        "BASH_LOADABLES_PATH",
        "BASH_XTRACEFD",
        "CDPATH",
        "ENV",
        "EXECIGNORE",
        "GLOBIGNORE",
        "IFS",
        "POSIXLY_CORRECT",
        "PROMPT_COMMAND",
        "PS4",
        "SHELLOPTS",
    }
)
"""Variables that change how bash reads a line."""
_OF_THE_SHELL = ("BASH_FUNC_",)
_FIXED = {
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
_SECRET_PARTS = ("CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET", "TOKEN")
_SECRET_ENDS = ("_APIKEY", "_KEY", "_PAT")


def make_environment(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command.

    Args:
        environ: the environment of the program.
        extra: variables that win over all others.

    >>> found = make_environment({"PATH": ".:/bin", "OPENAI_API_KEY": "k", "LANG": "C"}, {})
    >>> found["PATH"], found["LANG"], "OPENAI_API_KEY" in found
    ('/bin', 'C', False)
    """
    keys = frozenset(list_key_variables())
    kept = {
        name: value
        for name, value in environ.items()
        if name not in keys
        and name not in _SHELL_VARIABLES
        and not name.startswith(_OF_THE_SHELL)
        and not is_secret_variable(name)
    }
    kept["PATH"] = os.pathsep.join(list_program_folders(kept))
    return {**kept, **_FIXED, **extra}


def is_secret_variable(name: str) -> bool:
    """Whether a variable of this name holds a secret.

    >>> is_secret_variable("GITHUB_TOKEN"), is_secret_variable("HOME")
    (True, False)
    """
    upper = name.upper()
    return (
        any(part in upper for part in _SECRET_PARTS)
        or upper.endswith(_SECRET_ENDS)
        or names_secret(name)
    )
