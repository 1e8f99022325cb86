"""Stamps of files: every change shows, and unchanged files are not read again."""

import os
from functools import partial

import pytest

from graphtemper import Graph
from graphtemper._core.stamps import stamp
from graphtemper.errors import FileError, InputError
from graphtemper.monitor import Log, find_snapshots, fingerprint, follow


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
def watch(watched, day, tmp_path):
    (tmp_path / "days").mkdir()
    for number in (1, 2):
        day(number).save(tmp_path / "days" / f"day{number}.npz")
    model, card = watched

    def run():
        log = Log(tmp_path / "watch.sqlite", fingerprint(card))
        snapshots = find_snapshots([tmp_path / "days"])
        return [entry.name for entry in follow(model, snapshots, card, log)]

    return run


def test_unchanged_files_are_not_read_again(watch, tmp_path, reads):
    watch()
    assert reads == ["day1.npz", "day2.npz"]
    assert watch() == []
    assert len(reads) == 2
    os.utime(tmp_path / "days" / "day1.npz")  # touched: its content is compared
    watch()
    assert reads[2:] == ["day1.npz"]


def test_a_changed_file_is_refused_whatever_its_times_say(watch, day, tmp_path):
    watch()
    path = tmp_path / "days" / "day1.npz"
    status = path.stat()
    day(3).save(path)
    path.write_bytes(path.read_bytes().ljust(status.st_size, b"\0")[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    with pytest.raises(InputError):
        watch()


@pytest.mark.parametrize("left_out", ["labels", "train_masks", "name"])
def test_labels_masks_and_names_are_not_content(watch, day, tmp_path, left_out):
    masked = partial(day(1).replace, train_masks=[[True] * 400])
    masked(name="before").save(tmp_path / "days" / "day1.npz")
    watch()
    masked(**{left_out: "after" if left_out == "name" else None}).save(
        tmp_path / "days" / "day1.npz"
    )
    assert watch() == []


def test_features_are_content(watch, day, tmp_path):
    watch()
    graph = day(1)
    graph.replace(features=graph.features + 1).save(tmp_path / "days" / "day1.npz")
    with pytest.raises(InputError):
        watch()
