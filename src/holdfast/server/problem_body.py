"""`ProblemBody`: the body of an `application/problem+json` response, which services send and clients read."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class ProblemBody(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a request was refused.

    Args:
        title: the name of the status.
        status: the status code.
        detail: the fault, in words.
        kind: the kind of the error, for programs, such as "configuration".
        field: the field that is wrong.
        fix: the way to correct it.
        retryable: whether the same request may succeed later.
        retry_after: seconds to wait before that.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    kind: str
    field: str | UnsetType = UNSET
    fix: str | UnsetType = UNSET
    retryable: bool
    retry_after: float | UnsetType = UNSET
