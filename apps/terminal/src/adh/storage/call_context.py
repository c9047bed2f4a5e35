"""The context of a call (for whom, where and by which agent it runs), its approval, and its live notices.

The context is passed as the run's `deps`; it must never be a global: two conversations of one process have two. A
tool acts on exactly the approved paths and content, even if the paths lead elsewhere by then. The approval puts one
`ApprovedCall` for each call into `context.shared(ApprovedCalls)` before the tool runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from holdfast.events import CustomNotice


class CallContext(Struct, frozen=True, kw_only=True):
    """For whom, where and by which agent the calls of a turn run.

    Args:
        user: the name of the person's account.
        session: the name of the conversation.
        agent: the agent that calls.
        request_id: the id of the request of the person that the turn answers.
        folder: the working folder of commands and relative paths, absolute and resolved.
        project: the folder of the project, absolute and resolved.
        repository: the top folder of the git repository; empty if there is none.
    """

    user: str
    session: str
    agent: str
    request_id: str
    folder: str
    project: str
    repository: str = ""


class ApprovedCall(Struct, frozen=True, kw_only=True):
    """The approval of one call.

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
        """Save the approval of a call; a second approval replaces the first.

        Args:
            key: the key of the effect, such as "t1.i0.tool.2".
            call: the approval.
        """
        self._calls[key] = call

    def find(self, key: str) -> ApprovedCall | None:
        """Return the approval of a call; None if nobody approved it in this process."""
        return self._calls.get(key)


class ToolOutput(CustomNotice, frozen=True):
    """Live output of a command.

    Args:
        stream: the stream of the command that it was written to.
        text: the text, with its control characters made visible.
    """

    stream: Literal["stdout", "stderr"]
    text: str
