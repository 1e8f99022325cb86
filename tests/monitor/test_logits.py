"""Snapshots of logits: the estimate of logits in files, in one pass and without a file."""

import numpy as np
import pytest

from graphtemper import recalibrate
from graphtemper.errors import FileError, InputError
from graphtemper.monitor.snapshots import snapshots_of

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
    assert names(snapshots_of([days], 2, logits=True)) == ["day=9", "day=10"]
    both = [days / "day=10", days / "day=9"]
    assert names(snapshots_of(both, 2, logits=True)) == ["day=9", "day=10"]
    np.save(days / "day=11.npy", logits_of(1))
    assert names(snapshots_of([days], 2, logits=True))[-1] == "day=11.npy"
    with pytest.raises(FileError):
        snapshots_of([days / "empty"], 2, logits=True)
    with pytest.raises(FileError):
        snapshots_of([days / "no.npy"], 2, logits=True)
    with pytest.raises(InputError):
        snapshots_of([], 2, logits=True)


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
