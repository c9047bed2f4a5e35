"""What endpoints refused, and what is sent to them instead, as far as this process knows.

One memory for three kinds of refusal: of replies that are streamed, of the form of a request
(`codecs.refused_forms`), and of output modes (`output.output_modes`). A refusal is remembered after the
next form has succeeded, and it is forgotten only when the memory is full. This module must never decide what a
refusal asks for, and saves nothing.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Final, TypeAlias

from holdfast.codecs.refused_forms import names_stream
from holdfast.core.errors import ErrorInfo

Subject: TypeAlias = tuple[str, ...]
"""What was refused: ("stream",), a field of the profile such as ("system_role",), or ("output_mode", mode,
digest of the schema)."""

Learnt: TypeAlias = Mapping[Subject, str]
"""For each subject, what is sent instead; "" leaves it out."""

STREAM: Final[Subject] = ("stream",)
_NOTHING: Final[Learnt] = MappingProxyType({})
_MOST_SUBJECTS: Final = 256


class Refusals:
    """Remembers refusals by account and model; safe to use from any thread.

    Args:
        most: how many models are remembered; the one that was learnt about least recently goes first.

    >>> refusals = Refusals()
    >>> refusals.learn("account", "m", {STREAM: ""})
    >>> refusals.find("account", "m"), refusals.find("account", "n")
    (mappingproxy({('stream',): ''}), mappingproxy({}))
    """

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], Learnt] = OrderedDict()
        self._lock = Lock()

    def find(self, account: str, model: str) -> Learnt:
        """Return what is known of a model; the same object until more is learnt."""
        return self._known.get((account, model), _NOTHING)

    def learn(self, account: str, model: str, forms: Learnt) -> None:
        """Remember what is sent instead of what was refused.

        Args:
            account: the account of the model.
            model: the model's name on the wire.
            forms: for each subject the form that succeeded.
        """
        place = (account, model)
        with self._lock:
            known = {**self._known.get(place, _NOTHING)}
            for subject, form in forms.items():
                known.pop(subject, None)
                known[subject] = form
            for oldest in list(known)[: max(len(known) - _MOST_SUBJECTS, 0)]:
                del known[oldest]
            # Replaced as a whole, so that a reader needs no lock.
            self._known[place] = MappingProxyType(known)
            self._known.move_to_end(place)
            if len(self._known) > self._most:
                self._known.popitem(last=False)


REFUSALS: Final = Refusals()
"""What the endpoints of this process refused."""


def describe_learnt(learnt: Learnt) -> str:
    """Describe what is sent instead of what was refused, for `Agent.describe()`.

    >>> describe_learnt({("system_role",): "system", STREAM: ""})
    'system_role=system, no stream'
    """
    return ", ".join(_describe_forms(learnt))


def _describe_forms(learnt: Learnt) -> Iterator[str]:
    for (name, *details), form in learnt.items():
        if details:
            yield f"{name}={form} and not {details[0]} for the schema {details[-1][:8]}"
        elif form == name:
            yield name
        else:
            yield f"{name}={form}" if form else f"no {name}"


_STATUSES: Final = frozenset({400, 405, 422, 501})


def is_stream_refusal(info: ErrorInfo, body: bytes = b"") -> bool:
    """Whether an error may be about streaming, so that the request is worth sending without it.

    Args:
        info: the error.
        body: the body of the request, whose words an error may quote.

    >>> import msgspec
    >>> from holdfast.core.errors import ErrorCategory
    >>> refused = ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe="", status=400)
    >>> is_stream_refusal(msgspec.structs.replace(refused, private="Verify your organization to stream this model"))
    True
    >>> is_stream_refusal(msgspec.structs.replace(refused, private="upstream failed"))
    False
    """
    return info.status in _STATUSES and names_stream(info.private, body)


_LOADING = re.compile(
    r"\bloading (?:the )?model|model .{0,200}\bis (?:currently )?loading", re.IGNORECASE
)


def is_loading_model(info: ErrorInfo) -> bool:
    """Whether a server answers that it still loads its model.

    >>> import msgspec
    >>> from holdfast.core.errors import ErrorCategory
    >>> busy = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="", status=503)
    >>> is_loading_model(msgspec.structs.replace(busy, private='{"error": {"message": "Loading model"}}'))
    True
    >>> is_loading_model(msgspec.structs.replace(busy, private="overloaded"))
    False
    """
    return info.status == 503 and _LOADING.search(info.private) is not None
