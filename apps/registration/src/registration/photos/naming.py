"""Names of objects and addresses of photos.

The name of a player is part of the name of a finished photo, and so that name is never part of an
address: an address names the registration. This module must never touch a file.
"""

from __future__ import annotations

import hmac
import re
import unicodedata
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode

from registration.settings import Settings
from registration.store.registrations import Registration
from registration.store.secrets import derive_token

UPLOADS: Final = "uploads"
PHOTOS: Final = "photos"
ADDRESS_SECONDS: Final = 300.0
_OTHER: Final = re.compile(r"[^\w-]+")
_MOST_BYTES: Final = 120


def name_photo(registration: Registration) -> str:
    """Return the stem of the name of a finished photo: the player, the team and the age group."""
    player = f"{registration.player_first} {registration.player_last}"
    words = f"{player}_{registration.team}_{registration.age_group}"
    plain = _OTHER.sub("_", unicodedata.normalize("NFC", words)).strip("_")
    return plain.encode()[:_MOST_BYTES].decode(errors="ignore") or "player"


def make_job_id(session: str, message: str) -> str:
    """Return the id of the job for a message of a session: the same one for the same message."""
    return sha256(f"{len(session)}:{session}{message}".encode()).hexdigest()[:32]


def sign_photo(settings: Settings, registration: str, now: float) -> str:
    """Return the address of the photo of a registration, for the office, for five minutes.

    Args:
        settings: the secret.
        registration: the id of the registration.
        now: seconds since 1970.
    """
    expires = int(now + ADDRESS_SECONDS)
    query = urlencode({"expires": expires, "signature": _sign(settings, registration, expires)})
    return f"/photos/{registration}?{query}"


def is_signed(
    settings: Settings, registration: str, expires: str, signature: str, now: float
) -> bool:
    """Return whether an address was made by `sign_photo`, and its time is not over."""
    if not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
        return False
    wanted = _sign(settings, registration, int(expires))
    is_ours = hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), wanted.encode())
    return is_ours and now < int(expires)


def _sign(settings: Settings, registration: str, expires: int) -> str:
    key = settings.link_secret.reveal().encode()
    return derive_token(key, "photo", registration, str(expires))
