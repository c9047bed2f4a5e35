"""Checks the front matter of a SKILL.md against the specification of Agent Skills.

This module must never correct its input: an error names the mistake, its place and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.skills.skill import Header

if TYPE_CHECKING:
    from holdfast.skills.yaml_text import Field

_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_FIX = "Use 1 to 64 of a-z, 0-9 and single hyphens, as in pdf-forms"
_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_HEAD_FIX = "Begin the file with a line ---, then name: and description:, then another line ---"


def split_front_matter(text: str, file: str) -> tuple[str, str]:
    r"""Return the front matter and the text below it. Raises ConfigurationError when there is none.

    >>> split_front_matter("---\nname: x\n---\nDo it.\n", "SKILL.md")
    ('name: x\n', 'Do it.')
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise ConfigurationError(f"{file}:1", "has no front matter", fix=_HEAD_FIX)
    for index, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "\n".join([*lines[1:index], ""]), "\n".join(lines[index + 1 :]).strip()
    raise ConfigurationError(f"{file}:1", "its front matter has no end", fix=_HEAD_FIX)


def parse_header(head: str, file: str, folder: str) -> Header:
    """Parse and check the front matter.

    Args:
        head: the YAML.
        file: the name of the file in errors.
        folder: the name of the folder that contains the file.

    Raises:
        ConfigurationError: it breaks a rule. The message names the file, the line, the key and the fix.
    """
    fields = _parse_fields(head, file)
    name = _text_field(fields, "name", file, max_length=64)
    _check_name(name, _error_place(file, fields["name"].line, "name"), folder)
    return Header(
        name=name,
        description=" ".join(_text_field(fields, "description", file, max_length=1024).split()),
        license=_text_field(fields, "license", file),
        compatibility=_text_field(fields, "compatibility", file, max_length=500),
        metadata=_metadata_field(fields, file),
        allowed_tools=_allowed_tools_field(fields, file),
    )


def _error_place(file: str, line: int, key: str = "") -> str:
    return f"{file}:{line} {key}".rstrip()


def _check_name(name: str, place: str, folder: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(place, f"{name!r} is not a valid name of a skill", fix=_NAME_FIX)
    if name != folder:
        raise ConfigurationError(
            place,
            f"is {name!r}, but the folder is {folder!r}",
            fix="Rename the folder, or write its name here",
        )


def _text_field(
    fields: Mapping[str, Field], key: str, file: str, *, max_length: int | None = None
) -> str:
    needed = key in {"name", "description"}
    field = fields.get(key)
    if field is None:
        if needed:
            raise ConfigurationError(
                _error_place(file, 1, key), "is missing", fix=f"Add a line {key}: ..."
            )
        return ""
    place = _error_place(file, field.line, key)
    if not isinstance(field.value, str):
        raise ConfigurationError(place, "must be text", fix="Put it in quotes")
    if not field.value.strip() and (needed or max_length is not None):
        raise ConfigurationError(place, "is empty", fix="Write it, or remove the key")
    if max_length is not None and len(field.value) > max_length:
        raise ConfigurationError(
            place, f"must have at most {max_length:,} characters, got {len(field.value):,}"
        )
    return field.value.strip()


def _metadata_field(fields: Mapping[str, Field], file: str) -> Mapping[str, str]:
    field = fields.get("metadata")
    if field is None or field.value == "":
        return {}
    if not isinstance(field.value, Mapping):
        raise ConfigurationError(
            _error_place(file, field.line, "metadata"),
            "must be a mapping of keys to text",
            fix='Write lines such as `  author: "Ann"` below it',
        )
    return field.value


def _allowed_tools_field(fields: Mapping[str, Field], file: str) -> tuple[str, ...]:
    field = fields.get("allowed-tools")
    if field is None:
        return ()
    place = _error_place(file, field.line, "allowed-tools")
    if isinstance(field.value, Mapping):
        raise ConfigurationError(place, "must be text or a list", fix="Write allowed-tools: a b")
    if isinstance(field.value, str):
        names: Iterable[str] = _TOOL.findall(field.value)
    else:
        names = field.value
    if not all(name.strip() and name.isprintable() for name in names):
        raise ConfigurationError(place, "contains an empty or unprintable name", fix="Remove it")
    return tuple(dict.fromkeys(name.strip() for name in names))


def _parse_fields(head: str, file: str) -> dict[str, Field]:
    try:
        from holdfast.skills.yaml_text import parse_fields
    except ImportError as error:
        raise ConfigurationError("skills", "need PyYAML", fix=install_command("skills")) from error
    fields = parse_fields(head, file)
    for key, field in fields.items():
        intended = _intended_key(key)
        if intended is not None and key != intended:
            raise ConfigurationError(
                _error_place(file, field.line, key),
                "is not a key of a skill",
                fix=f"Write {intended}",
            )
    return fields


def _intended_key(key: str) -> str | None:
    """Return the known key that this one misspells, as `allowed_tools` or `Name` do.

    Other unknown keys are allowed, so None is not an error.
    """
    plain = re.sub(r"[-_\s]", "", key).lower()
    return next((known for known in _KEYS if known.replace("-", "") == plain), None)
