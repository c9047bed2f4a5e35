"""The plugin in another project, where pytest finds it by its entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(dedent(test))
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow  # takes half a second or more
def test_the_fixtures_work_in_a_project_of_their_own(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        """
        import urllib.error, urllib.request
        import pytest
        from holdfast.testing.emulator import HttpStatus

        def test_two_emulators(emulator):
            one, two = emulator(["Hello"]), emulator(["Hello"], faults=[HttpStatus(500)])
            assert one.base_url != two.base_url
            body = b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}'
            assert b"Hello" in urllib.request.urlopen(one.base_url + "/chat/completions", body).read()
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(two.base_url + "/chat/completions", body)
            refused.value.close()
            two.wait_idle_sync()
            assert two.requests[0].status == 500

        def test_time(fake_clock, fixed_rng):
            assert fake_clock.monotonic() == 0
            assert fixed_rng() == 0.5
        """,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # takes half a second or more
def test_a_project_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        """
        import sys

        def test_nothing_was_imported():
            names = {name for name in sys.modules if name.startswith("holdfast")}
            assert names == {"holdfast", "holdfast.testing", "holdfast.testing.pytest_plugin"}
        """,
    )
    assert done.returncode == 0, done.stdout + done.stderr
