"""The shell steps of the guide to many workers, as a reader types them, with a real PostgreSQL."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/how-to/run-many-workers.md"
FILE = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECONDS = 110


def test_the_steps_of_the_guide_work(url: str, tmp_path: Path) -> None:
    script = ["set -e"]
    for language, name, text in FILE.findall(PAGE.read_text()):
        if language == "sh":
            script += [text, "sleep 1"]
        else:
            (tmp_path / name).write_text(text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "JOURNAL": url}
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(script)],
            cwd=tmp_path,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(SECONDS)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    said = (tmp_path / "out").read_text()
    assert code == 0, said
    assert "Three days in Porto" in said
    assert "And a day in Braga" in said
    assert "A week in Faro" in said
    assert '{"status":"ready"}' in said
    before, _, after = said.rpartition('{"status":"ready"}')
    assert before.count(" 0 of 16 ") == after.count(" 0 of 16 ") == 2  # one for the other
