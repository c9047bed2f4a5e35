"""Runs command lines in an empty bubblewrap sandbox, and says which programs ran with which words.

Every program is a stub that logs its words. Some wrappers are real, so that what they run is a stub.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

STUB = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    static char record[65536];
    size_t size = 0;
    size = snprintf(record, 16, "%d", argc) + 1;
    for (int i = 0; i < argc; i++) {
        size_t length = strlen(argv[i]) + 1;
        if (size + length + 1 > sizeof record) return 3;
        memcpy(record + size, argv[i], length);
        size += length;
    }
    const char *log = getenv("STUB_LOG");
    int file = open(log ? log : "/log/lost", O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0 || write(file, record, size) != (ssize_t) size) return 3;
    close(file);  // it may be the standard output, if that was closed
    if (write(1, "st\n", 3) != 3) return 3;
    const char *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    return name[0] == 'f';
}
"""
STUBS = [
    "ls",
    "cat",
    "rm",
    "mv",
    "cp",
    "echo",
    "printf",
    "test",
    "true",
    "false",
    "wc",
    "sort",
    "head",
    "git",
    "curl",
    "sh",
    "bash",
    "python",
    "awk",
    "sed",
    "tee",
    "touch",
    "fa",
    "fb",
    "st",
    "a",
    "b",
    "c",
    "ab",
    "grep",
    "sudo",
    "time",
    "kill",
    "pwd",
    "[",
    "su",
    "ssh",
]
REAL = ("env", "nice", "nohup", "timeout", "xargs", "find", "setsid", "stdbuf")
# Builtins that change nothing about how a line is read become programs, and so are logged.
# A program that is not there is logged too, under its own name.
START = """enable -n echo printf test true false kill pwd [
unset BASH_ENV
command_not_found_handle() { (exec -a "$1" /stubs/st "${@:2}"); }
"""
DRIVER = r"""
PATH=/usr/bin:/bin
for file in /in/*; do
    number=${file##*/}
    mkdir "/w/$number" && cd "/w/$number" || exit 9
    line=$(cat "$file"; echo x); line=${line%x}
    STUB_LOG=/log/$number BASH_ENV=/start HOME=/h PATH=/stubs TERM=dumb LC_ALL=C.UTF-8 \
        /usr/bin/timeout -s KILL 0.5 /usr/bin/bash --norc --noprofile -c "$line" \
        </dev/null >/dev/null 2>&1
    kill -9 -1 2>/dev/null  # what a line has left behind
done
exit 0
"""


class Ran(NamedTuple):
    """What a line did: the programs with their words, and the files that it made."""

    programs: tuple[tuple[str, ...], ...]
    files: tuple[str, ...]


def find_missing() -> str:
    """Return what is missing for the sandbox, or nothing."""
    for program in ("bwrap", "cc", "bash"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
         "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "/usr/bin/true"],
        capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    return "" if probe.returncode == 0 else f"bwrap cannot make a sandbox: {probe.stderr.decode()}"


def build_stubs(folder: Path) -> Path:
    """Compile the stub and link it under its names. Returns the folder of the stubs."""
    stubs = folder / "stubs"
    stubs.mkdir()
    source = folder / "stub.c"
    source.write_text(STUB)
    program = stubs / STUBS[0]
    command = ["cc", "-O1", "-o", str(program), str(source)]
    if subprocess.run([*command, "-static"], capture_output=True, check=False).returncode:
        subprocess.run(command, check=True)
    for name in STUBS[1:]:
        os.link(program, stubs / name)
    for name in REAL:
        (stubs / name).symlink_to(f"/usr/bin/{name}")
    return stubs


def run_lines(lines: Sequence[str], folder: Path, stubs: Path) -> list[Ran]:
    """Return what each line did.

    Args:
        lines: the lines.
        folder: an empty folder for this batch.
        stubs: the folder that `build_stubs` returned.
    """
    for name in ("in", "log", "w"):
        (folder / name).mkdir(parents=True)
    (folder / "start").write_text(START)
    for number, line in enumerate(lines):
        (folder / "in" / f"{number:05}").write_bytes(line.encode())
    subprocess.run(
        ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
         "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
         "--symlink", "usr/lib64", "/lib64", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
         "--tmpfs", "/h", "--ro-bind", str(stubs), "/stubs", "--ro-bind", str(folder / "in"), "/in",
         "--bind", str(folder / "log"), "/log", "--bind", str(folder / "w"), "/w",
         "--ro-bind", str(folder / "start"), "/start", "/usr/bin/bash", "--norc", "-c", DRIVER],
        check=True, timeout=60 + 3 * len(lines), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return [read_ran(folder, f"{number:05}") for number in range(len(lines))]


def read_ran(folder: Path, number: str) -> Ran:
    """Return what one line did."""
    log = folder / "log" / number
    words = log.read_bytes().split(b"\0") if log.exists() else []
    programs: list[tuple[str, ...]] = []
    position = 0
    while position + 1 < len(words):
        end = position + 1 + int(words[position])
        programs.append(tuple(word.decode(errors="replace") for word in words[position + 1 : end]))
        position = end
    work = folder / "w" / number
    files = tuple(sorted(str(path.relative_to(work)) for path in work.rglob("*")))
    return Ran(tuple(programs), files)
