"""The documents of a skill: the files beside its SKILL.md, listed once and read on request.

Hidden files are neither listed nor read, since they may hold secrets. A link that leads out of the
folder is never listed: the whole skill is refused.
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
    """Return the sorted paths of the regular files in `folder`, without SKILL.md.

    Args:
        folder: the folder of the skill, with all links resolved.
        max_count: the largest number of files.

    Raises:
        ConfigurationError: there are more files, a name is not printable, or a link leads out.
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
                f"contains more than {max_count} files",
                fix="Raise SkillLimits(documents=...), or move some of them",
            )
    return tuple(sorted(path for path in found if path != SKILL_FILE))


def read_document(skill: Skill, path: str, limit: int) -> str | bytes:
    """Return one file of a skill: its text, or the bytes of an image.

    Args:
        skill: the skill.
        path: the path in the skill's folder, with `/`.
        limit: the largest size in bytes.

    Raises:
        UnreadableFileError: the file does not exist or may not be read; the message says why.
    """
    parts = PurePosixPath(path).parts
    if not path.strip() or path.startswith("/") or "\\" in path or ".." in parts:
        raise UnreadableFileError("is not a path in the skill's folder")
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
        raise UnreadableFileError(f"is not a text ({len(content):,} bytes), so it cannot be shown")
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
