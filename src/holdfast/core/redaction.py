"""Removes secrets from text. Every text that is made from an exception passes through here.

Redaction is the second line of defence. The first is that the text of an exception is shown only
where a setting asks for it. This module cannot find *every* secret. It must never make a text longer
than its input by more than the marks.
"""

from __future__ import annotations

import re
from functools import cache

MARK = "[redacted]"

_NAMES = (
    r"password|passwd|passphrase|pwd|secret|token|api[ _-]?key|access[_-]?key|account[_-]?key|"
    r"private[_-]?key|shared[_-]?access[_-]?(?:key|signature)|credential"
)
_ENDS_WORD = r"(?=[\s,;)}\]]|[.!?](?:\s|\Z)|\Z)"
_NO_VALUE = (
    r"(?:not|no|none|null|nil|true|false|empty|unset|set|missing|required|needed|optional|absent|"
    r"present|invalid|valid|wrong|incorrect|correct|malformed|unknown|unsupported|expired|revoked|"
    r"disabled|enabled|rejected|denied|too|an?|the|only|also|already|still|never|always|being|used)"
    rf"{_ENDS_WORD}"
)
"""The words for a secret instead of its value, as in "the password is required"."""
_NO_CREDENTIALS = (
    r"(?:auth|authentication|authorization|access|challenge|credentials?|header|information|"
    r"mismatch|realm|required|scheme|tokens?|usage|example|question|check|checks)"
    rf"{_ENDS_WORD}"
)
"""Words that follow "bearer", "basic" or "digest" where these are ordinary words."""
_COUNT_NAME = r"(?:tokens|tokens?[ _-](?:count|limit|budget|usage|total|length|size))"
"""The end of a name that counts tokens of a model. A number behind it is no secret."""
_NUMBER = r"\d{1,9}(?![\w.-])"
_ASSIGNED = r"\\{0,8}[\"']?\s{0,9}(?:=>|=|:|->|→|\bis\b)\s{0,9}"
_QUOTED = (
    r"(?>(?P<{0}>\"\"\"|'''|\\{{1,8}}[\"'`]).*?(?:(?P={0})|\Z)"
    r"|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?)"
)
_VALUE = (
    # A value that was redacted before; one or several in quotes; words that are joined by commas.
    r"(?:\[redacted\]"
    rf"|\[?{_QUOTED.format('first')}"
    rf"(?:\s{{0,3}},\s{{0,3}}{_QUOTED.format('more')}(?!\s{{0,3}}[:=]))*"
    r"|[^\s,;&})\]]+(?:,[^\s,;&})\]]+)*)"
)

_PATTERNS: tuple[tuple[str, str], ...] = (
    # A private key, complete or cut.
    (
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        MARK,
    ),
    # user:password@ in an address; the password may hold '/' and '@'.
    (
        (
            r"(?<=://)(?:[^/\s:@\"'<>]{0,256}:(?!\d{1,5}(?:[/?#]|$))[^\s\"'<>]{1,256}"
            r"|[^/\s:@\"'<>]{16,256})@"
        ),
        MARK + "@",
    ),
    # Authorization with any scheme, and the parameters that follow.
    (
        (
            rf"(?i)(authorization{_ASSIGNED}\\{{0,8}}[\"']?)"
            r"(?:[a-z][\w-]{0,30}\s{1,9})?[^\s,;\"'\\]+"
            r"(?:\s{0,9},\s{0,9}[\w-]{1,40}=(?:\"[^\"]*\"?|[^\s,\"']+))*"
        ),
        r"\1" + MARK,
    ),
    # Bearer xyz, Basic xyz.
    (
        rf"(?i)\b(bearer|basic|digest)\s+(?!{_NO_CREDENTIALS})[A-Za-z0-9._~+/=-]{{6,}}",
        r"\1 " + MARK,
    ),
    # ?key=value and &sig=value in an address.
    (
        (
            r"(?i)([?&](?:key|sig|signature|auth|code|pass|x-amz-signature|x-goog-signature)=)"
            r"[^&\s\"'#<>]+"
        ),
        r"\1" + MARK,
    ),
    # --password value, --api-key=value.
    (
        (
            rf"(?is)(?<![\w-])(?!--?[\w-]{{0,30}}?{_COUNT_NAME}\s{{1,9}}{_NUMBER})"
            rf"(--?[a-z]?[\w-]{{0,30}}?(?:{_NAMES})[\w-]{{0,20}}\s{{1,9}}){_VALUE}"
        ),
        r"\1" + MARK,
    ),
    # name=value, name: value, "name": "value", for names that say that the value is secret.
    (
        (
            rf"(?is)(?!{_COUNT_NAME}{_ASSIGNED}{_NUMBER})"
            rf"((?:{_NAMES}|cookie|session[_-]?id)(?:[\w-]{{0,40}}|\s{{1,3}}provided)"
            rf"{_ASSIGNED})(?!{_NO_VALUE}){_VALUE}"
        ),
        r"\1" + MARK,
    ),
    # Keys that have a known form; "key-management-service" is words.
    (
        (
            r"\b(?!(?:key|pk|hf)(?:[-_][a-z]{1,14}){2,}(?![A-Za-z0-9_-]))"
            r"(?:sk|pk|rk|gsk|xai|key|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|hf|r8|pplx)"
            r"[-_][A-Za-z0-9_-]{8,}"
        ),
        MARK,
    ),
    (r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b", MARK),
    (r"\bAIza[A-Za-z0-9_-]{20,}", MARK),
    (r"\bya29\.[A-Za-z0-9._-]{10,}", MARK),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?", MARK),
)

_LONGEST_TEXT = 20_000
CUT = " [cut]"
"""The end of a text that was shortened."""


@cache
def _compile_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compile the patterns, at their first use: most processes never see an error."""
    return tuple((re.compile(pattern), replacement) for pattern, replacement in _PATTERNS)


def shorten(text: str) -> str:
    """Return the first 20,000 characters of `text`, with `[cut]` at the end of a longer one."""
    return text if len(text) <= _LONGEST_TEXT + len(CUT) else text[:_LONGEST_TEXT] + CUT


def redact(text: str) -> str:
    """Return `text` with secrets replaced by a mark.

    A text is cut to 20,000 characters first, so that a hostile text takes bounded time.

    >>> redact("login failed: password=hunter2, retry")
    'login failed: password=[redacted], retry'
    >>> redact("GET https://bob:pw@example.org/ with Bearer abcdef123456")
    'GET https://[redacted]@example.org/ with Bearer [redacted]'
    """
    text = shorten(text)
    for pattern, replacement in _compile_patterns():
        text = pattern.sub(replacement, text)
    return text


_RANDOM = (
    r"(?i)(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}|[A-Za-z0-9]{30,}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def quote_setting(text: str) -> str:
    """Return `text` in quotes for an error about a setting; without it, if it may be a key.

    A key is often written into the wrong setting, and no form tells it from a name.

    >>> quote_setting("openrooter")
    "'openrooter'"
    >>> quote_setting("8f7a6b5c4d3e2f1a8f7a6b5c4d3e2f1a")
    'a text of 32 characters that may be a key'
    """
    if redact(text) != text or re.search(_RANDOM, text):
        return f"a text of {len(text)} characters that may be a key"
    return f"{text!r:.80}"
