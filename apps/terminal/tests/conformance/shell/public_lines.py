"""Lines that nobody here wrote: the pages of a package of commands, and the shell scripts of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PAGES = Path(__file__).parents[5] / "conformance/node/node_modules/linux-command/command"
SCRIPTS = ("/usr/bin", "/usr/sbin", "/usr/lib/git-core", "/usr/share/bash-completion/completions")
LARGEST_SCRIPT = 60_000
_BLOCK = re.compile(r"```(?:shell|bash|sh)?[^\n]*\n(.*?)```", re.DOTALL)
_PROMPT = re.compile(r"^\s*(?:\[[^]]*\]\s?)?[#$]\s+")
_SHELL = re.compile(rb"#! ?/(?:usr/)?bin/(?:env )?(?:ba|da)?sh\b")


def list_page_lines(folder: Path = PAGES) -> list[str]:
    """Return every line and every block of code of the pages, each once; none if they are not installed."""
    found: dict[str, None] = {}
    for page in sorted(folder.glob("*.md")):
        for block in _BLOCK.findall(page.read_text("utf-8")):
            for line in (*block.splitlines(), block):
                text = _PROMPT.sub("", line).strip()
                if 1 < len(text) < 2_000:
                    found[text] = None
    return list(found)


def list_scripts() -> Iterator[tuple[Path, str]]:
    """Yield the shell scripts that the packages of this machine have installed."""
    for folder in SCRIPTS:
        for path in sorted(Path(folder).glob("*")):
            is_completion = "completions" in folder
            if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_SCRIPT:
                continue
            content = path.read_bytes()
            if is_completion or _SHELL.match(content):
                yield path, content.decode(errors="replace")
