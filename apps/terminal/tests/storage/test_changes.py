import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apps.terminal.tests.storage.folders import list_names
from hypothesis import given, settings
from hypothesis import strategies as st

from adh.storage.changes import ChangeStore, FileChange, make_change_id
from adh.storage.content_digest import ABSENT, digest_bytes, digest_path
from adh.storage.file_undo import plan_undo, undo_changes
from adh.storage.pending_writes import PendingWrites
from adh.storage.storage_errors import ChangedContentError, StorageError

AT = datetime(2026, 3, 14, tzinfo=UTC)


class Project:
    """A project whose files an agent changes, as the file tools record it."""

    def __init__(self, folder: Path, session: str = "s") -> None:
        self.root = folder / "project"
        self.root.mkdir()
        self.store = ChangeStore(folder / "changes")
        self.pending = PendingWrites(folder / "pending")
        self.session = session

    def change(self, turn: int, name: str, content: str | None) -> None:
        path = self.root / name
        self.record(turn, path, content)
        if content is None:
            path.unlink()
        else:
            path.write_text(content)

    def record(self, turn: int, path: Path, content: str | None) -> None:
        before, mode = ABSENT, None
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            with path.open("rb") as file:
                before = self.store.save_content(self.session, file.fileno())
        change = FileChange(
            id=make_change_id(),
            at=AT,
            session=self.session,
            turn=turn,
            call=f"t{turn}.i0.tool.0",
            tool="write_file",
            path=str(path),
            before=before,
            after=ABSENT if content is None else digest_bytes(content.encode()),
            mode=mode,
        )
        self.store.record(change)

    def record_folder(self, turn: int, path: Path) -> None:
        change = FileChange(
            id=make_change_id(),
            at=AT,
            session=self.session,
            turn=turn,
            call="t1.i0.tool.0",
            tool="create_directory",
            path=str(path),
            kind="folder",
        )
        self.store.record(change)
        path.mkdir()

    def undo(self, turn: int) -> tuple[str, ...]:
        plan = plan_undo(self.store, self.session, turn)
        return undo_changes(self.store, self.pending, plan, AT)

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in self.root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_turn_is_undone_with_its_files_and_their_modes(project: Project) -> None:
    script = project.root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    project.change(1, "run.sh", "new")
    project.change(1, "new.txt", "new")
    project.change(2, "run.sh", None)
    assert len(project.undo(1)) == 2
    assert project.files() == {"run.sh": "old"}
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert project.store.list_changes("s") == ()


def test_earlier_turns_stay(project: Project) -> None:
    project.change(1, "a", "one")
    project.change(2, "a", "two")
    project.change(2, "b", "two")
    assert [change.turn for change in project.store.list_turn("s", 2)] == [2, 2]
    project.undo(2)
    assert project.files() == {"a": "one"}
    assert [change.turn for change in project.store.list_changes("s")] == [1]


def test_a_file_that_the_person_changed_is_named_and_nothing_is_touched(project: Project) -> None:
    project.change(1, "a", "agent")
    project.change(1, "b", "agent")
    (project.root / "b").write_text("person")
    plan = plan_undo(project.store, "s", 1)
    assert [conflict.path for conflict in plan.conflicts] == [str(project.root / "b")]
    with pytest.raises(ChangedContentError, match="somebody else since"):
        project.undo(1)
    assert project.files() == {"a": "agent", "b": "person"}


def test_what_the_person_wrote_between_two_changes_is_not_lost(project: Project) -> None:
    project.change(1, "a", "agent")
    (project.root / "a").write_text("person")
    project.change(2, "a", "agent again")
    with pytest.raises(ChangedContentError, match="between two changes"):
        project.undo(1)
    project.undo(2)
    assert project.files() == {"a": "person"}


def test_a_file_that_changes_after_the_plan_was_shown_stops_the_undo(project: Project) -> None:
    project.change(1, "a", "agent")
    project.change(1, "b", "agent")
    plan = plan_undo(project.store, "s", 1)
    (project.root / "b").write_text("person")
    with pytest.raises(ChangedContentError, match="since the undo was shown"):
        undo_changes(project.store, project.pending, plan, AT)
    assert project.files() == {"a": "agent", "b": "person"}


def test_an_undo_that_a_crash_cut_goes_on(project: Project) -> None:
    for name in ("a", "b"):
        (project.root / name).write_text("old")
        project.change(1, name, "new")
    (project.root / "a").write_text("old")  # as far as the crash let it come
    assert project.undo(1) == (str(project.root / "b"),)
    assert project.files() == {"a": "old", "b": "old"}


def test_a_crash_between_the_record_and_the_write_is_no_conflict(project: Project) -> None:
    (project.root / "a").write_text("old")
    project.record(1, project.root / "a", "never written")
    assert project.undo(1) == ()
    assert project.files() == {"a": "old"}


def test_empty_folders_go_and_others_stay(project: Project) -> None:
    project.record_folder(1, project.root / "x")
    project.record_folder(1, project.root / "x" / "y")
    project.record_folder(1, project.root / "z")
    project.change(1, "x/y/f", "agent")
    (project.root / "z" / "mine").write_text("person")
    project.undo(1)
    assert project.files() == {"z/mine": "person"}
    assert not (project.root / "x").exists()


def test_a_link_in_place_of_a_file_is_a_conflict(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    (project.root / "a").write_text("old")
    project.change(1, "a", "new")
    (project.root / "a").unlink()
    (project.root / "a").symlink_to(outside)
    with pytest.raises(ChangedContentError, match="symbolic link"):
        project.undo(1)
    assert outside.read_text() == "secret"


def test_a_stored_content_is_private_and_checked(project: Project, tmp_path: Path) -> None:
    (project.root / "a").write_text("old")
    project.change(1, "a", "new")
    contents = tmp_path / "changes" / "s" / "contents"
    (stored,) = contents.iterdir()
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    stored.write_text("damaged")
    with pytest.raises(StorageError, match="is damaged"):
        project.undo(1)
    assert project.files() == {"a": "new"}
    assert list_names(tmp_path / "pending") == []


@pytest.mark.parametrize("session", ["../../x", "a/b", "..", "", "ü" * 300, "a\nb"])
def test_a_session_of_any_name_has_a_folder_of_its_own(tmp_path: Path, session: str) -> None:
    project = Project(tmp_path, session)
    project.change(1, "a", "agent")
    assert len(list_names(tmp_path / "changes")) == 1
    assert len(project.store.list_changes(session)) == 1
    project.store.delete_session(session)
    assert list_names(tmp_path / "changes") == []
    project.store.delete_session(session)


def test_old_changes_are_deleted(project: Project, tmp_path: Path) -> None:
    project.change(1, "a", "agent")
    log = tmp_path / "changes" / "s" / "changes.jsonl"
    os.utime(log, (AT.timestamp(), AT.timestamp()))
    assert project.store.delete_before(AT) == 0
    assert project.store.delete_before(AT + timedelta(seconds=1)) == 1
    assert project.store.list_changes("s") == ()


def test_a_torn_record_is_skipped(project: Project, tmp_path: Path) -> None:
    project.change(1, "a", "agent")
    log = tmp_path / "changes" / "s" / "changes.jsonl"
    log.write_bytes(log.read_bytes() + b'{"type":"change","id"')
    project.change(2, "b", "agent")
    assert [change.turn for change in project.store.list_changes("s")] == [1, 2]


@settings(max_examples=30, deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.text("xy", max_size=2))),
        max_size=8,
    ),
    first=st.integers(1, 9),
)
def test_an_undo_gives_back_what_was_there(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, str | None]],
    first: int,
) -> None:
    project = Project(tmp_path_factory.mktemp("undo"))
    states = []
    for turn, (name, content) in enumerate(changes, start=1):
        states.append(project.files())
        if content is not None or (project.root / name).exists():
            project.change(turn, name, content)
    states.append(project.files())
    project.undo(first)
    assert project.files() == states[min(first, len(states)) - 1]
    assert digest_path(str(project.root / "none")) == ABSENT
