"""The results of an MCP server as content for the model: texts, pictures, sounds and files; and tools as we describe them.

Everything is read by attribute, and nothing of the SDK is imported. Texts are redacted, and `tools.results` cuts them.
This module must never fetch what a link names.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from holdfast.core.messages import Media, Text
from holdfast.core.redaction import redact
from holdfast.tools.results import NO_RESULT
from holdfast.tools.tool import NAME_PATTERN, ToolEffect

_LONGEST_NAME: Final = 64
_LONGEST_DESCRIPTION: Final = 4_096


def read_content(blocks: Iterable[Any], structured: object = None) -> list[Text | Media]:
    """Return the content of a result; the structured content as JSON if there is no other.

    Args:
        blocks: the blocks of the result.
        structured: its structured content.
    """
    parts = [part for block in blocks for part in (_read_block(block),) if part is not None]
    if not parts and structured is not None:
        parts = [Text(redact(msgspec.json.encode(structured).decode()))]
    return parts or [Text(NO_RESULT)]


def read_text(blocks: Iterable[Any]) -> str:
    """Return the texts of a result, such as those of an error."""
    return "\n".join(one.text for one in read_content(blocks) if isinstance(one, Text))


def _read_block(block: Any) -> Text | Media | None:
    kind = getattr(block, "type", None)
    if kind == "text":
        return Text(redact(str(block.text)))
    if kind in ("image", "audio"):
        return _read_data(block.data, block.mime_type, None)
    if kind == "resource":
        return read_resource_part(block.resource)
    if kind == "resource_link":
        words = [one for one in (block.title or block.name, block.description) if one]
        return Text(redact(f"{': '.join(words)} ({block.uri})" if words else str(block.uri)))
    return Text(f"(content of the unknown kind {str(kind)[:40]!r})")


def read_resource_part(resource: Any) -> Text | Media:
    """Return the contents of a resource as a text or as media."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return Text(redact(text))
    kind = resource.mime_type or "application/octet-stream"
    name = str(resource.uri).rpartition("/")[2] or None
    return _read_data(resource.blob, kind, name)


def _read_data(data: str, media_type: str, name: str | None) -> Text | Media:
    try:
        return Media(media_type, data=base64.b64decode(data, validate=True), name=name)
    except (binascii.Error, ValueError):
        return Text(f"(content of the type {media_type[:80]!r} that is not base64)")


def make_name(prefix: str, name: str) -> str:
    """Return the name of a tool that every provider accepts; another one has a digest, so that no two are the same.

    >>> make_name("fs_", "read")
    'fs_read'
    >>> make_name("", "files.read")
    'files_read_57c17671'
    """
    full = prefix + name
    if NAME_PATTERN.fullmatch(full):
        return full
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "_", full).strip("_") or "tool"
    return f"{plain[: _LONGEST_NAME - 9]}_{digest}"


def describe(tool: Any) -> str:
    """Return the description of a tool for the model."""
    text = (tool.description or tool.title or "").strip()
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return text[: _LONGEST_DESCRIPTION - 3] + "..."


def find_effect(tool: Any, *, is_trusted: bool) -> ToolEffect:
    """Return the effect of a tool: what its server says counts only if the server is trusted."""
    hints = tool.annotations
    if not is_trusted or hints is None:
        return "write"
    if hints.read_only_hint is True:
        return "read"
    return "idempotent" if hints.idempotent_hint is True else "write"


def take_public_digest(tool: Any) -> str:
    """Return digests of a tool's name, description and schema, by which a change of it is seen and named."""
    parts = (tool.name, tool.description or "", tool.title or "", tool.input_schema)
    name, description, title, schema = (
        blake2b(msgspec.json.encode(one, order="sorted"), digest_size=12).hexdigest()
        for one in parts
    )
    return f"{name}.{description}{title}.{schema}"


def take_digest(tool: Any) -> bytes:
    """Return a digest of all that a model or a person reads of a tool, and of its hints."""
    hints = tool.annotations
    facts = (
        tool.name,
        describe(tool),
        tool.input_schema,
        None if hints is None else (hints.read_only_hint, hints.idempotent_hint),
    )
    return blake2b(msgspec.json.encode(facts, order="sorted"), digest_size=16).digest()
