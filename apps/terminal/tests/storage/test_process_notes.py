import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adh.storage.process_notes import describe_own_process, is_process_running

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="the system has no /proc")


def test_this_process_runs() -> None:
    assert is_process_running(describe_own_process())


@needs_proc
def test_a_process_that_nobody_waited_for_does_not_run() -> None:
    words = [
        sys.executable,
        "-c",
        "from adh.storage.process_notes import *; import json; print(json.dumps(describe_own_process()))",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)  # its number is still in use
        assert not is_process_running(json.loads(text))
    assert not is_process_running(json.loads(text))


@needs_proc
def test_another_process_with_the_same_number_is_another_process() -> None:
    own = describe_own_process()
    assert not is_process_running(own | {"started": own["started"] + 1})


def test_without_a_start_the_number_decides() -> None:
    assert is_process_running({"process": os.getpid(), "started": 0})
    assert not is_process_running({"process": 999_999_999, "started": 0})


@pytest.mark.parametrize("note", [None, [], {}, {"process": "1", "started": 1}, {"process": 1}])
def test_what_is_no_note_is_refused(note: object) -> None:
    with pytest.raises(ValueError, match="must have the numbers"):
        is_process_running(note)
