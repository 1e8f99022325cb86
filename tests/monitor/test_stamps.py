"""Stamps of files: every change shows, and unchanged files are not read again."""

import os
from functools import partial

import pytest

from graphtemper import Graph
from graphtemper.monitor import Watch


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
