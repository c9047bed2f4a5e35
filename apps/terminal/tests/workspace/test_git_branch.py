import subprocess
from pathlib import Path

from adh.workspace.assembly import find_repository
from adh.workspace.git_branch import find_branch


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_branch_is_read_as_git_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=feature/prices")
    assert find_repository(folder / "sub") == str(folder)
    assert find_branch(str(folder)) == "feature/prices"
    git(folder, "commit", "--quiet", "--allow-empty", "--message=Begin")
    git(folder, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    assert find_branch(str(tmp_path / "linked")) == "other"
    git(folder, "checkout", "--quiet", "--detach")
    assert find_branch(str(folder)) == git(folder, "rev-parse", "HEAD")[:8]


def test_without_a_repository_or_with_a_damaged_one_there_is_no_branch(tmp_path: Path) -> None:
    assert find_branch("") == ""
    assert find_branch(str(tmp_path)) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\x1b[2J not a commit\n")
    assert find_branch(str(tmp_path)) == ""
