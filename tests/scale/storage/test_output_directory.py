"""A directory gets its name when it is whole and on the disk, and keeps to its place."""

import os

import numpy as np
import pytest

from graphtemper.errors import WriteError
from graphtemper.scale import convert_graph
from graphtemper.scale.probability_files import write_part
from graphtemper.scale.storage.output_directory import atomic_directory

pytest.importorskip("pyarrow")
PART = [(np.arange(1), np.full((1, 2), 0.5))]


def test_a_graph_is_on_the_disk_before_it_has_its_name(problem, tmp_path, monkeypatch):
    steps, sync, rename = [], os.fsync, os.rename

    def synced(handle):
        steps.append(os.fstat(handle).st_ino)
        sync(handle)

    def renamed(old, new):
        steps.append("named")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    convert_graph(problem.target, tmp_path / "g", rows_per_shard=700)
    at = steps.index("named")
    made = [tmp_path / "g", *(tmp_path / "g").rglob("*")]
    assert len(made) == 1 + 1 + 3 * (1 + 3)
    assert {path.stat().st_ino for path in made} <= set(steps[:at])
    assert tmp_path.stat().st_ino in steps[at:]


def test_the_name_of_a_file_is_on_the_disk_too(tmp_path, monkeypatch):
    seen, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append(os.fstat(handle)), sync(handle)))
    write_part(tmp_path / "part.parquet", PART)
    assert [found.st_ino for found in seen] == [
        (tmp_path / "part.parquet").stat().st_ino,
        tmp_path.stat().st_ino,
    ]


def test_a_task_that_outlives_its_run_makes_no_folder(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_directory(tmp_path / "out") as folder:
        raise KeyboardInterrupt
    with pytest.raises(WriteError, match="No such file"):
        write_part(folder / "part-00001.parquet", PART)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_permissions_are_those_of_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with atomic_directory(tmp_path / "out") as folder:
            assert folder.stat().st_mode & 0o777 == 0o777 & ~mask
            write_part(folder / "x", PART)
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "out" / "x").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("note", ["victim", ".out.graphtemper-00000000-x", ""])
def test_a_damaged_note_about_a_room_removes_nothing(tmp_path, note):
    victim, hidden = tmp_path / (note or "victim"), tmp_path / ".out.graphtemper"
    victim.mkdir()
    hidden.mkdir()
    (hidden / "elsewhere").write_text(str(victim) if note else "")
    with atomic_directory(tmp_path / "out"):
        pass
    assert victim.is_dir()
    assert not hidden.exists()
