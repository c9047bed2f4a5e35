"""Draws what `holdfast demo` prints, from a real run, into docs/images/demo.svg.

usage: python scripts/demo_picture.py
"""

import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "demo.svg"
STYLES = {"⚡": "bold red", "↻": "yellow", "⟲": "magenta", "✗": "red", "▸": "cyan", "✓": "green"}
# Rich's own form names fonts on a server; this one takes those of the reader.
FORM = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}"
height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    """Run the demo over this repository, and draw its lines."""
    program = "import sys; from holdfast.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "demo", str(ROOT / "src")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # REASON: it is ours
    printed = done.stdout
    console = Console(record=True, width=80, file=sys.stderr, color_system="truecolor")
    for line in ["$ holdfast demo src", "", *printed.partition("\n\n")[2].splitlines()]:
        style = next((style for mark, style in STYLES.items() if mark in line), "")
        console.print(Text(line, style=style))
    PICTURE.write_text(console.export_svg(title="holdfast demo", theme=MONOKAI, code_format=FORM))


if __name__ == "__main__":
    main()
