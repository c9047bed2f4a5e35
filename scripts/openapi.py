"""Writes the OpenAPI document of the service's native API, and the table of its routes.

The diff of these files is the review.

usage: python scripts/openapi.py --write | --check | --release

--release saves the document as that of a release, which the next versions may only add to.
"""

import json
import re
import sys
from pathlib import Path

from holdfast.server.api.routes import OPERATIONS, describe_api

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "tests" / "api" / "openapi.json"
RELEASED = SNAPSHOT.with_name("openapi_released.json")
PAGE = ROOT / "docs" / "reference" / "native-api.md"


def render() -> str:
    """The document, as it is saved."""
    return json.dumps(describe_api(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_released() -> str:
    """The document of the last release; before the first one, the snapshot."""
    return (RELEASED if RELEASED.exists() else SNAPSHOT).read_text("utf-8")


def fill_page(page: str) -> str:
    """The page of the reference with the table of routes."""
    rows = ["| route | scope | |", "|---|---|---|"]
    for operation in sorted(OPERATIONS, key=lambda one: (one.path, one.method)):
        route = f"`{operation.method} {operation.path}`"
        rows.append(f"| {route} | {operation.scope} | {operation.text} |")
    table = "\n".join(["<!-- generated: routes -->", *rows, "<!-- end -->"])
    pattern = r"<!-- generated: routes -->.*?<!-- end -->"
    return re.sub(pattern, lambda _: table, page, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write the document, or say whether it is as the code is."""
    if arguments == ["--write"]:
        SNAPSHOT.write_text(render(), "utf-8")
        PAGE.write_text(fill_page(PAGE.read_text("utf-8")), "utf-8")
        return 0
    if arguments == ["--release"]:
        RELEASED.write_text(render(), "utf-8")
        return 0
    if arguments == ["--check"]:
        return int(SNAPSHOT.read_text("utf-8") != render())
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
