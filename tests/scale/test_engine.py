"""A cluster of processes writes the same bytes as one process, also when it loses workers."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from graphtemper import recalibrate
from graphtemper.errors import ClusterError, FileError
from graphtemper.recalibration import streaming
from graphtemper.scale import OnDask, Serial, StoredGraph, connected
from graphtemper.scale.confidence_sketch import ConfidenceSketch
from graphtemper.scale.logit_tables import LogitArray
from graphtemper_research.harness.cells import Case
from graphtemper_research.harness.runner import Request, run

from .conftest import answered, written

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.nightly


def cluster(workers):
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=":0",
    )


@pytest.fixture(scope="module")
def client():
    with cluster(2) as local, distributed.Client(local) as client:
        yield client


def pids(client):
    return client.run(os.getpid)


class Killing(OnDask):
    """Kills a worker while the tasks of one list run."""

    def __init__(self, client, stage):
        super().__init__(client)
        self.left, self.client = stage, client

    def map(self, function, items):
        self.left -= 1
        if self.left == 0:
            victim = next(iter(pids(self.client).values()))
            slow = [self.client.submit(time.sleep, 0.05, pure=False) for _ in range(4)]
            os.kill(victim, signal.SIGKILL)
            del slow
        return super().map(function, items)


@pytest.mark.parametrize("kind", [None, 2, 5, 9])
def test_two_workers_write_the_bytes_of_one_process(problem, serial, client, tmp_path, kind):
    """Also if one dies during a pass over logits, nodes or edges."""
    engine = client if kind is None else Killing(client, kind)
    answered(problem, tmp_path / "out", client=engine)
    assert serial.read(tmp_path / "out") == serial.written


def write_logits(problem, folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    for part, rows in enumerate(np.array_split(problem.model(problem.target), 6)):
        columns = {f"logit_{k}": column for k, column in enumerate(rows.T)}
        pq.write_table(pa.table(columns), folder / f"{part}.parquet")
    return folder


@pytest.mark.parametrize("kind", [OnDask, partial(Killing, stage=1), partial(Killing, stage=2)])
def test_workers_may_die_and_write_the_bytes_of_one_process(
    problem, serial, client, tmp_path, kind
):
    logits = write_logits(problem, tmp_path / "logits")
    one, other = (
        recalibrate(logits, None, problem.card, out=tmp_path / name, client=engine).out
        for name, engine in (("one", Serial()), ("other", kind(client)))
    )
    assert serial.read(one) == serial.read(other)


def test_a_far_temperature_is_found_on_workers(problem, client):
    """Logits are read again there, at other temperatures."""
    parts = LogitArray(1e6 * problem.model(problem.target), 4)
    sketch = ConfidenceSketch.of(parts.values)
    one, other = (
        streaming.match_confidence(partial(streaming.over_batches, engine, parts), 1.0, sketch, 0.6)
        for engine in (Serial(), OnDask(client))
    )
    assert one == other > 1e4


def test_errors_of_tasks_are_raised_unchanged(problem, client, tmp_path):
    (tmp_path / "logits.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(FileError):
        OnDask(client).map(_open, [tmp_path / "logits.parquet"])


def _open(path):
    from graphtemper.scale.parquet import open_parquet

    return open_parquet(path)


def test_a_cluster_that_loses_all_workers_is_given_up():
    with cluster(1) as local, distributed.Client(local) as client:
        leave = threading.Timer(1.0, local.scale, [0])
        leave.start()
        with pytest.raises(ClusterError):
            OnDask(client, patience=1.0).map(time.sleep, [0.2] * 200)
        leave.join()


def test_the_command_line_at_a_scheduler(problem, client, tmp_path):
    problem.card.save(tmp_path / "card.json")
    shutil.copytree(problem.tables["logits"], tmp_path / "logits")
    shutil.copytree(problem.tables["features"], tmp_path / "nodes")
    inputs = ("edges", "--features", "nodes", "--logits", "logits", "--card", "card.json")
    scheduler = ("--scheduler", client.scheduler.address, "--out", "out")
    command = ("-m", "graphtemper", "recalibrate", *inputs, *scheduler)
    # Relative paths are those of the caller, whose working directory is not that of the workers.
    subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=tmp_path)
    tables = {key: problem.tables[key] for key in ("logits", "features")}
    stored = StoredGraph.open(tables["features"], tables["graph"])
    recalibrate(tables["logits"], stored, problem.card, out=tmp_path / "one")
    assert written(tmp_path / "out") == written(tmp_path / "one")


def test_a_missing_scheduler_is_reported():
    with pytest.raises(ClusterError), connected("tcp://127.0.0.1:9", timeout=1.0):
        pass


class Heavy:
    """A function of one megabyte that records the process in which it is unpickled."""

    def __init__(self, notes):
        self.notes, self.ballast = notes, os.urandom(1 << 20)

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.notes, "a") as stream:
            stream.write(f"{os.getpid()}\n")

    def __call__(self, number):
        return number + len(self.ballast) - (1 << 20)


def test_a_large_function_is_sent_once_per_worker(client, tmp_path):
    engine, heavy = OnDask(client), Heavy(tmp_path / "notes")
    assert engine.map(partial(_applied, function=heavy), range(40)) == list(range(40))
    processes = (tmp_path / "notes").read_text().split()
    assert len(processes) == len(set(processes)) <= 2


def _applied(number, *, function):
    return function(number)


def test_a_large_function_survives_its_worker(client, tmp_path):
    engine, heavy = OnDask(client), Heavy(tmp_path / "notes")
    engine.map(heavy, range(4))
    for victim in pids(client).values():
        os.kill(victim, signal.SIGKILL)
    assert engine.map(heavy, range(10)) == list(range(10))


def test_cells_of_a_bench(client, tmp_path):
    """Workers measure the cases and write the cells; the summary gets them in their order."""
    cases = [Case(name, {"graph": name}, partial(_rows, name)) for name in "ba"]
    bench = SimpleNamespace(cases=lambda request: (cases, []), outcome=lambda cells, _: cells)
    cells = run(bench, Request(tmp_path), scheduler=client.scheduler.address)
    assert [cell["rows"] for cell in cells] == [[{"name": "b"}], [{"name": "a"}]]
    assert sorted(path.name for path in (tmp_path / "cells").iterdir()) == ["a.json", "b.json"]


def _rows(name, show):
    return [{"name": name}]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 7])
def test_any_number_of_workers(problem, serial, workers, tmp_path):
    with cluster(workers) as local, distributed.Client(local) as client:
        answered(problem, tmp_path / "out", client=client)
    assert serial.read(tmp_path / "out") == serial.written
