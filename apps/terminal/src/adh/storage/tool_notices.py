"""The notices that tools stream while they run. They are shown and not saved."""

from __future__ import annotations

from typing import Literal

from holdfast.events import CustomNotice


class ToolOutput(CustomNotice, frozen=True):
    """Live output of a command.

    Args:
        stream: the stream of the command that it was written to.
        text: the text, with its control characters made visible.
    """

    stream: Literal["stdout", "stderr"]
    text: str
