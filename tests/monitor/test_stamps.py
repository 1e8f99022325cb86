"""Stamps of files: every change shows, and unchanged files are not read again."""

import os
from functools import partial

import pytest

from graphtemper import Graph
from graphtemper._core.stamps import stamp
from graphtemper.errors import FileError
from graphtemper.monitor import Watch


def rewritten(path):
    path.write_bytes(b"2")


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(b"2")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    os.replace(other, path)


def back_dated(path):
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(b"2")
    os.utime(path, ns=times)


@pytest.mark.parametrize("change", [rewritten, replaced, back_dated])
def test_every_change_of_a_file_changes_its_stamp(tmp_path, change):
    path = tmp_path / "x"
    path.write_bytes(b"1")
    before = stamp([path])
    assert stamp([path]) == before
    tick = tmp_path / "tick"
    tick.touch()
    # The clocks of file systems tick every few milliseconds.
    while tick.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        tick.touch()
    change(path)
    assert stamp([path]) != before


def test_the_stamp_of_several_files_depends_on_each(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    a, b = tmp_path / "a", tmp_path / "b"
    assert len({stamp([a]), stamp([b]), stamp([a, b]), stamp([b, a])}) == 4


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(FileError):
        stamp([tmp_path / "no"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have names on POSIX systems only")
def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "endless.npz").symlink_to("/dev/zero")
    for name in ("pipe.npz", "endless.npz"):
        with pytest.raises(FileError):
            stamp([tmp_path / name])


@pytest.fixture
def reads(monkeypatch):
    """The names of graphs that were read."""
    names, load = [], Graph.load

    def counted(path):
        names.append(path.name)
        return load(path)

    monkeypatch.setattr(Graph, "load", counted)
    return names


@pytest.fixture
def again(watched, day, tmp_path):
    """Return a function that follows two files and returns what was missed or refused."""
    (tmp_path / "days").mkdir()
    for number in (1, 2):
        day(number).save(tmp_path / "days" / f"day{number}.npz")
    model, card = watched
    return lambda: Watch(tmp_path / "watch.sqlite", card).follow(model, tmp_path / "days").missed


def test_unchanged_files_are_not_read_again(again, tmp_path, reads):
    again()
    assert reads == ["day1.npz", "day2.npz"]
    assert again() == []
    assert len(reads) == 2
    os.utime(tmp_path / "days" / "day1.npz")  # touched: its content is compared
    again()
    assert reads[2:] == ["day1.npz"]


def test_a_changed_file_is_refused_whatever_its_times_say(again, day, tmp_path):
    again()
    path = tmp_path / "days" / "day1.npz"
    status = path.stat()
    day(3).save(path)
    path.write_bytes(path.read_bytes().ljust(status.st_size, b"\0")[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert [one.name for one in again()] == ["day1.npz"]


@pytest.mark.parametrize("left_out", ["labels", "train_masks", "name"])
def test_labels_masks_and_names_are_not_content(again, day, tmp_path, left_out):
    masked = partial(day(1).replace, train_masks=[[True] * 400])
    masked(name="before").save(tmp_path / "days" / "day1.npz")
    again()
    masked(**{left_out: "after" if left_out == "name" else None}).save(
        tmp_path / "days" / "day1.npz"
    )
    assert again() == []


def test_features_are_content(again, day, tmp_path):
    again()
    graph = day(1)
    graph.replace(features=graph.features + 1).save(tmp_path / "days" / "day1.npz")
    assert [one.name for one in again()] == ["day1.npz"]
