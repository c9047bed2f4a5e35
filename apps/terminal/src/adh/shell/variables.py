"""The variables that a line may set without changing how programs work, as data.

Names that are not listed are not safe: many programs read options, paths and commands from variables.
"""

from __future__ import annotations

import re

SAFE_NAMES = frozenset(
    [
        "CI",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLORTERM",
        "COLUMNS",
        "DEBUG",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LINES",
        "MAKELEVEL",
        "NODE_ENV",
        "NO_COLOR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
        "PYTHONWARNINGS_OFF",
        "RAILS_ENV",
        "REPLY",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "TERM",
        "TZ",
        "VERBOSE",
    ]
)
SAFE_PREFIXES = ("LC_",)
UNSAFE_LOWER_CASE = frozenset(
    ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "histchars", "auto_resume"]
)
UNSAFE_LOWER_CASE_PREFIXES = ("npm_", "yarn_", "pnpm_", "bash_")
# In other encodings the second byte of a letter may be that of a backslash or a backquote.
LOCALES = re.compile(r"(?:C|POSIX|(?:C|[A-Za-z]+_[A-Za-z]+)\.(?:utf8|UTF-8|utf-8))?")


def is_safe_variable(name: str) -> bool:
    """Whether setting the variable changes no program: names in lower case are the line's own.

    >>> is_safe_variable("count"), is_safe_variable("LD_PRELOAD")
    (True, False)
    """
    if not name.isascii() or not name.isidentifier():
        return False
    if name.islower():
        return name not in UNSAFE_LOWER_CASE and not name.startswith(UNSAFE_LOWER_CASE_PREFIXES)
    return name in SAFE_NAMES or name.startswith(SAFE_PREFIXES)


def is_safe_value(name: str, value: str | None) -> bool:
    """Whether a value of a safe variable changes no program: a locale must be UTF-8 or plain.

    Args:
        name: the name of the variable.
        value: its value; None if it is known only at run time.

    >>> is_safe_value("LC_ALL", "C.UTF-8"), is_safe_value("LC_ALL", "zh_CN.GBK")
    (True, False)
    """
    if name != "LANG" and not name.startswith("LC_"):
        return True
    return value is not None and LOCALES.fullmatch(value) is not None
