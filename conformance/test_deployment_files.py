"""The files of the page about deployment, as the programs that read them see them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conformance.deployed import HOLDFAST, make_certificate, read_page_file

from holdfast.cli.serve_http import SECONDS_TO_CLOSE


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="SYSTEMD IS NOT INSTALLED")
def test_systemd_reads_the_units(tmp_path: Path) -> None:
    unit = read_page_file("holdfast@.service").replace("/opt/holdfast/bin/holdfast", HOLDFAST)
    (tmp_path / "holdfast@.service").write_text(unit)
    (tmp_path / "holdfast.target").write_text(read_page_file("holdfast.target"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "holdfast@8001.service"],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        check=False,
    )
    ours = [line for line in verified.stderr.splitlines() if "holdfast" in line]
    assert (verified.returncode, ours) == (0, []), verified.stderr


def test_systemd_waits_longer_than_the_service() -> None:
    unit = read_page_file("holdfast@.service")
    command = shlex.split(unit.replace("\\\n", ""), comments=True)
    grace = float(command[command.index("--grace") + 1])
    (until_killed,) = re.findall(r"TimeoutStopSec=(\d+)", unit)
    assert float(until_killed) > grace + SECONDS_TO_CLOSE


@pytest.mark.skipif(not shutil.which("caddy"), reason="CADDY IS NOT INSTALLED")
def test_caddy_reads_its_file(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    text = read_page_file("Caddyfile").replace("/etc/holdfast/tls", str(tmp_path))
    (tmp_path / "Caddyfile").write_text(text)
    validate = ["caddy", "validate", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
    validated = subprocess.run(validate, capture_output=True, text=True, check=False)
    assert validated.returncode == 0, validated.stderr
