"""Removes secrets from text. Every text that is made from an exception passes through here.

Redaction is the second line of defence. The first is that the text of an exception is shown only
where a setting asks for it. This module cannot find *every* secret. It must never make a text longer
than its input by more than the marks.
"""

from __future__ import annotations

import re

MARK = "[redacted]"

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A private key, complete or cut.
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        MARK,
    ),
    # user:password@ in an address.
    (re.compile(r"(?<=://)[^/\s:@]{1,256}:[^/\s@]{1,256}@"), MARK + "@"),
    # Authorization: Bearer xyz, Basic xyz.
    (re.compile(r"(?i)\b(bearer|basic|digest)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 " + MARK),
    # name=value, name: value, "name": "value", for names that say that the value is secret.
    (
        re.compile(
            r"(?i)((?:password|passwd|passphrase|pwd|secret|token|api[ _-]?key|"
            r"access[_-]?key|private[_-]?key|credential|authorization|cookie|session[_-]?id)"
            r"(?:[\w-]{0,40}|\s{1,3}provided)[\"']?\s{0,9}(?:=|:|=>|\bis\b)\s{0,9})"
            r"(\"[^\"]*\"?|'[^']*'?|[^\s,;&})\]]+)"
        ),
        r"\1" + MARK,
    ),
    # Keys that have a known form.
    (
        re.compile(
            r"\b(?:sk|pk|rk|gsk|xai|key|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|hf|r8|pplx)"
            r"[-_][A-Za-z0-9_-]{8,}"
        ),
        MARK,
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), MARK),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{20,}"), MARK),
    (re.compile(r"\bya29\.[A-Za-z0-9._-]{10,}"), MARK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"), MARK),
)

_LONGEST_TEXT = 20_000


def redact(text: str) -> str:
    """Return `text` with secrets replaced by a mark.

    A text is cut to 20,000 characters first, so that a hostile text takes bounded time.

    >>> redact("login failed: password=hunter2, retry")
    'login failed: password=[redacted], retry'
    >>> redact("GET https://bob:pw@example.org/ with Bearer abcdef123456")
    'GET https://[redacted]@example.org/ with Bearer [redacted]'
    """
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + " [cut]"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
