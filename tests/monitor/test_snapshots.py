"""Snapshots from files, folders and graphs with times."""

import os
from functools import partial
from itertools import chain, pairwise

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph
from graphtemper.errors import FileError, InputError
from graphtemper.monitor import Snapshot, Watch, windows
from graphtemper.monitor.snapshots import snapshots_of


def test_the_digest_of_a_window_covers_its_content():
    g = Graph(features=[[1.0]] * 4, edges=[[0, 1], [1, 2], [2, 3]], time=[1, 1, 2, 3])
    other = g.replace(features=np.array([[1.0], [1.0], [1.0], [2.0]], np.float32))
    names, digests = zip(*((s.name, s.digest) for s in windows(g, 2)), strict=True)
    changed = [s.digest for s in windows(other, 2)]
    assert len({*digests, *changed}) == 4
    assert names == tuple(s.name for s in windows(other, 2))


def test_windows_cover_every_known_node_once():
    time = np.array([3, 1, 0, 2, 2, 5, 4, 9])
    g = Graph(features=np.arange(8.0)[:, None], edges=[[0, 1], [1, 3], [5, 7]], time=time)
    evaluated = [s.load(2).features[s.nodes, 0].tolist() for s in windows(g, 3)]
    assert sorted(chain(*evaluated)) == [0, 1, 3, 4, 5, 6, 7]
    times = [[time[int(node)] for node in part] for part in evaluated]
    assert all(max(a) < min(b) for a, b in pairwise(times))
    with pytest.raises(InputError):
        list(windows(g.replace(time=None), 3))


def test_missing_and_repeated_names(tmp_path, day):
    with pytest.raises(FileError):
        snapshots_of([tmp_path], 2)
    with pytest.raises(FileError):
        snapshots_of([tmp_path / "no.npz"], 2)
    with pytest.raises(InputError):
        snapshots_of([], 2)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        day(1).save(tmp_path / folder / "same.npz")
    with pytest.raises(InputError):
        snapshots_of([tmp_path / "a", tmp_path / "b"], 2)


def test_folders_of_tables_are_graphs(tmp_path):
    for name in ("day2", "day10"):
        for table in ("logits", "edges", "nodes"):
            folder = tmp_path / "days" / name / table
            folder.mkdir(parents=True)
            (folder / "part.parquet").write_bytes(f"{name} {table}".encode())
    found = snapshots_of([tmp_path / "days"], 2)
    assert [item.name for item in found] == ["day2", "day10"]
    assert found[0].load(2).graph == tmp_path / "days" / "day2" / "edges"
    before, stamp = found[0].checksum(found[0].load(2)), found[0].stamp()
    assert before != found[1].checksum(found[1].load(2))
    (tmp_path / "days" / "day2" / "nodes" / "part.parquet").write_bytes(b"other")
    assert found[0].checksum(found[0].load(2)) != before
    assert found[0].stamp() != stamp


def test_files_are_sorted_by_date_or_else_by_name(tmp_path):
    for name in ("west-2024-02", "east-2024-10", "north-2023-11", "s2", "s10"):
        (tmp_path / f"{name}.npz").write_bytes(b"")
    names = ("west-2024-02.npz", "east-2024-10.npz", "north-2023-11.npz")
    found = snapshots_of([tmp_path / name for name in names], 2)
    assert [snapshot.when for snapshot in found] == ["2023-11", "2024-02", "2024-10"]
    # A shell lists s10 before s2.
    found = snapshots_of([tmp_path / "s10.npz", tmp_path / "s2.npz"], 2)
    assert [snapshot.name for snapshot in found] == ["s2.npz", "s10.npz"]
    assert [snapshot.when for snapshot in found] == [None, None]


def test_snapshots_and_files_are_not_mixed(tmp_path):
    with raises("wrong-type"):
        snapshots_of([Snapshot("a", Graph), tmp_path / "b.npz"], 2)


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
