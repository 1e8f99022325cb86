"""Snapshots of logits: the estimate of logits in files, in one pass and without a file."""

import json

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import recalibrate
from graphtemper.cli import app
from graphtemper.errors import FileError, InputError
from graphtemper.monitor.snapshots import find_logits, find_snapshots

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(folder, logits, parts=3):
    folder.mkdir(parents=True)
    for part, rows in enumerate(np.array_split(logits, parts)):
        columns = {f"logit_{k}": column for k, column in enumerate(rows.T)}
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    return folder


def names(found):
    return [one.name for one in found]


@pytest.fixture
def logits_of(watched, day):
    return lambda number, homophily=0.85: watched[0](day(number, homophily)).astype(np.float64)


def test_an_answer_is_that_of_a_stored_recalibration(watched, logits_of, watch, tmp_path):
    path = write(tmp_path / "day1", logits_of(1))
    entry = watch.add(None, path)
    known = recalibrate(path, None, watched[1], out=tmp_path / "answer")
    estimate = known.accuracy
    assert (entry.accuracy, entry.low, entry.high) == (estimate.value, estimate.low, estimate.high)
    assert (entry.temperature, entry.slope) == (known.temperature, known.slope)
    assert (entry.verdict, entry.num_nodes) == (known.verdict, 400)
    assert entry.signals == known.signals


def test_all_formats_give_the_same_numbers(logits_of, watch, tmp_path):
    logits = logits_of(1)
    write(tmp_path / "all" / "1", logits)
    pq.write_table(pa.table({"logits": logits.tolist()}), tmp_path / "2.parquet")
    np.save(tmp_path / "3.npy", logits)
    np.save(tmp_path / "4.npy", np.asfortranarray(logits))
    np.savez(tmp_path / "5.npz", logits=logits)
    places = [tmp_path / "all", *sorted(tmp_path.glob("*.*p*"))]
    entries = watch.follow(None, places).added
    assert names(entries) == ["1", "2.parquet", "3.npy", "4.npy", "5.npz"]
    for entry in entries[1:]:
        assert entry.accuracy == pytest.approx(entries[0].accuracy, rel=1e-12)
        assert entry.temperature == pytest.approx(entries[0].temperature, rel=1e-9)
        assert entry.signals == pytest.approx(entries[0].signals, rel=1e-9)


def test_files_and_folders_that_are_snapshots(logits_of, tmp_path):
    days = tmp_path / "days"
    for name in ("day=10", "day=9", "_temporary", ".hidden"):
        write(days / name, logits_of(1))
    (days / "empty").mkdir()
    (days / "notes.txt").touch()
    assert names(find_logits([days], 2)) == ["day=9", "day=10"]
    assert names(find_logits([days / "day=10", days / "day=9"], 2)) == ["day=9", "day=10"]
    np.save(days / "day=11.npy", logits_of(1))
    assert names(find_logits([days], 2))[-1] == "day=11.npy"
    with pytest.raises(FileError):
        find_logits([days / "empty"], 2)
    with pytest.raises(FileError):
        find_logits([days / "no.npy"], 2)
    with pytest.raises(InputError):
        find_logits([], 2)


def test_folders_with_the_names_of_spark(logits_of, watch, tmp_path):
    for number in (1, 2):
        write(tmp_path / "days" / f"day{number}.parquet", logits_of(number))
    (tmp_path / "days" / "_SUCCESS").touch()
    (tmp_path / "days" / "day1.parquet" / "old.parquet").mkdir()  # a folder is no shard
    shots = find_logits([tmp_path / "days"], 2)
    assert names(shots) == ["day1.parquet", "day2.parquet"]
    assert names(watch.follow(None, shots).added) == ["day1.parquet", "day2.parquet"]
    assert names(find_logits([tmp_path / "days" / "day2.parquet"], 2)) == ["day2.parquet"]


def test_a_new_shard_is_another_content(logits_of, watch, tmp_path):
    path = write(tmp_path / "day1", logits_of(1))
    watch.add(None, path)
    (path / "part-0.parquet").rename(path / "part-9.parquet")
    with raises("other-log"):
        watch.add(None, path)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((5, 3)), r"must have shape \(N, 2\)"),
        (np.zeros(5), r"must have shape \(N, 2\)"),
        (np.array([[0.0, np.nan]]), "from row 0 on: .* must be finite"),
        (np.array([["a", "b"]]), "must be real numbers"),
        (np.array([[0.0, 1.0], [0.0, 1e200]]), "node 1 reach .* too large"),
        (np.zeros((0, 2)), "no rows of logits"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_arrays_that_are_no_logits(watch, tmp_path, values, words, suffix):
    path = tmp_path / f"day.{suffix}"
    np.save(path, values) if suffix == "npy" else np.savez(path, logits=values)
    with pytest.raises((FileError, InputError)):
        watch.add(None, path)


def test_the_content_is_the_logits_alone(logits_of, watch, tmp_path):
    """Labels and other columns may be removed, and shards merged, without another content."""
    path = tmp_path / "day1.parquet"
    columns = {f"logit_{k}": column for k, column in enumerate(logits_of(1).T)}
    pq.write_table(pa.table(columns | {"label": np.arange(400)}), path)
    watch.add(None, path)
    pq.write_table(pa.table(columns), path, row_group_size=50)
    assert watch.follow(None, path) == ([], [])
    columns["logit_0"] = columns["logit_0"] + 1.0
    pq.write_table(pa.table(columns), path)
    assert names(watch.follow(None, path).missed) == ["day1.parquet"]


@pytest.fixture
def folder(watched, logits_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    watched[0].save("model.npz")
    watched[1].save("model.card.json")
    for number in (2, 10):
        write(tmp_path / "days" / f"day{number}", logits_of(number))
    return tmp_path


def run(*words):
    app(
        ["monitor", *words, "--card", "model.card.json"],
        exit_on_error=False,
        result_action="return_value",
    )


def test_the_command(folder, logits_of, day, capsys):
    run("days", "--page", "watch.html", "--json")
    output = json.loads(capsys.readouterr().out)
    assert (output["added"], output["kind"]) == (["day2", "day10"], "logits")
    assert "day10" in (folder / "watch.html").read_text("utf-8")
    write(folder / "days" / "day11", logits_of(11))
    write(folder / "days" / "day12", logits_of(12))
    shard = folder / "days" / "day11" / "part-1.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(SystemExit) as stop:
        run("days", "--json")
    assert stop.value.code == 4
    output = json.loads(capsys.readouterr().out)
    assert output["added"] == ["day12"]
    (missed,) = output["missed"]
    assert "part-1.parquet is missing, truncated, damaged or not Parquet" in missed["reason"]
    day(13).save(folder / "day13.npz")
    with pytest.raises(InputError):
        run("day13.npz", "--predict", "model.npz")


def test_the_command_says_what_it_needs(folder, day):
    with pytest.raises(InputError):
        run("days", "--windows", "3")
    with pytest.raises(FileError):
        run("days", "--predict", "model.npz")
    day(1).save(folder / "graph.npz")
    with pytest.raises(FileError):
        run("graph.npz")
    run("days")  # the errors before did not create the log


def test_graphs_are_found_next_to_logits(folder, day):
    day(1).save(folder / "days" / "day1.npz")
    assert names(find_snapshots([folder / "days"])) == ["day1.npz"]
