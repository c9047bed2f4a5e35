"""schemathesis sends the native API anything that its description allows, and more.

Nothing may answer 5xx, or something that the description does not name. `HOLDFAST_FULL=1` sends at
least 20,000 requests in place of 2,000.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent / "schemathesis"
PROGRAM = HERE / ".venv" / "bin" / "schemathesis"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
EXAMPLES, LEAST_CASES, SECONDS = (700, 20_000, 7200) if IS_FULL else (40, 2_000, 900)
FIRST_SEED = 7

pytestmark = pytest.mark.timeout(SECONDS + 60)


@pytest.fixture
def service() -> Iterator[str]:
    """The address of the description of a service."""
    command = [sys.executable, str(HERE / "fuzzed_service.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def send_requests(service: str, folder: Path, seed: int) -> int:
    """Let schemathesis send requests; return their number."""
    command = [
        *(str(PROGRAM), "run", service, "--header", "Accept: application/json"),
        *("--seed", str(seed), "--max-examples", str(EXAMPLES), "--checks", ",".join(CHECKS)),
        *("--generation-database", "none", "--request-timeout", "20", "--no-color"),
        # A stream without end, which is no JSON: `tests/server/test_changes.py` reads it.
        *("--exclude-path", "/changes", "--continue-on-failure", "--phases"),
        "coverage,fuzzing,stateful" if seed == FIRST_SEED else "fuzzing",
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None, done.stdout[-2000:]
    return int(found[1])


@pytest.mark.skipif(not PROGRAM.exists(), reason="schemathesis could not be installed")
def test_every_answer_is_one_that_the_description_names(service: str, tmp_path: Path) -> None:
    count, seed = 0, FIRST_SEED
    while count < LEAST_CASES:
        count += send_requests(service, tmp_path, seed)
        seed += 1
    print(f"{count} requests of {seed - FIRST_SEED} runs")
