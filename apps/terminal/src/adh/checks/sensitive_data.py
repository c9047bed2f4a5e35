"""Finds keys, tokens, passwords and card numbers in text.

It must never return a secret: only its kind. It looks for forms that are rarely anything else,
as a check that fails blocks the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_TOKENS: tuple[tuple[str, str], ...] = (
    ("a private key", r"-----BEGIN (?:[A-Z]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("an AWS access key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,64}"),
    ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    ("a Google API key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("an API key", r"\bsk-(?:ant-|proj-|or-)?(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{20,255}"),
    ("a Stripe key", r"\b[rs]k_live_[A-Za-z0-9]{16,255}"),
    ("an npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a PyPI token", r"\bpypi-[A-Za-z0-9_-]{32,255}"),
    (
        "a signed token",
        r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,}",
    ),
    ("a bearer token", r"(?i)\bauthorization\W{1,5}bearer\s{1,4}[A-Za-z0-9._~+/-]{20,}"),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _TOKENS)

_PASSWORD_NAME = r"(?:password|passwd|passphrase|secret|api_?key|access_?key|auth_?token)"  # noqa: S105  # REASON: a pattern
_PASSWORD = re.compile(
    rf"(?i)\b[\w-]{{0,40}}{_PASSWORD_NAME}[\w-]{{0,20}}[\"']?\s{{0,4}}(?::=|=|:)\s{{0,4}}"
    r"(?P<quote>[\"'])(?P<value>[^\"'\s]{8,200})(?P=quote)"
)
_PASSWORD_IN_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:(?P<value>[^\s/@]{4,128})@")
_PLACEHOLDER = re.compile(
    r"(?i)[<>{}$%*]|\.\.\.|xxx|example|placeholder|change[_-]?me|dummy|fake|your[_-]|redacted|password"
)

# The first digits of the large card networks, and their lengths.
_CARD = re.compile(
    r"(?<![\w.+-])(?:4|5[1-5]|2[2-7]|3[47]|6(?:011|5))(?:[ -]?\d){12,17}(?![\w.]?\d|\w)"
)


def find_sensitive_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of sensitive data in a text, each once, in words such as "a private key".

    >>> find_sensitive_kinds("card 4111 1111 1111 1111, order 4111 1111 1111 1112")
    ('a card number',)
    >>> find_sensitive_kinds("password = os.environ['PASSWORD']")
    ()
    """
    kinds = [kind for kind, pattern in _PATTERNS if pattern.search(text)]
    if any(_is_password(match) for match in _PASSWORD.finditer(text)) or any(
        not _PLACEHOLDER.search(match["value"]) for match in _PASSWORD_IN_URL.finditer(text)
    ):
        kinds.append("a password")
    if any(has_luhn_digit(match[0]) for match in _CARD.finditer(text)):
        kinds.append("a card number")
    return tuple(kinds)


def _is_password(match: re.Match[str]) -> bool:
    """Whether the value looks like a real one: letters with digits or signs, and no placeholder."""
    value = match["value"]
    mixed = any(char.isalpha() for char in value) and not value.replace("_", "").isalpha()
    return mixed and not _PLACEHOLDER.search(value)


def has_luhn_digit(number: str) -> bool:
    """Whether the last digit of a number is its Luhn digit, as that of a card is.

    >>> has_luhn_digit("4111-1111-1111-1111"), has_luhn_digit("4111111111111112")
    (True, False)
    """
    digits = [int(char) for char in reversed(number) if "0" <= char <= "9"]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return bool(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def list_texts(arguments: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield every text of the arguments with the name of its argument, however deep it lies.

    >>> list(list_texts({"headers": {"a": ["b"]}}))
    [('headers', 'a'), ('headers', 'b')]
    """
    for name, value in arguments.items():
        yield from ((name, text) for text in _texts_of(value))


def _texts_of(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting.extend(reversed([part for pair in item.items() for part in pair]))
        elif isinstance(item, list | tuple):
            waiting.extend(reversed(item))
