"""The files beside a SKILL.md: listed once, and read one at a time when the model asks.

Hidden files are neither listed nor read: they are the writer's, and may hold secrets. This module
must never list a link that leads out of the folder; it refuses the skill.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from holdfast.core.errors import ConfigurationError
from holdfast.skills.files import UnreadableFileError, read_plain_file, resolve_inside
from holdfast.skills.skill import Skill

SKILL_FILE = "SKILL.md"
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_UNLISTED = {"__pycache__", "node_modules"}


def list_documents(folder: Path, max_count: int) -> tuple[str, ...]:
    """The paths of the plain files in `folder`, sorted, without SKILL.md.

    Args:
        folder: the skill's, without links.
        max_count: how many there may be.

    Raises:
        ConfigurationError: there are more, one has an unprintable name, or a link leads out.
    """
    found: list[str] = []
    for place, folders, files in os.walk(folder, onerror=_refuse_unread):
        folders[:] = sorted(name for name in folders if _is_listed(name))
        here = Path(place)
        for name in (*folders, *filter(_is_listed, files)):
            file = here / name
            _check_file(folder, file)
            if name in files and stat.S_ISREG(file.stat().st_mode):
                found.append(file.relative_to(folder).as_posix())
        if len(found) - 1 > max_count:
            raise ConfigurationError(
                str(folder),
                f"holds more than {max_count} files",
                fix="Raise SkillLimits(documents=...), or keep them elsewhere",
            )
    return tuple(sorted(path for path in found if path != SKILL_FILE))


def read_document(skill: Skill, path: str, limit: int) -> str | bytes:
    """One file of a skill: its text, or the bytes of an image.

    Args:
        skill: whose file.
        path: in the skill's folder, with `/`.
        limit: the most bytes.

    Raises:
        UnreadableFileError: there is no such file that may be read; its text says why.
    """
    parts = PurePosixPath(path).parts
    if not path.strip() or path.startswith("/") or "\\" in path or ".." in parts:
        raise UnreadableFileError("is no path in the skill's folder")
    real = resolve_inside(skill.folder, skill.folder.joinpath(*parts))
    if not all(map(_is_listed, real.relative_to(skill.folder).parts)):
        raise UnreadableFileError("does not exist")
    content = read_plain_file(real, limit)
    if content.startswith(_IMAGES) or (content[:4] == b"RIFF" and content[8:12] == b"WEBP"):
        return content
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UnreadableFileError(f"is no text ({len(content):,} bytes), so it cannot be shown")
    return text


def _is_listed(name: str) -> bool:
    return not name.startswith(".") and name not in _UNLISTED


def _check_file(folder: Path, file: Path) -> None:
    if not file.name.isprintable():
        raise ConfigurationError(
            str(folder), f"the name {file.name!r} cannot be shown", fix="Rename the file"
        )
    if file.is_symlink():
        try:
            resolve_inside(folder, file)
        except UnreadableFileError as error:
            raise ConfigurationError(
                str(file), f"is a link that {error}", fix="Put a copy in its place"
            ) from error


def _refuse_unread(error: OSError) -> None:
    raise ConfigurationError(
        str(error.filename), f"cannot be read ({type(error).__name__})", fix="Make it readable"
    ) from error
