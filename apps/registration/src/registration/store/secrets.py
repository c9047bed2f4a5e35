"""Secrets are stored as hashes; links are made again from a key and never stored."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256


def hash_secret(secret: str) -> str:
    """Return the stored form of a random token. It needs no salt, because nobody can guess one."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_same_secret(secret: str, stored: str) -> bool:
    """Whether a token is the one whose hash is stored; takes equally long for each wrong one."""
    return hmac.compare_digest(hash_secret(secret), stored)


def derive_token(key: bytes, *parts: str) -> str:
    """Return the token of these parts: always the same, and not guessable without the key.

    Args:
        key: a secret of the installation, at least 16 bytes.
        parts: the purpose of the token, for example `"link"` and the registration's id.
    """
    if len(key) < 16:
        raise ValueError("the key must have at least 16 bytes")
    # The length before each part: ("ab", "c") and ("a", "bc") are different.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hmac.digest(key, text.encode("utf-8", "surrogatepass"), sha256)
    return urlsafe_b64encode(digest[:18]).decode()
