"""Writes the OpenAPI document of the service's native API; the diff of that file is the review.

usage: python scripts/openapi.py --write | --check
"""

import json
import sys
from pathlib import Path

from holdfast.server.api.routes import describe_api

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "tests" / "api" / "openapi.json"


def render() -> str:
    """The document, as it is saved."""
    return json.dumps(describe_api(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the document, or say whether it is as the code is."""
    if arguments == ["--write"]:
        SNAPSHOT.write_text(render(), "utf-8")
        return 0
    if arguments == ["--check"]:
        return int(SNAPSHOT.read_text("utf-8") != render())
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
