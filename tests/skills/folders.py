"""Writes skills into real folders."""

from __future__ import annotations

from pathlib import Path

HEAD = "name: {name}\ndescription: About {name}."


def write(
    folder: Path, name: str, *, head: str = HEAD, body: str = "Do it.", **files: str | bytes
) -> Path:
    """Write a skill's folder. In a file's name, `__` means `/` and the last `_` means the dot."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\n{head.format(name=name)}\n---\n{body}\n", "utf-8")
    for key, content in files.items():
        stem, _, end = key.replace("__", "/").rpartition("_")
        file = place / f"{stem}.{end}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return place
