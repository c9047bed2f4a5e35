"""Opens the workspace and a conversation in it, for the screen and for a turn without one.

It must never choose a conversation that the person did not name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adh.commands.chat_start import LAST_SESSION, ChatStart
from adh.commands.command_error import CommandError
from adh.commands.screen_workspace import ScreenWorkspace
from adh.conversation.conversation import Conversation
from adh.screen.conversation_port import OpenChat
from adh.workspace.assembly import WorkspaceOptions, open_workspace
from adh.workspace.session_files import SessionFiles

_LIST = "adh sessions list shows those of this folder, with --all those of every folder"


def make_options(start: ChatStart) -> WorkspaceOptions:
    """Return how the workspace is opened."""
    return WorkspaceOptions(
        project=start.project,
        environ=start.environ,
        policy_folder=start.policy_folder,
        policy_file=start.policy_file,
        safety=start.safety,
        model=start.model,
        agent=start.agent,
        base_url=start.base_url,
        keychain=start.keychain,
    )


@asynccontextmanager
async def open_chat(start: ChatStart) -> AsyncIterator[OpenChat]:
    """Open a workspace and a conversation for the screen, which starts and closes the conversation.

    Args:
        start: how.

    Raises:
        CommandError: there is no such conversation.
        Exception: as `open_workspace`.
    """
    async with open_workspace(make_options(start)) as workspace:
        places = workspace.parts.places
        session = await find_session(workspace.parts.files, start.session, str(places.project))
        conversation = Conversation(workspace, session)
        yield OpenChat(conversation, ScreenWorkspace(workspace, conversation))


async def find_session(files: SessionFiles, wanted: str | None, project: str) -> str | None:
    """Return the id of the conversation that is wanted; None for another one.

    Args:
        files: the saved conversations.
        wanted: an id or the beginning of one; "" for the last one of the project; None for another one.
        project: the folder of the project.

    Raises:
        CommandError: there is none, or several begin like this.
    """
    if wanted is None:
        return None
    if wanted != LAST_SESSION:
        return resolve_id(files, wanted)
    found = await files.find_latest(project)
    if found is None:
        raise CommandError("there is no conversation of this folder to resume", fix=_LIST)
    return found


def resolve_id(files: SessionFiles, word: str) -> str:
    """Return the id of the only conversation that begins with a word. Raises CommandError."""
    if files.exists(word):
        return word
    found = [session for session in files.list_ids() if session.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:5])
        raise CommandError(f"several conversations begin with {word}: {shown}", fix=_LIST)
    raise CommandError(f"there is no conversation {word}", fix=_LIST)
