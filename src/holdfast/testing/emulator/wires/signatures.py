"""Makes and checks signatures of reasoning: a client must send them back unchanged.

A signature made by this module must match its text. Other signatures come from a script and are
accepted.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import blake2b

_MARK = b"emulated:"


def sign_text(text: str) -> str:
    """Make the signature of a text, in base64 as providers send it.

    >>> sign_text("Porto") == sign_text("Porto"), is_intact(sign_text("Porto"), "Lisbon")
    (True, False)
    """
    return b64encode(_MARK + _digest_text(text)).decode()


def is_intact(signature: str, text: str) -> bool:
    """Whether the signature matches the text, or comes from a script."""
    try:
        signed = b64decode(signature)
    except ValueError:
        return True
    return not signed.startswith(_MARK) or signed == _MARK + _digest_text(text)


def is_base64(signature: str) -> bool:
    """Whether a signature is valid base64.

    >>> is_base64("c2ln"), is_base64("no?")
    (True, False)
    """
    try:
        return bool(b64decode(signature, validate=True))
    except ValueError:
        return False


def _digest_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15).digest()
