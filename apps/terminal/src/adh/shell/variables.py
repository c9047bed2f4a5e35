"""Which variables a line may set without changing what programs do, as data.

Names that are not listed are not safe: many programs read options, paths and commands from variables.
"""

from __future__ import annotations

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
UNSAFE_LOWER_CASE = frozenset(["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"])


def is_safe_variable(name: str) -> bool:
    """Whether setting the variable changes no program: names in lower case are the line's own.

    >>> is_safe_variable("count"), is_safe_variable("LD_PRELOAD")
    (True, False)
    """
    if not name.isascii() or not name.isidentifier():
        return False
    if name.islower():
        return name not in UNSAFE_LOWER_CASE
    return name in SAFE_NAMES or name.startswith(SAFE_PREFIXES)
