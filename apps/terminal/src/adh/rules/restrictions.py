"""Restrictions of a rule: bounds on paths, sizes, addresses, rates, times and parameters.

They must never let a call run that they cannot judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase

from msgspec import Struct

from adh.rules.addresses import find_address_problem
from adh.rules.patterns import match_path
from adh.rules.subject import Subject

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Moment(Struct, frozen=True):
    """When a call is judged, and the calls before it.

    Args:
        at: the local time, with its zone.
        recent: by the name of a rule ("category.name"), how many seconds ago each earlier call was
            that this rule decided.
        safety: False when the person switched safety off for the session.
    """

    at: datetime
    recent: Callable[[str], Sequence[float]]
    safety: bool = True


class PathPattern(Struct, frozen=True, tag="path_pattern"):
    """Paths must fit one of `allow`, if there are any, and none of `deny`."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return it in words."""
        words = [f"only {', '.join(self.allow)}"] if self.allow else []
        words += [f"not {', '.join(self.deny)}"] if self.deny else []
        return "; ".join(words)

    def find_problem(self, subject: Subject, moment: Moment, rule: str) -> str:
        """Return why the call breaks it; empty if it does not."""
        del moment, rule
        if subject.path is None:
            return ""
        path, facts = subject.path.path, subject.facts
        for pattern in self.deny:
            for form in subject.list_path_forms(strict=True):
                if match_path(pattern, form, facts.project, facts.home):
                    return f'{form} fits the denied pattern "{pattern}"'
        fits = any(match_path(one, path, facts.project, facts.home) for one in self.allow)
        return "" if fits or not self.allow else f"{path} fits none of: {', '.join(self.allow)}"


class SizeLimit(Struct, frozen=True, tag="size_limit"):
    """The arguments, and any size that they ask for, are at most so many bytes."""

    most: int

    def describe(self) -> str:
        """Return it in words."""
        return f"at most {self.most:,} bytes"

    def find_problem(self, subject: Subject, moment: Moment, rule: str) -> str:
        """Return why the call breaks it; empty if it does not."""
        del moment, rule
        if subject.scope != "call":
            return ""
        for name, value in subject.facts.arguments.items():
            if name.casefold().endswith("bytes") and isinstance(value, int | float):
                size = value
            else:
                size = sum(len(text.encode("utf-8", "replace")) for text in list_texts(value))
            if not size <= self.most:
                return f"{name} has {size:,} bytes, more than {self.most:,}"
        return ""


class UrlScheme(Struct, frozen=True, tag="url_scheme"):
    """Addresses have one of these schemes and are public, but for the private hosts named."""

    schemes: tuple[str, ...]
    private: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return it in words."""
        private = f", and the private hosts {', '.join(self.private)}" if self.private else ""
        return f"only public addresses with {', '.join(self.schemes)}{private}"

    def find_problem(self, subject: Subject, moment: Moment, rule: str) -> str:
        """Return why the call breaks it; empty if it does not."""
        del moment, rule
        found = (find_address_problem(url, self.schemes, self.private) for url in subject.urls)
        return next((problem for problem in found if problem), "")


class RateLimit(Struct, frozen=True, tag="rate_limit"):
    """At most so many calls that the rule decides within a number of seconds."""

    calls: int
    seconds: int

    def describe(self) -> str:
        """Return it in words."""
        return f"at most {self.calls} calls in {self.seconds} s"

    def find_problem(self, subject: Subject, moment: Moment, rule: str) -> str:
        """Return why the call breaks it; empty if it does not."""
        del subject
        # A clock that was set back makes earlier calls lie in the future: they count.
        count = sum(1 for ago in moment.recent(rule) if ago < self.seconds)
        if count < self.calls:
            return ""
        return f"{count} calls in the last {self.seconds} s; at most {self.calls} are allowed"


class TimeWindow(Struct, frozen=True, tag="time_window"):
    """Calls run between two times of the person's wall clock, on days that the window begins on.

    A window whose end is not after its beginning ends on the next day. An hour that a change of the
    clock repeats counts twice, and one that it leaves out never comes.
    """

    begins: time
    ends: time
    days: tuple[str, ...] = DAYS

    def describe(self) -> str:
        """Return it in words."""
        days = "" if len(self.days) == len(DAYS) else f" on {', '.join(self.days)}"
        return f"only from {self.begins:%H:%M} to {self.ends:%H:%M}{days}"

    def find_problem(self, subject: Subject, moment: Moment, rule: str) -> str:
        """Return why the call breaks it; empty if it does not."""
        del subject, rule
        now = moment.at.time()
        today = DAYS[moment.at.weekday()]
        yesterday = DAYS[(moment.at - timedelta(days=1)).weekday()]
        if self.begins < self.ends:
            is_open = today in self.days and self.begins <= now < self.ends
        else:
            evening = today in self.days and now >= self.begins
            is_open = evening or (yesterday in self.days and now < self.ends)
        return "" if is_open else f"it is {today} {now:%H:%M}: {self.describe()}"


class ParameterFilter(Struct, frozen=True, tag="parameter_filter"):
    """Values of named parameters must fit `allow`, if it names them, and nothing in `deny`."""

    allow: Mapping[str, tuple[str, ...]] = {}
    deny: Mapping[str, tuple[str, ...]] = {}

    def describe(self) -> str:
        """Return it in words."""
        words = [f"{name} only {', '.join(patterns)}" for name, patterns in self.allow.items()]
        words += [f"{name} not {', '.join(patterns)}" for name, patterns in self.deny.items()]
        return "; ".join(words)

    def find_problem(self, subject: Subject, moment: Moment, rule: str) -> str:
        """Return why the call breaks it; empty if it does not."""
        del moment, rule
        if subject.scope != "call":
            return ""
        arguments = subject.facts.arguments
        for name, patterns in self.deny.items():
            for text in list_texts(arguments.get(name)):
                if _fits_any(text, patterns):
                    return f"{name} fits a denied pattern"
        for name, patterns in self.allow.items():
            texts = list(list_texts(arguments.get(name)))
            if any(not _fits_any(text, patterns) for text in texts):
                return f"{name} fits none of: {', '.join(patterns)}"
        return ""


Restriction = PathPattern | SizeLimit | UrlScheme | RateLimit | TimeWindow | ParameterFilter
RESTRICTIONS = (
    "path_pattern",
    "size_limit",
    "url_scheme",
    "rate_limit",
    "time_window",
    "parameter_filter",
)


def name_restriction(restriction: Restriction) -> str:
    """Return the name that files have for it.

    >>> name_restriction(SizeLimit(10))
    'size_limit'
    """
    return str(restriction.__struct_config__.tag)


def list_texts(value: object) -> Iterator[str]:
    """Yield every text in a value: those of keys, lists and numbers included.

    >>> list(list_texts({"a": ["b", 1, None]}))
    ['a', 'b', '1']
    """
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, Mapping):
            for key, inner in reversed(list(found.items())):
                waiting += [inner, key]
        elif isinstance(found, list | tuple | set | frozenset):
            waiting += reversed(list(found))
        elif found is not None:
            yield str(found)


def _fits_any(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text.casefold(), pattern.casefold()) for pattern in patterns)
