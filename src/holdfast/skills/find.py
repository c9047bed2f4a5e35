"""Finds the skills in a folder: every folder in it with a SKILL.md.

Each skill is read and checked here, when the program starts, and not when a model asks for it. This
module must never skip an invalid skill silently.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.skills.documents import SKILL_FILE, list_documents
from holdfast.skills.files import UnreadableFileError, read_plain_file, resolve_inside
from holdfast.skills.front_matter import parse_header, split_front_matter
from holdfast.skills.skill import Skill
from holdfast.skills.skill_limits import SkillLimits


def find_skills(
    folder: str | os.PathLike[str], *, limits: SkillLimits | None = None
) -> tuple[Skill, ...]:
    """Return the skills in a folder, sorted by name, or the one skill whose folder it is.

    Args:
        folder: contains folders with a SKILL.md, as the specification of Agent Skills defines them.
        limits: how large a skill may be.

    Raises:
        ConfigurationError: there is no skill, or a skill breaks a rule. The message names the file,
            the line and the key, and says what to write.
    """
    check_value("folder", folder, str | os.PathLike)
    path = Path(folder)
    try:
        root = path.resolve(strict=True)
        is_skill = _has_skill_file(root)
        inner = [] if is_skill else sorted(root.iterdir())
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            "folder", f"{str(path)!r} cannot be read as a folder ({type(error).__name__})"
        ) from error
    if is_skill:
        return (_read_skill(root, root.name, limits or SkillLimits()),)
    found = tuple(_read_inner_skills(root, inner, limits or SkillLimits()))
    if not found:
        raise ConfigurationError(
            "folder",
            f"{str(path)!r} contains no skill",
            fix=f"Put a folder with a {SKILL_FILE} there",
        )
    return found


def _read_inner_skills(root: Path, entries: list[Path], limits: SkillLimits) -> list[Skill]:
    found = []
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        try:
            has_skill = _has_skill_file(entry)
            place = resolve_inside(root, entry) if has_skill else entry
        except UnreadableFileError as error:
            raise ConfigurationError(
                str(entry), f"is a link that {error}", fix="Pass the folder that it leads to"
            ) from error
        except OSError as error:
            raise ConfigurationError(
                str(entry), f"cannot be read ({type(error).__name__})", fix="Make it readable"
            ) from error
        if has_skill:
            found.append(_read_skill(place, entry.name, limits))
    return found


def _has_skill_file(folder: Path) -> bool:
    """Whether there is a SKILL.md. A name such as skill.md is refused rather than skipped."""
    names = os.listdir(folder)  # noqa: PTH208  # REASON: the names as they are, on any file system
    if SKILL_FILE in names:
        return True
    other = next((name for name in names if name.lower() == SKILL_FILE.lower()), None)
    if other is not None:
        raise ConfigurationError(
            str(folder / other), f"must be named {SKILL_FILE}", fix="Rename the file"
        )
    return False


def _read_skill(folder: Path, name: str, limits: SkillLimits) -> Skill:
    file = folder / SKILL_FILE
    try:
        content = read_plain_file(resolve_inside(folder, file), limits.instructions)
    except UnreadableFileError as error:
        fix = (
            "Make it shorter, or raise SkillLimits(instructions=...)"
            if _is_too_large(error)
            else ""
        )
        raise ConfigurationError(str(file), str(error), fix=fix) from error
    head, body = split_front_matter(_decode_text(content, file), str(file))
    if len(head) > limits.front_matter:
        raise ConfigurationError(
            f"{file}:1",
            f"its front matter has {len(head):,} characters, and the limit is "
            f"{limits.front_matter:,}",
            fix="Make it shorter, or raise SkillLimits(front_matter=...)",
        )
    header = parse_header(head, str(file), name)
    return Skill(
        folder=folder,
        instructions=body,
        documents=list_documents(folder, limits.documents),
        **msgspec.structs.asdict(header),
    )


def _is_too_large(error: UnreadableFileError) -> bool:
    return "too large" in str(error)


def _decode_text(content: bytes, file: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{file}:{line}", "is not valid UTF-8", fix="Save the file as UTF-8"
        ) from error
