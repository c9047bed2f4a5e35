"""`adh demo`: the screen in a sandbox project with an emulated model, without a key or a network.

It must never use a key, the settings or a conversation of the person.
"""

from __future__ import annotations

import argparse
import os
import shlex

from adh.commands.chat_start import ChatStart
from adh.commands.screen_command import open_screen
from adh.demo.demo_model import FIRST_MESSAGE, MODEL, DemoPlace, open_demo
from adh.storage.places import find_places


def main(args: argparse.Namespace) -> int:
    """Open the demo; return the exit status when the person leaves it.

    Args:
        args: the words of the command.

    Raises:
        CommandError: there is no terminal that can show a screen.
        OSError: the folder has files of somebody, or cannot be written.
    """
    with open_demo(os.environ, args.folder, keep=args.keep) as demo:
        session = _find_last(demo)
        start = _make_start(demo, session, debug=args.debug)
        status = open_screen(start, "" if session else FIRST_MESSAGE, shows_resume=False)
    if args.keep or args.folder is not None:
        folder = demo.project.parent
        words = shlex.join(["adh", "demo", "--folder", str(folder)])
        print(f"The demo is in {folder}. It continues with: {words}")
    else:
        print("The sandbox of the demo was removed.")
    return status


def _make_start(demo: DemoPlace, session: str | None, *, debug: bool) -> ChatStart:
    return ChatStart(
        environ=demo.environ,
        project=demo.project,
        session=session,
        model=MODEL,
        base_url=demo.base_url,
        keychain=False,
        debug=debug,
    )


def _find_last(demo: DemoPlace) -> str | None:
    """Return the last conversation of a folder that is used again; None for a new one."""
    places = find_places(demo.environ, demo.project)
    if not places.journals.exists():
        return None
    import asyncio  # REASON: a new demo shows its prompt before it imports the library

    from adh.workspace.session_files import SessionFiles  # REASON: as above

    return asyncio.run(SessionFiles(places.journals).find_latest(str(places.project)))
