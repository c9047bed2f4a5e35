"""`./run` in a checkout that cannot be written says so at once, and does not wait for a lock."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Root may write whatever the permissions say, so the disk itself is read-only, in a namespace of its own.
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && exec ./run check'


def can_mount() -> bool:
    tried = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    return shutil.which("unshare") is not None and not subprocess.run(tried, check=False).returncode


@pytest.mark.skipif(not can_mount(), reason="A READ-ONLY DISK CANNOT BE MADE HERE")
def test_a_checkout_that_cannot_be_written_is_reported_at_once(tmp_path: Path) -> None:
    applications = [str(path.relative_to(ROOT)) for path in ROOT.glob("apps/*/pyproject.toml")]
    for application in applications:
        (tmp_path / application).parent.mkdir(parents=True)
    for name in ("run", "requirements.lock", "tools.lock", "pyproject.toml", *applications):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", tmp_path],
        capture_output=True,
        text=True,
        timeout=20,  # the lock would be waited for without an end
        check=False,
    )
    said = f"run: cannot write into {tmp_path}: copy the checkout to a folder that you can write\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
