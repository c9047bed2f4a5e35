"""An index of descriptions, such as those of tools, which finds them by the words of a query.

The score of an entry is BM25 over several fields with weights. Words that may stand for each other count for
less than equal ones, and a word that no entry has stands for those that are spelled like it. How much of the query
and of a name is covered decides between entries that have the same words. Equal inputs give equal results: nothing
here may read a clock or dice, or depend on the order of a set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.core.word_forms import find_mood, find_related, is_light_verb, split_words


class IndexEntry(Struct, frozen=True):
    """What is known of one entry.

    Args:
        name: its name, such as `create_directory`.
        group: where it belongs, such as `filesystem`.
        text: its description; the first sentence counts for more.
        parameters: the names of its parameters, with their descriptions.
        reads: whether it reads and changes nothing; None if that is not known.
    """

    name: str
    group: str = ""
    text: str = ""
    parameters: Mapping[str, str] = {}
    reads: bool | None = None


class Found(Struct, frozen=True):
    """An entry that was found: its number in the index, and its score."""

    at: int
    score: float


class _Weights(Struct, frozen=True):
    """How much each field and each kind of match counts; found by measuring queries."""

    name: float = 4.0
    group: float = 1.0
    title: float = 4.0
    text: float = 0.1
    parameter: float = 0.2
    parameter_text: float = 0.1
    saturation: float = 3.0
    length: float = 0.4
    related: float = 0.8
    spelled: float = 0.5
    query_share: float = 0.3
    name_share: float = 3.0
    prefix: float = 0.4
    aside: float = 0.5
    light: float = 0.6
    other_mood: float = 0.5
    variety: float = 0.5


_WEIGHTS: Final = _Weights()
_LEAST_SHARE: Final = 0.2
_LEAST_LIKENESS: Final = 0.5
_MOST_WORDS: Final = 40
_MOST_COVERED: Final = 5
_FEW: Final = 4
_MOST_TEXT: Final = 4_000
_MOST_PARAMETERS: Final = 60


class WordIndex:
    """Entries, found by words.

    Args:
        entries: the entries.
        weights: how much each field and each kind of match counts.

    >>> index = WordIndex([IndexEntry("create_directory", text="Create a directory."), IndexEntry("read_file")])
    >>> [one.at for one in index.find("make a new folder")]
    [0]
    """

    __slots__ = (
        "_headed",
        "_lengths",
        "_mean",
        "_names",
        "_postings",
        "_prefixes",
        "_reads",
        "_weights",
    )

    def __init__(self, entries: Iterable[IndexEntry], weights: _Weights = _WEIGHTS) -> None:
        self._weights = weights
        self._postings: dict[str, dict[int, float]] = {}
        self._lengths: list[float] = []
        self._names: list[tuple[str, ...]] = []
        # How many names begin with a word, such as that of a service.
        self._prefixes: Counter[str] = Counter()
        self._reads: list[bool | None] = []
        self._headed: set[str] = set()
        for at, entry in enumerate(entries):
            self._add(at, entry)
        self._mean = sum(self._lengths) / len(self._lengths) if self._lengths else 1.0

    def _add(self, at: int, entry: IndexEntry) -> None:
        weights = self._weights
        name = split_words(entry.name, is_name=True)
        title, rest = _split_sentence(entry.text[:_MOST_TEXT])
        titled = split_words(title)
        self._headed.update(name, titled)
        fields = [
            (weights.name, name),
            (weights.group, split_words(entry.group, is_name=True)),
            (weights.title, titled),
            (weights.text, split_words(rest)),
        ]
        for parameter in list(entry.parameters)[:_MOST_PARAMETERS]:
            fields.append((weights.parameter, split_words(parameter, is_name=True)))
            text = entry.parameters[parameter][:_MOST_TEXT]
            fields.append((weights.parameter_text, split_words(text)))
        counts: Counter[str] = Counter()
        for weight, words in fields:
            for word in words:
                counts[word] += weight  # type: ignore[assignment]
        for word, count in counts.items():
            self._postings.setdefault(word, {})[at] = count
        self._lengths.append(sum(counts.values()))
        self._names.append(tuple(dict.fromkeys(name)))
        self._prefixes[name[0] if name else ""] += 1
        self._reads.append(entry.reads)

    def find(self, query: str, most: int = 5) -> list[Found]:
        """Return the entries that fit a query best, the best one first.

        Args:
            query: words; of a long query the first ones are read.
            most: the largest number of entries.
        """
        words = list(dict.fromkeys(split_words(query[:_MOST_TEXT])))[:_MOST_WORDS]
        terms = [term for word in words if (term := self._make_term(word))]
        # A long query, such as a whole message, has more words than any entry.
        whole = sum(sorted(term.weight for term in terms)[-_MOST_COVERED:])
        scores: dict[int, float] = {}
        shares: dict[int, float] = {}
        matched: dict[int, dict[str, float]] = {}
        for term in terms:
            for at, match in self._match(term).items():
                scores[at] = scores.get(at, 0.0) + match.score
                shares[at] = shares.get(at, 0.0) + term.weight * match.likeness
                known = matched.setdefault(at, {})
                for word, likeness in match.words.items():
                    known[word] = max(known.get(word, 0.0), likeness * term.factor)
        mood = find_mood(query)
        found = []
        for at, score in scores.items():
            share = min(1.0, shares[at] / whole)
            if share < _LEAST_SHARE:
                continue
            factor = self._factor(at, share, matched[at])
            reads = self._reads[at]
            if mood and reads is not None and reads is not (mood == "asks"):
                factor *= self._weights.other_mood
            found.append(Found(at, score * factor))
        found.sort(key=lambda one: (-one.score, one.at))
        return self._vary(found[: 4 * most], most)

    def _vary(self, found: list[Found], most: int) -> list[Found]:
        """Return the best entries, where one whose name is like that of a better one counts for less."""
        chosen: list[Found] = []
        left = {one.at: one for one in found}
        likeness = dict.fromkeys(left, 0.0)
        while left and len(chosen) < most:
            best = max(
                left.values(),
                key=lambda one: (
                    one.score * (1 - self._weights.variety * likeness[one.at]),
                    -one.at,
                ),
            )
            chosen.append(left.pop(best.at))
            name = set(self._names[best.at])
            for at in left:
                other = set(self._names[at])
                alike = len(name & other) / len(name | other) if name or other else 0.0
                likeness[at] = max(likeness[at], alike)
        return chosen

    def _factor(self, at: int, share: float, matched: Mapping[str, float]) -> float:
        weights = self._weights
        whole = covered = 0.0
        for word in self._names[at]:
            rarity = self._rarity(len(self._postings[word]))
            if self._prefixes[word] > _FEW:
                rarity *= weights.prefix
            whole += rarity
            covered += rarity * matched.get(word, 0.0)
        of_name = covered / whole if whole else 0.0
        of_query = 1 - weights.query_share + weights.query_share * share
        return of_query * (1 + weights.name_share * of_name)

    def _rarity(self, count: int) -> float:
        return math.log(1 + (len(self._lengths) - count + 0.5) / (count + 0.5))

    def _make_term(self, word: str) -> _QueryWord | None:
        weights = self._weights
        likeness = {
            one: weights.related for one in sorted(find_related(word)) if one in self._postings
        }
        if word in self._postings:
            likeness[word] = 1.0
        elif not likeness:
            likeness = {
                one: weights.spelled * alike for one, alike in self._find_alike(word).items()
            }
        if not likeness:
            return None
        entries = {at for one in likeness for at in self._postings[one]}
        own = len(self._postings.get(word, ())) or len(entries)
        # A word that is in no name and no title is probably what a tool is given, and not what it does.
        factor = 1.0 if not self._headed.isdisjoint(likeness) else weights.aside
        if is_light_verb(word):
            factor *= weights.light
        shared = factor * self._rarity(len(entries))
        return _QueryWord(likeness, factor * self._rarity(own), shared, factor)

    def _find_alike(self, word: str) -> dict[str, float]:
        """Return the words of the index that are spelled like this one."""
        pieces = _pieces(word)
        found: dict[str, float] = {}
        for other in self._postings:
            if abs(len(other) - len(word)) > 4:
                continue
            others = _pieces(other)
            alike = 2 * len(pieces & others) / (len(pieces) + len(others))
            if alike >= _LEAST_LIKENESS:
                found[other] = alike
        return found

    def _match(self, term: _QueryWord) -> dict[int, _Match]:
        weights = self._weights
        found: dict[int, _Match] = {}
        for word, likeness in term.likeness.items():
            rarity = term.weight if likeness == 1.0 else term.shared
            for at, count in self._postings[word].items():
                norm = 1 - weights.length + weights.length * self._lengths[at] / self._mean
                score = likeness * rarity * count / (count + weights.saturation * norm)
                known = found.get(at)
                if known is None:
                    found[at] = _Match(score, likeness, {word: likeness})
                else:
                    known.words[word] = likeness
                    known.score = max(known.score, score)
                    known.likeness = max(known.likeness, likeness)
        return found


class _QueryWord(Struct):
    """A word of a query: the words that stand for it, and how rare it and all of them are."""

    likeness: dict[str, float]
    weight: float
    shared: float
    factor: float


class _Match(Struct):
    score: float
    likeness: float
    words: dict[str, float]


def _pieces(word: str) -> frozenset[str]:
    padded = f" {word} "
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))


def _split_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence or line, and the rest."""
    ends = [at for end in (". ", ".\n", "\n\n", "\n") if (at := text.find(end)) >= 0]
    at = min(ends, default=len(text))
    return text[:at], text[at:]


def list_names(entries: Sequence[IndexEntry], found: Iterable[Found]) -> list[str]:
    """Return the names of entries that were found."""
    return [entries[one.at].name for one in found]
