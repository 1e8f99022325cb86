"""Snapshots, and the watch over them."""

from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest

from graphtemper import Graph, csbm, recalibrate
from graphtemper.errors import FileError, InputError
from graphtemper.models import SIGN
from graphtemper.monitor import Log, Snapshot, find_logits, find_snapshots, follow, windows
from graphtemper.monitor.watch import alarms, fingerprint
from graphtemper.scale.conversion.convert import convert_graph


def test_an_entry_is_what_recalibrate_says(watched, tmp_path, shots, day):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    (entry,) = follow(model, card, shots(1), log)
    result = recalibrate(model, day(0).replace(labels=None), card)
    known = result.accuracy
    assert (entry.accuracy, entry.low, entry.high) == (known.value, known.low, known.high)
    assert entry.temperature == result.temperature
    assert entry.verdict == result.verdict
    assert log.entries() == [entry]


def test_another_model_is_refused_before_any_snapshot(watched, tmp_path, shots):
    model, card = watched
    other = SIGN(hops=2).fit(csbm.sample(800, 6, 0.85, 1.5, num_features=4, seed=1), range(400))
    wide = SIGN(hops=1).fit(csbm.sample(800, 6, 0.85, 1.5, num_features=5, seed=1), range(400))
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    for wrong, words in ((other, "answers a test graph differently"), (wide, "another model")):
        with pytest.raises(InputError, match=words):
            follow(wrong, card, shots(1), log, missed=print)
        with pytest.raises(InputError, match=words):
            follow(wrong, card, [], log)
    assert list(follow(model, card, [], log)) == []


def test_labels_change_nothing(watched, tmp_path, day):
    model, card = watched
    found = []
    for number, labels in enumerate((None, "kept")):
        graph = day(0) if labels else day(0).replace(labels=None)
        log = Log(tmp_path / f"{number}.sqlite", fingerprint(card))
        found += follow(model, card, [Snapshot("day", "0", lambda graph=graph: graph)], log)
    assert found[0] == found[1]


def test_interrupted_it_goes_on(watched, tmp_path, shots):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    watch = follow(model, card, shots(3), log)
    next(watch)
    watch.close()
    assert [entry.name for entry in follow(model, card, shots(3), log)] == ["day1", "day2"]
    whole = Log(tmp_path / "whole.sqlite", fingerprint(card))
    list(follow(model, card, shots(3), whole))
    assert log.entries() == whole.entries()


def test_a_snapshot_that_changed_is_refused(watched, tmp_path, shots, day):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    list(follow(model, card, shots(1), log))
    with pytest.raises(InputError, match="another content"):
        list(follow(model, card, [Snapshot("day0", "other", lambda: day(0))], log))


def test_a_late_snapshot_is_refused(watched, tmp_path, shots):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    first, second, third = shots(3)
    list(follow(model, card, [first, third], log))
    with pytest.raises(InputError, match="day1 comes before day2"):
        list(follow(model, card, [first, second, third], log))
    assert len(log.entries()) == 2


def meanwhile(shot, other):
    """A snapshot during whose measurement another process gets its turn."""

    def load():
        list(other)
        return shot.load()

    return replace(shot, load=load)


def test_another_process_does_not_put_the_log_out_of_order(watched, tmp_path, shots):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    first, second, third = shots(3)
    early = follow(model, card, [first, third], log)  # it looked before the second was there
    next(early)
    late = [first, meanwhile(second, early), third]
    with pytest.raises(InputError, match="day1 comes before day2, which is in the log already"):
        list(follow(model, card, late, log))
    assert [entry.name for entry in log.entries()] == ["day0", "day2"]


def test_what_another_process_added_unseen_is_an_error(watched, tmp_path, shots):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    first, second, third = shots(3)
    other = follow(model, card, [first, second], log)
    with pytest.raises(InputError, match="another process has added the snapshot day1"):
        list(follow(model, card, [first, meanwhile(third, other)], log))


def test_two_processes_over_the_same_snapshots_take_turns(watched, tmp_path, shots):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    first, second, third, fourth = shots(4)
    other = follow(model, card, [first, second, third], log)
    mine = [first, meanwhile(second, other), third, fourth]
    assert [entry.name for entry in follow(model, card, mine, log)] == ["day0", "day3"]
    assert [entry.name for entry in log.entries()] == ["day0", "day1", "day2", "day3"]


def test_windows_know_their_content():
    g = Graph(features=[[1.0]] * 4, edges=[[0, 1], [1, 2], [2, 3]], time=[1, 1, 2, 3])
    other = g.replace(features=np.array([[1.0], [1.0], [1.0], [2.0]], np.float32))
    names, digests = zip(*((s.name, s.digest) for s in windows(g, 2)), strict=True)
    changed = [s.digest for s in windows(other, 2)]
    assert len({*digests, *changed}) == 4
    assert names == tuple(s.name for s in windows(other, 2))


def test_errors_name_the_snapshot(watched, tmp_path):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    narrow = Graph(features=[[1.0]] * 3, edges=[[0, 1]])
    with pytest.raises(InputError, match="snapshot bad: "):
        list(follow(model, card, [Snapshot("bad", "0", lambda: narrow)], log))
    assert log.entries() == []


def test_drift_raises_an_alarm(watched, tmp_path, shots):
    model, card = watched
    log = Log(tmp_path / "watch.sqlite", fingerprint(card))
    list(follow(model, card, shots(25), log))
    assert alarms(log.entries(), 0.05) == []
    list(follow(model, card, shots(25, homophily=0.65, first=25), log))
    found = alarms(log.entries(), 0.05)
    assert found
    assert 25 < found[0].position < 50


def test_windows_cover_every_known_node_once():
    time = np.array([3, 1, 0, 2, 2, 5, 4, 9])
    g = Graph(features=np.arange(8.0)[:, None], edges=[[0, 1], [1, 3], [5, 7]], time=time)
    seen = [s.load().features[s.nodes, 0].tolist() for s in windows(g, 3)]
    assert sorted(chain(*seen)) == [0, 1, 3, 4, 5, 6, 7]
    times = [[time[int(node)] for node in part] for part in seen]
    assert all(max(a) < min(b) for a, b in pairwise(times))
    with pytest.raises(InputError, match="no times"):
        list(windows(g.replace(time=None), 3))


def test_names_and_files(tmp_path, day):
    with pytest.raises(FileError, match="holds no snapshot"):
        find_snapshots([tmp_path])
    with pytest.raises(FileError, match="there is no snapshot"):
        find_snapshots([tmp_path / "no.npz"])
    with pytest.raises(InputError, match="no snapshots"):
        find_snapshots([])
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        day(1).save(tmp_path / folder / "same.npz")
    with pytest.raises(InputError, match="two snapshots are called same"):
        find_snapshots([tmp_path / "a", tmp_path / "b"])


def test_sharded_graphs_are_watched_through_their_logits(tmp_path, day):
    convert_graph(day(1), tmp_path / "days" / "day1.shards")
    for folder in (tmp_path / "days", tmp_path / "days" / "day1.shards"):
        with pytest.raises(FileError, match="sharded graph, which is watched through its logits"):
            find_snapshots([folder])
        with pytest.raises(FileError, match="sharded graph, which is watched through its logits"):
            find_logits([folder], 2)
