"""Finding skills in real folders, and errors for hostile ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.skills.folders import write

from holdfast.core.errors import ConfigurationError
from holdfast.skills.collection import Skills, find_skills
from holdfast.skills.skill_limits import SkillLimits


def test_the_skills_of_a_folder_are_found_with_their_documents(tmp_path: Path) -> None:
    write(tmp_path, "pdf", body="# Forms\n\nFill in.", references__fields_md="x", run_py="y")
    write(tmp_path, "docx")
    (tmp_path / "notes").mkdir()
    (tmp_path / "README.md").write_text("about")
    (tmp_path / ".git").mkdir()
    docx, pdf = find_skills(tmp_path)
    assert (docx.name, docx.documents) == ("docx", ())
    assert pdf.description == "About pdf."
    assert pdf.instructions == "# Forms\n\nFill in."
    assert pdf.documents == ("references/fields.md", "run.py")
    assert pdf.folder == (tmp_path / "pdf").resolve()


def test_the_folder_of_one_skill_is_that_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write(tmp_path, "pdf")
    monkeypatch.chdir(place)
    assert [one.name for one in find_skills(".")] == ["pdf"]
    assert find_skills(str(place)) == find_skills(place)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    file = write(tmp_path, "pdf") / "SKILL.md"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert find_skills(tmp_path)[0].name == "pdf"


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "absent", tmp_path / "file", "a\0b"):
        with pytest.raises(ConfigurationError, match="cannot be read as a folder"):
            find_skills(wrong)
    with pytest.raises(ConfigurationError, match="must be a text or PathLike, got int"):
        find_skills(3)  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ConfigurationError, match=r"contains no skill\. Put a folder with a SKILL\.md"
    ):
        find_skills(tmp_path / "empty")


def test_one_broken_skill_is_an_error_that_names_its_file(tmp_path: Path) -> None:
    write(tmp_path, "good")
    place = write(tmp_path, "bad", head="name: worse\ndescription: x")
    with pytest.raises(ConfigurationError) as refused:
        find_skills(tmp_path)
    assert refused.value.argument == f"{place.resolve() / 'SKILL.md'}:2 name"
    assert refused.value.fix == "Rename the folder, or write its name here"


def test_a_skill_file_with_another_case_is_refused(tmp_path: Path) -> None:
    place = write(tmp_path, "pdf")
    (place / "SKILL.md").rename(place / "skill.md")
    with pytest.raises(ConfigurationError, match=r"must be named SKILL\.md\. Rename the file"):
        find_skills(tmp_path)


def test_ten_megabytes_of_instructions_are_refused_unless_allowed(tmp_path: Path) -> None:
    write(tmp_path, "pdf", body="x" * 10_000_000)
    with pytest.raises(
        ConfigurationError, match=r"10,000,\d+ bytes, and the limit is 100,000"
    ) as no:
        find_skills(tmp_path)
    assert "SkillLimits(instructions=" in no.value.fix
    (found,) = find_skills(tmp_path, limits=SkillLimits(instructions=11_000_000))
    assert len(found.instructions) == 10_000_000


def test_a_large_front_matter_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "pdf", head="name: pdf\ndescription: x\nextra: " + "y" * 20_000)
    with pytest.raises(ConfigurationError, match="the limit is 16,000"):
        find_skills(tmp_path)


def test_invalid_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, "pdf", body="one\ntwo") / "SKILL.md"
    file.write_bytes(file.read_bytes().replace(b"two", b"\xff"))
    with pytest.raises(ConfigurationError, match=r"SKILL\.md:6: is not valid UTF-8"):
        find_skills(tmp_path)


def test_too_many_files(tmp_path: Path) -> None:
    write(tmp_path, "pdf", a_md="", b_md="", c_md="")
    assert find_skills(tmp_path, limits=SkillLimits(documents=3))
    with pytest.raises(ConfigurationError, match="contains more than 2 files"):
        find_skills(tmp_path, limits=SkillLimits(documents=2))


def test_two_skills_of_one_name(tmp_path: Path) -> None:
    write(tmp_path / "a", "pdf")
    write(tmp_path / "b", "pdf")
    with pytest.raises(ConfigurationError, match="two are named 'pdf'") as refused:
        Skills(tmp_path / "a", tmp_path / "b")
    assert str(tmp_path / "a") in refused.value.problem
    assert str(tmp_path / "b") in refused.value.problem
    with pytest.raises(ConfigurationError, match="there are none"):
        Skills()


def test_a_skill_that_is_a_link_out_of_the_folder(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", "pdf")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "pdf").symlink_to(outside)
    with pytest.raises(ConfigurationError, match="is a link that leads out of the skill's folder"):
        find_skills(tmp_path / "skills")
    assert find_skills(tmp_path / "skills" / "pdf")[0].name == "pdf"  # this one was given by name


@pytest.mark.parametrize("name", ["SKILL.md", "key.txt", "deep/key.txt"])
def test_a_file_that_is_a_link_out_of_the_skill(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("---\nname: pdf\ndescription: x\n---\n")
    place = write(tmp_path / "skills", "pdf", deep__x_md="")
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigurationError, match="leads out of the skill's folder"):
        find_skills(tmp_path / "skills")


def test_a_folder_that_is_a_link_out_of_the_skill(tmp_path: Path) -> None:
    place = write(tmp_path / "skills", "pdf")
    (place / "etc").symlink_to("/etc")
    with pytest.raises(ConfigurationError, match=r"etc: is a link that leads out"):
        find_skills(tmp_path / "skills")


def test_links_that_lead_nowhere_and_in_a_circle(tmp_path: Path) -> None:
    place = write(tmp_path, "pdf")
    (place / "loop").symlink_to(place / "loop")
    with pytest.raises(ConfigurationError, match="is a link that does not exist"):
        find_skills(tmp_path)


def test_a_link_that_stays_inside_is_listed(tmp_path: Path) -> None:
    place = write(tmp_path, "pdf", a_md="x")
    (place / "b.md").symlink_to(place / "a.md")
    (place / "round").symlink_to(place)
    assert find_skills(tmp_path)[0].documents == ("a.md", "b.md")


def test_an_unprintable_file_name_is_refused(tmp_path: Path) -> None:
    place = write(tmp_path, "pdf")
    (place / "a\n## other:").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be shown"):
        find_skills(tmp_path)


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    place = write(tmp_path, "pdf")
    os.mkfifo(place / "pipe")
    assert find_skills(tmp_path)[0].documents == ()
    (place / "SKILL.md").unlink()
    os.mkfifo(place / "SKILL.md")
    with pytest.raises(ConfigurationError, match="is not a regular file"):
        find_skills(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    place = write(tmp_path, "pdf")
    (place / "SKILL.md").chmod(0)
    with pytest.raises(ConfigurationError, match=r"cannot be read \(PermissionError\)"):
        find_skills(tmp_path)


def test_pyyaml_is_imported_when_a_skill_is_read_and_not_before() -> None:
    code = "import sys; from holdfast import Skills; print('yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
