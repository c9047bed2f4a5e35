"""Writes the items of a list in a dialect: each at its place, or each allowed at every place.

This module must never drop the number of items in silence.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.codecs.schemas.dialects import Dialect, takes_keyword
from holdfast.codecs.schemas.joined_parts import JoinedPart
from holdfast.codecs.schemas.part_choices import as_part
from holdfast.codecs.schemas.part_keywords import Part, Parts
from holdfast.codecs.schemas.sent_parts import SaidConstraints, SentPart, SentParts, drop_repeated


class ListWriter:
    """Writes the lists of one schema.

    Args:
        dialect: the dialect.
        sent: the parts that were written so far.
        emit: returns the part to send for parts that a value must fit together.
        emit_any: returns the part to send for every value, for a place in the original.
    """

    def __init__(
        self,
        dialect: Dialect,
        sent: SentParts,
        emit: Callable[[Parts], SentPart],
        emit_any: Callable[[str], Part],
    ) -> None:
        self._dialect = dialect
        self._sent = sent
        self._emit = emit
        self._emit_any = emit_any

    def write_list(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> bool:
        """Write the items of a list. Return whether a value fits."""
        facts = joined.facts
        prefix: list[Part] = []
        rest = None if joined.items is None else self._emit(joined.items)
        for parts in joined.prefix:
            inner = self._emit(parts)
            if inner is False:
                rest = False
                break
            prefix.append(inner)
        if rest is False:
            facts["maxItems"] = min(facts.get("maxItems", len(prefix)), len(prefix))
            joined.places.setdefault("maxItems", joined.place_of("items"))
        most = facts.get("maxItems")
        if most is not None and most < facts.get("minItems", 0):
            return False
        is_list = joined.types is not None and "array" in joined.types
        if most is not None and most <= len(prefix):
            # Only an empty list has no first item.
            prefix = prefix[:most] or [{"type": "null"}]
            self._write_prefix(joined, sent, said, prefix, None)
        elif prefix:
            rest = rest or self._emit_any(joined.place)
            self._write_prefix(joined, sent, said, prefix, rest)
        elif rest:
            sent["items"] = rest
        elif is_list and self._dialect.needs_items:
            sent["items"] = self._emit_any(joined.place)
        return True

    def _write_prefix(
        self,
        joined: JoinedPart,
        sent: Part,
        said: SaidConstraints,
        prefix: list[Part],
        rest: Part | None,
    ) -> None:
        """Write the first items of a list, or allow each of them at every place.

        Args:
            joined: the list.
            sent: the part to write.
            said: the constraints that are said.
            prefix: the first items.
            rest: the other items; None if there are none.
        """
        facts, dialect = joined.facts, self._dialect
        is_fixed = facts.get("minItems") == facts.get("maxItems") == len(prefix)
        if takes_keyword(self._dialect, "prefixItems") and (is_fixed or not dialect.fixed_tuples):
            sent["prefixItems"] = prefix
            if rest is not None:
                sent["items"] = rest
            elif dialect.needs_items:
                sent["items"] = {}
            return
        found = drop_repeated([*prefix, *([] if rest is None else [rest])])
        if len(found) > 1:
            wanted = [as_part(parts) for parts in joined.prefix]
            said.add("prefixItems", wanted, joined.place_of("prefixItems"))
        sent["items"] = (
            found[0] if len(found) == 1 else self._sent.keep({"anyOf": found}, joined.place)
        )
