"""Snapshots of logits: the answer of `recalibrate_logits`, in one pass and without a file."""

import importlib
import json

import numpy as np
import pytest

from graphtemper import recalibrate
from graphtemper.cli import app
from graphtemper.errors import FileError, InputError
from graphtemper.monitor import (
    Log,
    LogitArray,
    LogitSnapshot,
    alarms,
    find_logits,
    find_snapshots,
    fingerprint,
    follow,
    follow_logits,
)
from graphtemper.monitor import logit_snapshots as room
from graphtemper.scale.logits.logit_tables import LogitTables, recalibrate_logits

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(folder, logits, parts=3):
    folder.mkdir(parents=True)
    for part, rows in enumerate(np.array_split(logits, parts)):
        columns = {f"logit_{k}": column for k, column in enumerate(rows.T)}
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    return folder


@pytest.fixture
def said(watched, day):
    return lambda number, homophily=0.85: watched[0](day(number, homophily)).astype(np.float64)


@pytest.fixture
def log(watched, tmp_path):
    return Log(tmp_path / "watch.sqlite", fingerprint(watched[1]), kind="logits")


def names(snapshots):
    return [snapshot.name for snapshot in snapshots]


def test_an_entry_is_what_recalibrate_logits_says(watched, said, log, tmp_path):
    card = watched[1]
    place = write(tmp_path / "day1", said(1))
    (entry,) = follow_logits(card, find_logits([place], 2), log)
    known = recalibrate_logits(place, card, tmp_path / "answer")
    assert (entry.accuracy, entry.low, entry.high) == (
        known.accuracy.value,
        known.accuracy.low,
        known.accuracy.high,
    )
    assert (entry.temperature, entry.slope) == (known.temperature, known.slope)
    assert (entry.verdict, entry.num_nodes) == (known.verdict, 400)
    assert (list(entry.reasons), entry.signals) == (
        [str(reason) for reason in known.reasons],
        known.signals,
    )
    assert log.entries() == [entry]


def test_all_formats_give_the_same_numbers(watched, said, log, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "VALUES_AT_ONCE", 100)  # 16 parts of the arrays
    logits = said(1)
    write(tmp_path / "all" / "1", logits)
    pq.write_table(pa.table({"logits": logits.tolist()}), tmp_path / "2.parquet")
    np.save(tmp_path / "3.npy", logits)
    np.save(tmp_path / "4.npy", np.asfortranarray(logits))
    np.savez(tmp_path / "5.npz", logits=logits)
    places = [tmp_path / "all", *sorted(tmp_path.glob("*.*p*"))]
    entries = list(follow_logits(watched[1], find_logits(places, 2), log))
    assert names(entries) == ["1", "2.parquet", "3.npy", "4.npy", "5.npz"]
    for entry in entries[1:]:
        assert entry.accuracy == pytest.approx(entries[0].accuracy, rel=1e-12)
        assert entry.temperature == pytest.approx(entries[0].temperature, rel=1e-9)
        assert entry.signals == pytest.approx(entries[0].signals, rel=1e-9)


def test_the_graph_adds_only_what_takes_features(watched, said, day, log):
    card = watched[1]
    shot = LogitSnapshot("day1", "1", lambda: LogitArray(said(1), 2))
    (entry,) = follow_logits(card, [shot], log)
    known = recalibrate(said(1), day(1).replace(labels=None), card)
    for name in ("confidence", "confident share", "certain share"):
        assert entry.signals[name] == pytest.approx(known.signals[name], rel=1e-9)
    assert entry.accuracy == pytest.approx(known.accuracy.value, rel=1e-9)
    assert "log_degree" not in entry.signals
    assert entry.verdict != "trust"


def test_every_shard_is_read_once(watched, said, log, tmp_path, monkeypatch):
    write(tmp_path / "days" / "day1", said(1), parts=5)
    read, plain = [], LogitTables.batches

    def counted(self, shard):
        read.append(shard)
        return plain(self, shard)

    monkeypatch.setattr(LogitTables, "batches", counted)
    list(follow_logits(watched[1], find_logits([tmp_path / "days"], 2), log))
    assert read == [0, 1, 2, 3, 4]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["days", "watch.sqlite"]


def test_mean_confidence_is_known_without_writing(watched, said, tmp_path, monkeypatch):
    tables = importlib.import_module("graphtemper.scale.logits.logit_tables")
    place = write(tmp_path / "day1", said(1))
    known = recalibrate_logits(place, watched[1], tmp_path / "answer").mean_confidence
    parts = LogitTables.open(place, 2)
    found = tables.estimate_logits(parts, watched[1]).mean_confidence
    assert found == pytest.approx(known, abs=1e-8)
    monkeypatch.setattr(tables, "REACH", 0.0)  # beyond the sketch: by one more pass
    assert tables.estimate_logits(parts, watched[1]).mean_confidence == pytest.approx(known)


def test_what_is_a_snapshot(said, tmp_path):
    days = tmp_path / "days"
    for name in ("day=10", "day=9", "_temporary", ".hidden"):
        write(days / name, said(1))
    (days / "empty").mkdir()
    (days / "notes.txt").touch()
    assert names(find_logits([days], 2)) == ["day=9", "day=10"]
    assert names(find_logits([days / "day=10", days / "day=9"], 2)) == ["day=10", "day=9"]
    np.save(days / "day=11.npy", said(1))
    assert names(find_logits([days], 2))[-1] == "day=11.npy"
    np.save(days / "day=9" / "odd.npy", said(1))
    with pytest.raises(FileError, match=r"Parquet files and, as odd\.npy, other snapshots"):
        find_logits([days / "day=9"], 2)
    with pytest.raises(FileError, match="holds no snapshot; name Parquet"):
        find_logits([days / "empty"], 2)
    with pytest.raises(FileError, match="there is no snapshot"):
        find_logits([days / "notes.txt"], 2)
    with pytest.raises(InputError, match="no snapshots"):
        find_logits([], 2)


def test_folders_as_spark_names_them(watched, said, log, tmp_path):
    for number in (1, 2):
        write(tmp_path / "days" / f"day{number}.parquet", said(number))
    (tmp_path / "days" / "_SUCCESS").touch()
    (tmp_path / "days" / "day1.parquet" / "old.parquet").mkdir()  # a folder is no shard
    shots = find_logits([tmp_path / "days"], 2)
    assert names(shots) == ["day1.parquet", "day2.parquet"]
    assert names(follow_logits(watched[1], shots, log)) == ["day1.parquet", "day2.parquet"]
    assert names(find_logits([tmp_path / "days" / "day2.parquet"], 2)) == ["day2.parquet"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda content: content + b"more", "its header claims"),
        (lambda content: content[:-1], "its header claims"),
        (lambda content: b"PK" + content, "damaged or not an .npy"),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_that_are_not_what_they_claim(said, tmp_path, spoil, words, order):
    path = tmp_path / "day.npy"
    np.save(path, np.asarray(said(1), order=order))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(FileError, match=words):
        LogitArray.open(path, 2)


def test_an_archive_called_npy(watched, said, log, tmp_path):
    np.savez(tmp_path / "day.npz", logits=said(1))
    (tmp_path / "day.npz").rename(tmp_path / "day.npy")
    missed = []
    shots = find_logits([tmp_path / "day.npy"], 2)
    assert list(follow_logits(watched[1], shots, log, missed=missed.append)) == []
    assert "damaged or not an .npy" in missed[0].reason


def test_a_folder_that_cannot_be_looked_into_is_missed(watched, said, log, tmp_path, monkeypatch):
    for number in (1, 2):
        write(tmp_path / "days" / f"day{number}", said(number))
    shut, plain = tmp_path / "days" / "day1", room.listed

    def listed(folder):
        if folder == shut:
            raise FileError("permission denied")
        return plain(folder)

    monkeypatch.setattr(room, "listed", listed)
    shots = find_logits([tmp_path / "days"], 2)
    assert names(shots) == ["day1", "day2"]
    for path in shut.iterdir():
        path.unlink()  # what a folder shows whose files may not be listed
    missed = []
    assert names(follow_logits(watched[1], shots, log, missed=missed.append)) == ["day2"]
    assert names(missed) == ["day1"]


def test_a_new_shard_is_another_content(watched, said, log, tmp_path):
    card, place = watched[1], write(tmp_path / "day1", said(1))
    list(follow_logits(card, find_logits([place], 2), log))
    (place / "part-0.parquet").rename(place / "part-9.parquet")
    with pytest.raises(InputError, match="day1 is in the log with another content"):
        list(follow_logits(card, find_logits([place], 2), log))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((5, 3)), r"must have shape \(N, 2\)"),
        (np.zeros(5), r"must have shape \(N, 2\)"),
        (np.array([[0.0, np.nan]]), "from row 0 on: .* must be finite"),
        (np.array([["a", "b"]]), "must be real numbers"),
        (np.zeros((0, 2)), "no rows of logits"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_that_are_no_logits(watched, log, tmp_path, values, words, suffix):
    path = tmp_path / f"day.{suffix}"
    np.save(path, values) if suffix == "npy" else np.savez(path, logits=values)
    with pytest.raises(FileError, match=f"snapshot day.{suffix}: .*{words}"):
        list(follow_logits(watched[1], find_logits([path], 2), log))


def test_drift_of_logits_raises_an_alarm(watched, said, log):
    shots = [
        LogitSnapshot(f"{k}", f"{k}", lambda k=k: LogitArray(said(k, 0.85 if k < 25 else 0.6), 2))
        for k in range(60)
    ]
    entries = list(follow_logits(watched[1], shots, log))
    assert alarms(entries[:25], 0.05) == []
    found = alarms(entries, 0.05)
    assert found
    assert 25 < found[0].position < 60


def test_kinds_are_not_mixed(watched, said, log, shots, tmp_path):
    model, card = watched
    with pytest.raises(InputError, match="open it with kind='graphs'"):
        follow(model, card, shots(1), log)
    with pytest.raises(InputError, match="open it with kind='logits'"):
        follow_logits(card, [], Log(tmp_path / "graphs.sqlite", fingerprint(card)))


@pytest.fixture
def folder(watched, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    watched[0].save("model.npz")
    watched[1].save("model.card.json")
    for number in (2, 10):
        write(tmp_path / "days" / f"day{number}", said(number))
    return tmp_path


def run(*words):
    app(
        ["monitor", *words, "--card", "model.card.json"],
        exit_on_error=False,
        result_action="return_value",
    )


def test_the_command(folder, said, day, capsys):
    run("days", "--page", "watch.html", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["added"], told["kind"]) == (["day2", "day10"], "logits")
    assert "day10" in (folder / "watch.html").read_text("utf-8")
    write(folder / "days" / "day11", said(11))
    write(folder / "days" / "day12", said(12))
    shard = folder / "days" / "day11" / "part-1.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(SystemExit) as stop:
        run("days", "--json")
    assert stop.value.code == 4
    told = json.loads(capsys.readouterr().out)
    assert told["added"] == ["day12"]
    assert "part-1.parquet is missing, truncated or not Parquet" in told["missed"][0]["reason"]
    day(13).save(folder / "day13.npz")
    with pytest.raises(InputError, match="is of logits, which show other signals than graphs"):
        run("day13.npz", "--predict", "model.npz")


def test_the_command_says_what_it_needs(folder, day):
    with pytest.raises(InputError, match="--predict"):
        run("days", "--windows", "3")
    with pytest.raises(FileError, match="Logits are watched without --predict"):
        run("days", "--predict", "model.npz")
    day(1).save(folder / "graph.npz")
    with pytest.raises(FileError, match="name their model with --predict"):
        run("graph.npz")
    run("days")  # what went wrong before did not begin the log


def test_graphs_are_found_beside_logits(folder, day):
    day(1).save(folder / "days" / "day1.npz")
    assert names(find_snapshots([folder / "days"])) == ["day1.npz"]
