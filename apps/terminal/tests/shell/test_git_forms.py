"""The forms of git that only read, and a hostile repository in which they run nothing."""

from __future__ import annotations

import os
import posixpath
import subprocess
from pathlib import Path

import pytest

from adh.shell import find_uses, is_read_only_git, parse_command_line
from adh.tools.command_runner import find_shell
from adh.tools.command_tool import make_git_environment

READ_ONLY = (
    "git status", "git status --short --branch", "git log", "git log -p -3 --stat -- a.py", "git diff HEAD",
    "git diff --cached", "git show HEAD", "git show --stat HEAD~1", "git branch", "git branch -a -v",
    "git branch --list x*", "git remote", "git remote -v", "git log --format=%H", "git log --no-ext-diff",
)  # fmt: skip
OTHERS = (
    "git", "git commit", "git log --output=f", "git log --output f", "git log --ou=f", "git diff --ext-diff",
    "git diff --textconv", "git diff --no-index a b", "git diff ../a", "git diff /a", "git show --textconv",
    "git -c a=b status", "git -C a status", "git --exec-path=a status", "git -p log", "git --git-dir=a log",
    "git branch x", "git branch -D x", "git branch -m x", "git branch --edit-description", "git branch -u x",
    "git branch --set-upstream-to=x", "git branch -f x", "git branch -c x", "git remote add a b",
    "git remote update", "git remote show a", "git remote -v update", "git status --unknown", "git stash",
    "git log --show-signature", "git log -O f", "git diff -Of", "git log --config=x", "gitk", "git fetch",
    "git show :.env", "git log -p -- .e*", "git diff -- [.]env", "git log -L1,9:.env", "git log -- \\.env",
    "git branch --list -D x", "git status -x", "/bin/git status", "git log --remerge-diff",
)  # fmt: skip
SIGNED = "tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\nm\n"


@pytest.mark.parametrize("line", READ_ONLY)
def test_a_form_only_reads(line: str) -> None:
    assert is_read_only_git(line.split())


def test_other_forms_may_do_more() -> None:
    assert [line for line in OTHERS if is_read_only_git(line.split())] == []


def test_an_unknown_word_may_be_any_option() -> None:
    assert not is_read_only_git(["git", "log", None])
    assert not is_read_only_git([None, "log"])


def run_git(repository: Path, *arguments: str, text: str | None = None) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=repository, env=environment, input=text, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A repository that has git run a program in every way that its settings know."""
    repository = tmp_path / "repository"
    repository.mkdir()
    program = repository / "evil"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/ran\ncat 2>/dev/null\n')
    program.chmod(0o755)
    run_git(repository, "init", "-q", "-b", "main")
    (repository / "a.txt").write_text("one\n")
    (repository / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    run_git(repository, "add", "a.txt", ".gitattributes")
    run_git(repository, "commit", "-q", "-m", "m")
    tree = run_git(repository, "rev-parse", "HEAD^{tree}")
    commit = run_git(
        repository, "hash-object", "-t", "commit", "-w", "--stdin", text=SIGNED.format(tree=tree)
    )
    run_git(repository, "update-ref", "refs/heads/main", commit)
    (repository / "a.txt").write_text("two\n")
    hooks = repository / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / name).symlink_to(program)
    for name in SETTINGS:
        run_git(repository, "config", name, str(program))
    run_git(repository, "config", "core.hooksPath", str(hooks))
    run_git(repository, "config", "log.showSignature", "true")
    run_git(repository, "config", "alias.st", f"!{program}")
    return repository


SETTINGS = (
    "core.fsmonitor", "core.pager", "pager.log", "pager.status", "pager.diff", "pager.show", "pager.branch",
    "diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.process", "gpg.program",
    "filter.evil.clean", "filter.evil.smudge", "filter.the Évil.one.clean", "merge.evil.driver", "gpg.openpgp.program",
    "core.editor", "core.askPass", "core.sshCommand", "credential.helper", "interactive.diffFilter",
    "core.alternateRefsCommand", "sequence.editor", "trailer.x.command",
)  # fmt: skip


def run_safely(repository: Path, line: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], "HOME": str(repository)}
    programs = repository.parent / "programs"
    programs.mkdir(mode=0o700, exist_ok=True)
    return subprocess.run(
        [find_shell(), "-c", line], cwd=repository, env=make_git_environment(base, programs), text=True,
        capture_output=True, check=False, timeout=30,
    )  # fmt: skip


def test_the_repository_is_hostile(hostile: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(hostile)}
    for line in ("git status", "git diff", "git log -1"):
        subprocess.run(
            line.split(), cwd=hostile, env=environment, capture_output=True, check=False, timeout=30
        )
    assert (hostile.parent / "ran").exists()


def test_a_read_only_form_runs_nothing_of_a_hostile_repository(hostile: Path) -> None:
    before = {path: path.read_bytes() for path in hostile.rglob("*") if path.is_file()}
    for line in READ_ONLY:
        run_safely(hostile, line)
    assert not (hostile.parent / "ran").exists(), (hostile.parent / "ran").read_text()
    assert {path: path.read_bytes() for path in hostile.rglob("*") if path.is_file()} == before


def test_a_read_only_form_still_answers(hostile: Path) -> None:
    assert "m\n" in run_safely(hostile, "git log").stdout
    assert "main" in run_safely(hostile, "git branch").stdout


def test_a_comparison_of_any_two_files_is_refused_outside_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(name)
    plain = subprocess.run(["git", "diff", "a", "b"], cwd=folder, capture_output=True, check=False)
    assert b"+b" in plain.stdout
    done = run_safely(folder, "git diff a b")
    assert (done.returncode, done.stdout) == (128, "")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("git diff .env", {"/p/.env"}),
        ("git show HEAD:conf/.env", {"/p/conf/.env"}),
        ("git log -p -3 HEAD -- a.pem", {"/p/HEAD", "/p/a.pem"}),
        ("git log main..HEAD~2", {"/p/main..HEAD~2"}),
    ],
)
def test_what_a_form_shows_is_read(line: str, shown: set[str]) -> None:
    (use,) = find_uses(parse_command_line(line), "/p", "/h", posixpath.normpath)
    assert {path.path for path in use.paths} == shown
    assert use.read_only


def test_files_elsewhere_are_not_shown_as_those_of_the_repository(tmp_path: Path) -> None:
    home = tmp_path / "home"
    project = home / "project"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("a private key")
    project.mkdir()
    run_git(project, "init", "-q")
    run_git(project, "config", "core.worktree", str(home))
    blob = run_git(project, "hash-object", "-w", "--stdin", text="x")
    run_git(project, "update-index", "--add", "--cacheinfo", f"100644,{blob},.ssh/id_rsa")
    assert "a private key" in run_git(project, "diff")
    for line in ("git diff", "git status"):
        done = run_safely(project, line)
        assert (done.returncode, done.stdout) == (128, ""), done


def test_a_submodule_and_a_linked_worktree_are_read(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for repository in (inner, outer):
        repository.mkdir()
        run_git(repository, "init", "-q", "-b", "main")
        run_git(repository, "commit", "-q", "--allow-empty", "-m", "m")
    run_git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    run_git(outer, "worktree", "add", "-q", str(tmp_path / "linked"))
    for folder in (outer / "sub", tmp_path / "linked", outer):
        assert run_safely(folder, "git status").returncode == 0


def test_the_state_of_a_rebase_that_is_a_link_is_not_shown(hostile: Path) -> None:
    secret = hostile.parent / "secret"
    secret.write_text("pick a secret\npick another\n")
    state = hostile / ".git" / "rebase-merge"
    state.mkdir()
    (state / "interactive").touch()
    (state / "git-rebase-todo").touch()
    (state / "done").symlink_to(secret)
    environment = {"PATH": os.environ["PATH"], "HOME": str(hostile)}
    plain = subprocess.run(
        ["git", "status"], cwd=hostile, env=environment, capture_output=True, check=False
    )
    assert b"another" in plain.stdout
    assert "another" not in run_safely(hostile, "git status").stdout
