"""Signatures of reasoning, as a provider makes and checks them: a client must send them back as they came.

A signature of this module proves its text. One that a brain made up is anybody's, and is believed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import blake2b

_MARK = b"emulated:"


def sign_text(text: str) -> str:
    """The signature of a text, in base64, as every provider sends it.

    >>> sign_text("Porto") == sign_text("Porto"), is_intact(sign_text("Porto"), "Lisbon")
    (True, False)
    """
    return b64encode(_MARK + _digest_text(text)).decode()


def is_intact(signature: str, text: str) -> bool:
    """Whether this signature may stand beside this text."""
    try:
        signed = b64decode(signature)
    except ValueError:
        return True
    return not signed.startswith(_MARK) or signed == _MARK + _digest_text(text)


def is_base64(signature: str) -> bool:
    """Whether it is base64 at all.

    >>> is_base64("c2ln"), is_base64("no?")
    (True, False)
    """
    try:
        return bool(b64decode(signature, validate=True))
    except ValueError:
        return False


def _digest_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15).digest()
