"""Skills: a collection of skills, with the tools and the middleware that an agent needs for them.

Each folder with a SKILL.md is read and checked when the program starts, and not when a model asks for it. An
invalid skill must never be skipped silently. A collection never changes after construction, so any number of agents
and runs may share it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

import msgspec

from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.middleware.hook_contexts import HookContext
from holdfast.skills.front_matter import parse_header, split_front_matter
from holdfast.skills.middleware import ClosedSkills, SkillInstructions, check_names
from holdfast.skills.skill import Skill
from holdfast.skills.skill_limits import SkillLimits
from holdfast.skills.wording import CLOSED_TEXT, skill_block
from holdfast.tools.context import ToolContext
from holdfast.tools.toolset import Toolset

_LONGEST_QUOTE = 100


class Skills(Toolset):
    """The skills of one or more folders: a toolset for `Agent(toolsets=[skills])`.

    Args:
        folders: each contains folders with a SKILL.md, or is itself such a folder.
        limits: how large a skill may be.

    Raises:
        ConfigurationError: a skill breaks a rule, or two skills have the same name.
    """

    middleware: SkillInstructions
    """Adds the index and the instructions of the open skills to the instructions of the agent."""
    _by_name: dict[str, Skill]
    _limits: SkillLimits

    @check_arguments
    def __init__(self, *folders: str | os.PathLike[str], limits: SkillLimits | None = None) -> None:
        limits = limits or SkillLimits()
        skills = tuple(skill for folder in folders for skill in find_skills(folder, limits=limits))
        check_names(skills)
        super().__init__("skills", self.tools)
        middleware = SkillInstructions(skills)
        self.__dict__.update(
            _limits=limits,
            _by_name={skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)},
            middleware=middleware,
            middlewares=(middleware,),
        )

    @property
    def tools(self) -> tuple[Callable[..., object], ...]:
        """The tools that the model calls: `open_skill` and `read_skill_file`.

        Add `skills.close_skill` to the tools of an agent if the model should close skills too.
        """
        return (self.open_skill, self.read_skill_file)

    async def open_skill(self, name: str) -> str:
        """Open a skill: get its instructions for the rest of this turn.

        Args:
            name: The skill's name, as it is listed.
        """
        skill = self._by_name.get(name)
        return skill_block(skill) if skill is not None else self._unknown_skill_text(name)

    async def close_skill(self, name: str) -> str:
        """Close a skill when its task is done: its instructions are removed from yours.

        Args:
            name: The skill's name.
        """
        if name not in self._by_name:
            return self._unknown_skill_text(name)
        return CLOSED_TEXT.format(name=name)

    def close(self, context: HookContext | ToolContext, *names: str) -> None:
        """Close skills from a hook or a tool: the next model call is made without their instructions.

        The model may open them again. The closing is not saved, so a turn that is resumed after a
        crash has the skills open again.

        Args:
            context: the context of the hook or tool.
            names: the names of the skills; without a name, all skills are closed.

        Raises:
            ConfigurationError: there is no skill of this name.
        """
        unknown = [name for name in names if name not in self._by_name]
        if unknown:
            raise ConfigurationError(
                "names",
                f"there is no skill {unknown[0]!r}",
                fix=f"There are: {', '.join(self._by_name)}",
            )
        context.shared(ClosedSkills).names.update(names or self._by_name)

    def read_skill_file(self, name: str, path: str) -> str | bytes:
        """Read one of the documents of a skill.

        Args:
            name: The skill's name.
            path: The document's path, as the skill lists it.
        """
        skill = self._by_name.get(name)
        if skill is None:
            return self._unknown_skill_text(name)
        try:
            return read_document(skill, path, self._limits.document)
        except UnreadableFileError as error:
            return f"Error: {path[:_LONGEST_QUOTE]!r} {error}. {_list_documents(skill)}"

    def _unknown_skill_text(self, name: str) -> str:
        name = name[:_LONGEST_QUOTE]
        near = get_close_matches(name, self._by_name, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"Error: there is no skill {name!r}.{hint} There are: {', '.join(self._by_name)}."

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Skills({', '.join(self._by_name)})"


def _list_documents(skill: Skill) -> str:
    if not skill.documents:
        return f"Skill {skill.name!r} has no documents."
    return f"Skill {skill.name!r} has: {', '.join(skill.documents)}."


def find_skills(
    folder: str | os.PathLike[str], *, limits: SkillLimits | None = None
) -> tuple[Skill, ...]:
    """Return the skills in a folder, sorted by name, or the one skill whose folder it is.

    Args:
        folder: contains folders with a SKILL.md, as the specification of Agent Skills defines them.
        limits: how large a skill may be.

    Raises:
        ConfigurationError: there is no skill, or a skill breaks a rule. The message names the file,
            the line and the key, and names the fix.
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


class UnreadableFileError(Exception):
    """Why a file cannot be read, in words that a model may read."""


def resolve_inside(folder: Path, file: Path) -> Path:
    """Return the resolved path of `file`. Raises UnreadableFileError when it is not in `folder`.

    Args:
        folder: a folder with all links resolved.
        file: any path.
    """
    try:
        real = file.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        # RuntimeError: a cycle of links, before Python 3.13. ValueError: a NUL in the path.
        raise UnreadableFileError("does not exist") from error
    if not real.is_relative_to(folder):
        raise UnreadableFileError("leads out of the skill's folder")
    return real


def read_plain_file(file: Path, limit: int) -> bytes:
    """Return the content of a regular file.

    Args:
        file: a path with all links resolved.
        limit: the largest size in bytes.

    Raises:
        UnreadableFileError: it is not a regular file, is too large, or may not be read.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(file, flags | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableFileError("is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as reader:
                content = reader.read(limit + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnreadableFileError(f"cannot be read ({type(error).__name__})") from error
    if len(content) > limit:
        size = max(status.st_size, len(content))
        raise UnreadableFileError(f"is too large: {size:,} bytes, and the limit is {limit:,}")
    return content
