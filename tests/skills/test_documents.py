"""The model reads the files of a skill, and no other files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.skills.folders import write

from holdfast.skills.collection import Skills
from holdfast.skills.skill_limits import SkillLimits

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def test_a_document_is_read_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, "pdf", references__a_md="# Ä\n", empty_txt="", logo_png=PNG)
    skills = Skills(tmp_path)
    assert skills.read_skill_file("pdf", "references/a.md") == "# Ä\n"
    assert skills.read_skill_file("pdf", "./references/a.md") == "# Ä\n"
    assert skills.read_skill_file("pdf", "empty.txt") == ""
    assert skills.read_skill_file("pdf", "logo.png") == PNG


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is not a path"),
        ("  ", "is not a path"),
        ("/etc/passwd", "is not a path"),
        ("../secret.txt", "is not a path"),
        ("sub/../../secret.txt", "is not a path"),
        ("..\\secret.txt", "is not a path"),
        (".env", "does not exist"),
        ("sub/.env", "does not exist"),
        ("absent.md", "does not exist"),
        ("a\0b", "does not exist"),
        ("x" * 5_000, "does not exist"),
        ("sub", "is not a regular file"),
        (".", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("late.txt", "leads out of the skill's folder"),
        ("late/secret.txt", "leads out of the skill's folder"),
        ("hidden.txt", "does not exist"),
        ("data.bin", "is not a text (4 bytes)"),
        ("nul.txt", "is not a text"),
        ("large.txt", "is too large: 2,000 bytes, and the limit is 1,000"),
    ],
)
def test_a_file_that_cannot_be_read_is_explained(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "secret.txt").write_text("hunter2")
    place = write(tmp_path / "skills", "pdf", sub__x_md="x", data_bin=b"\xff\xfe\0\1")
    skills = Skills(tmp_path / "skills", limits=SkillLimits(document=1_000))
    for name in (".env", "sub/.env"):
        (place / name).write_text("hunter2")
    (place / "nul.txt").write_bytes(b"a\0b")
    (place / "large.txt").write_text("x" * 2_000)
    os.mkfifo(place / "pipe")
    # Made after the folder was checked.
    (place / "late.txt").symlink_to(tmp_path / "secret.txt")
    (place / "late").symlink_to(tmp_path)
    (place / "hidden.txt").symlink_to(place / ".env")
    answer = skills.read_skill_file("pdf", path)
    assert isinstance(answer, str)
    assert answer.startswith("Error: ")
    assert why in answer
    assert "hunter2" not in answer
    assert str(tmp_path) not in answer
    assert len(answer) < 400
    assert answer.endswith("Skill 'pdf' has: data.bin, sub/x.md.")


def test_refusing_leaves_no_file_open(tmp_path: Path) -> None:
    write(tmp_path, "pdf", sub__x_md="x", large_txt="x" * 20)
    skills = Skills(tmp_path, limits=SkillLimits(document=10))
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for path in ("sub", "large.txt", "absent"):
        skills.read_skill_file("pdf", path)
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_unknown_skill_lists_the_existing_ones(tmp_path: Path) -> None:
    write(tmp_path, "pdf-forms")
    skills = Skills(tmp_path)
    assert skills.read_skill_file("pdf-form", "x") == (
        "Error: there is no skill 'pdf-form'. Did you mean 'pdf-forms'? There are: pdf-forms."
    )
    assert skills.read_skill_file("pdf-forms", "x").endswith("'pdf-forms' has no documents.")
    assert len(str(skills.read_skill_file("x" * 100_000, "y"))) < 300
