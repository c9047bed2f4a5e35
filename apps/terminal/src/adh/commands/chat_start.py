"""How a conversation is opened: the words and the environment of the program, as plain values.

It must import nothing of the workspace, so that the screen's prompt is there before the workspace is.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

BASE_URL_VARIABLE = "ADH_BASE_URL"
"""The environment variable with an address in place of the provider's, such as that of a gateway."""

LAST_SESSION = ""


class ChatStart(Struct, frozen=True, kw_only=True):
    """How a conversation is opened.

    Args:
        environ: the environment of the program.
        project: the folder of the project.
        session: a saved conversation, by its id or the beginning of it; "" for the last one of the
            folder; None begins another one.
        policy_folder: a further folder of rules.
        policy_file: a further file of rules.
        safety: whether questions of the level "confirm" are asked.
        model: a model or an alias in place of that of the settings; empty for the settings.
        agent: an agent in place of that of the settings; empty for the settings.
        base_url: an address in place of the provider's; empty for the provider's.
        keychain: whether the system's keychain is asked for API keys.
        debug: whether a log file is written.
    """

    environ: Mapping[str, str]
    project: Path
    session: str | None = None
    policy_folder: Path | None = None
    policy_file: Path | None = None
    safety: bool = True
    model: str = ""
    agent: str = ""
    base_url: str = ""
    keychain: bool = True
    debug: bool = False


def read_chat_start(
    args: argparse.Namespace, environ: Mapping[str, str], project: Path
) -> ChatStart:
    """Return how the words of the program want a conversation to be opened.

    Args:
        args: the words.
        environ: the environment.
        project: the folder that the program was started in.
    """
    return ChatStart(
        environ=environ,
        project=project,
        session=getattr(args, "resume", None),
        policy_folder=args.policy_dir,
        policy_file=getattr(args, "policy", None),
        safety=not args.no_safety,
        model=args.model or "",
        agent=args.agent or "",
        debug=args.debug,
        base_url=environ.get(BASE_URL_VARIABLE, "").strip(),
    )
