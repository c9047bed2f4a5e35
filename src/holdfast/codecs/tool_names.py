"""The rules of each wire for the names of tools, and a name that fits for one that a model made up.

Servers check the names of the calls in a history as they check those of declared tools. One made-up
name, such as `browser.tabs.open`, would make them refuse every later request of its session. This
module must never change a name that the wire accepts, and a name that it makes up must never be the
name of a tool: it has a form that no declared tool may have, and a digest of the original.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from holdfast.core.errors import ConfigurationError


class NameRule(Struct, frozen=True):
    """The names that a wire accepts.

    Args:
        pattern: matches a whole name.
        vendor: the wire's name in messages.
        fix: the characters that a name may have.
    """

    pattern: re.Pattern[str]
    vendor: str
    fix: str


_OPENAI_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OPENAI_FIX = "use letters, digits, _ and -, 1 to 64 of them"

NAME_RULES: Final = {
    "openai_chat": NameRule(_OPENAI_PATTERN, "Chat Completions", _OPENAI_FIX),
    "openai_responses": NameRule(_OPENAI_PATTERN, "Responses", _OPENAI_FIX),
    "anthropic": NameRule(
        re.compile(r"[A-Za-z0-9_-]{1,128}"),
        "Anthropic",
        "use letters, digits, _ and -, 1 to 128 of them",
    ),
    "gemini": NameRule(
        re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
        "Gemini",
        "begin with a letter or _, then use letters, digits and _ . : -, at most 64 in all",
    ),
}
"""The rule of each wire, by the name of the wire."""

_MARK = "__no_tool_"
_RESERVED = re.compile(_MARK + r"[0-9a-f]{16}\Z")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_STEM = 32  # every wire accepts it together with the mark and the digest


def check_tool_name(argument: str, name: str, wire: str) -> None:
    """Check the name of a tool or an output that a request declares.

    Args:
        argument: the argument that an error names.
        name: the name.
        wire: the name of the wire.

    Raises:
        ConfigurationError: the wire does not accept it, or it has the form of a made-up name.
    """
    rule = NAME_RULES[wire]
    if not rule.pattern.fullmatch(name):
        raise ConfigurationError(
            argument, f"{name[:80]!r} is not a valid name on the {rule.vendor} wire", fix=rule.fix
        )
    if _RESERVED.search(name):
        raise ConfigurationError(
            argument,
            f"{name[:80]!r} has the form of a name that stands for one that is not a tool's",
            fix=f"leave out {_MARK!r}",
        )


def to_wire_name(name: str, wire: str) -> str:
    """Return the name of a call or a result as a wire accepts it: the name itself if possible.

    The result depends on the arguments alone, so that a history has the same bytes in every request.

    Args:
        name: the name as the model wrote it.
        wire: the name of the wire.

    >>> to_wire_name("open_tab", "openai_chat")
    'open_tab'
    >>> to_wire_name("browser.tabs.open", "openai_chat")
    'browser_tabs_open__no_tool_bae6ef9ec75b2f71'
    >>> to_wire_name("browser.tabs.open", "gemini")
    'browser.tabs.open'
    """
    if NAME_RULES[wire].pattern.fullmatch(name) and not _RESERVED.search(name):
        return name
    stem = _STRANGE.sub("_", name.partition(_MARK)[0])[:_LONGEST_STEM] or "unnamed"
    if not (stem[0].isalpha() or stem[0] == "_"):
        stem = "_" + stem
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{stem}{_MARK}{digest}"
