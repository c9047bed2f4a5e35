"""What tests look at in folders."""

from pathlib import Path


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
