"""The program `adh`: reads the arguments and calls the command.

It must import nothing of the application before Ctrl-C is answered with the right exit status.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run `adh` with the words of this process and return its exit status."""
    from adh.commands.program import run_program

    return run_program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
