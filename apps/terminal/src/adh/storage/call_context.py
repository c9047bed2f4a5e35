"""The context of a call: for whom, where and by which agent it runs. It is passed as the run's `deps`.

It must never be a global: two conversations of one process have two.
"""

from __future__ import annotations

from msgspec import Struct


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
