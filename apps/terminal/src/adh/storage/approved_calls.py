"""What was approved of a call: the tool acts on exactly that, whatever the paths lead to by then.

The approval puts one `ApprovedCall` for each call into `context.shared(ApprovedCalls)` before the tool
runs. This module must never approve anything itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ApprovedCall(Struct, frozen=True, kw_only=True):
    """What was approved of one call.

    Args:
        paths: for each path as the call has it, the absolute path without links that was judged.
        content: for each absolute path, the digest that its file must still have, or "absent".
        private_addresses: whether a rule allows loopback and private addresses.
        command_prefix: the words that confine a command, which stand before it; empty if nothing does.
        environment: variables that a command gets besides its usual ones, such as a
            search path without folders of the project.
    """

    paths: Mapping[str, str] = {}
    content: Mapping[str, str] = {}
    private_addresses: bool = False
    command_prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


class ApprovedCalls:
    """The approved calls of a turn, by the keys of their effects.

    >>> calls = ApprovedCalls()
    >>> calls.approve("t1.i0.tool.0", ApprovedCall(paths={"a": "/project/a"}))
    >>> calls.find("t1.i0.tool.0").paths["a"]
    '/project/a'
    """

    def __init__(self) -> None:
        self._calls: dict[str, ApprovedCall] = {}

    def approve(self, key: str, call: ApprovedCall) -> None:
        """Save what was approved of a call; a second approval replaces the first.

        Args:
            key: the key of the effect, such as "t1.i0.tool.2".
            call: what was approved.
        """
        self._calls[key] = call

    def find(self, key: str) -> ApprovedCall | None:
        """Return what was approved of a call; None if nobody approved it in this process."""
        return self._calls.get(key)
