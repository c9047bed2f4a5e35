"""What packages carry: pages of commands run by bash and judged, and whole scripts that are only judged."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from apps.terminal.tests.conformance.shell.public_lines import (
    PAGES,
    list_page_lines,
    list_scripts,
)
from apps.terminal.tests.conformance.shell.sandbox import (
    build_stubs,
    find_missing,
    run_lines,
)
from apps.terminal.tests.conformance.shell.test_ground_truth import (
    BATCH,
    FULL,
    find_excuses,
    find_surprise,
)

from adh.shell import find_uses, parse_command_line

STEP = 1 if FULL else 20
LONGEST_SECONDS = 5.0
missing = find_missing()


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.skipif(not PAGES.is_dir(), reason="the pages of commands are not installed")
@pytest.mark.timeout(7200)
def test_what_bash_runs_of_public_lines_was_judged(tmp_path: Path) -> None:
    stubs = build_stubs(tmp_path)
    lines = list_page_lines()[::STEP]
    surprises: list[str] = []
    ran_programs = judged = 0
    for start in range(0, len(lines), BATCH):
        batch = lines[start : start + BATCH]
        ran_of = run_lines(batch, tmp_path / str(start), stubs)
        for text, ran in zip(batch, ran_of, strict=True):
            ran_programs += len(ran.programs)
            judged += not find_excuses(text)[0]
            if surprise := find_surprise(text, ran):
                surprises.append(surprise)
                print(surprise, flush=True)
    print(f"{len(lines)} lines, {judged} whose programs are known, {ran_programs} programs ran")
    assert not surprises
    assert ran_programs > len(lines) // 4
    assert judged > len(lines) // 4


@pytest.mark.timeout(3600)
def test_the_scripts_of_packages_are_read_in_bounded_time() -> None:
    scripts = list(list_scripts())[::STEP]
    valid = parsed = 0
    for path, text in scripts:
        started = time.process_time()
        line = parse_command_line(text)
        find_uses(line, "/w", "/h", os.path.normpath)
        assert time.process_time() - started < LONGEST_SECONDS, path
        check = subprocess.run(["bash", "-n", str(path)], capture_output=True, check=False)
        valid += check.returncode == 0
        parsed += check.returncode == 0 and line.problem != (
            "the line is not complete or not valid bash"
        )
    print(f"{len(scripts)} scripts, {valid} of them valid, {parsed} of these parsed")
    assert parsed > valid * 0.9
