"""`graphtemper scale` from the outside."""

import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("pyarrow")


def call(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "graphtemper", "scale", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def room(problem, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    problem.target.save(folder / "target.npz")
    problem.model.save(folder / "model.npz")
    problem.card.save(folder / "card.json")
    return folder


def test_from_a_graph_to_probabilities(room, serial):
    made = call("convert", "target.npz", "--out", "g", "--rows-per-shard", 700, "--json", cwd=room)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["shards"] == 3
    told = ("--predict", "model.npz", "--card", "card.json", "--out", "answer")
    found = call("recalibrate", "g", *told, cwd=room)
    assert found.returncode == 0, found.stderr
    assert "Verdict" in found.stdout
    assert "2000 nodes" in found.stdout
    assert serial.read(room / "answer") == serial.written


def test_bad_input_is_one_sentence(room, tmp_path):
    told = ("--predict", "model.npz", "--card", "card.json", "--out", "nothing")
    for arguments in (
        ("check", tmp_path),
        ("recalibrate", tmp_path, *told),
        ("recalibrate-logits", tmp_path, "--card", "card.json", "--out", "nothing"),
        ("convert", tmp_path / "edges.csv", "--features", tmp_path / "x.npy", "--out", "nothing"),
        ("convert", "edges.csv", "--out", "nothing"),
        ("convert", "target.npz", "--features", "x.npy", "--out", "nothing"),
    ):
        found = call(*arguments, cwd=room)
        assert found.returncode == 2
        assert found.stderr.startswith("graphtemper: ")
        assert found.stderr.count("\n") == 1
    assert not (room / "nothing").exists()


@pytest.mark.parametrize("job", ["convert", "recalibrate_logits"])
def test_an_interruption_says_that_nothing_is_kept(room, problem, tmp_path, monkeypatch, job):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from graphtemper.scale.conversion import convert
    from graphtemper.scale.logits import logit_tables

    command = getattr(import_module("graphtemper.cli.scale"), job)

    def stop(*_, **__):
        raise KeyboardInterrupt

    out, card, read = tmp_path / "out", room / "card.json", tmp_path / "z.parquet"
    if job == "convert":
        monkeypatch.setattr(convert.ShardWriter, "finish", stop)
        read, told = str(room / "target.npz"), {}
    else:
        monkeypatch.setattr(logit_tables, "_write", stop)
        columns = {f"logit_{k}": z for k, z in enumerate(problem.model(problem.target).T)}
        pq.write_table(pa.table(columns), read)
        told = {"card": card}
    with pytest.raises(KeyboardInterrupt, match=r"folders beside .*out were removed: .* over"):
        command(read, out=out, **told, as_json=True)
    assert {path.name for path in tmp_path.iterdir()} <= {"z.parquet"}


def test_an_interruption_says_how_to_go_on(room, problem, serial, tmp_path, monkeypatch):
    from graphtemper.scale import recalibration

    command = import_module("graphtemper.cli.scale").recalibrate
    told = {"card": room / "card.json", "predict": str(room / "model.npz"), "out": tmp_path / "out"}

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(recalibration, "measure", stop)
        with pytest.raises(KeyboardInterrupt, match=r"stages are kept in .*: run the same command"):
            command(problem.sharded.path, **told, as_json=True)
    assert [path.name for path in tmp_path.iterdir()] == [".out.graphtemper"]
    command(problem.sharded.path, **told, as_json=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert serial.read(tmp_path / "out") == serial.written


def test_logits(room, problem, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    logits = problem.model(problem.target)
    columns = {f"logit_{k}": column for k, column in enumerate(logits.T)}
    pq.write_table(pa.table(columns), tmp_path / "z.parquet")
    told = ("--card", "card.json", "--out", tmp_path / "answer", "--json")
    found = call("recalibrate-logits", tmp_path / "z.parquet", *told, cwd=room)
    assert found.returncode == 0, found.stderr
    facts = json.loads(found.stdout)
    p = pq.read_table(tmp_path / "answer")["probability_0"].to_numpy()
    z = logits.astype(np.float64) / facts["temperature"]
    np.testing.assert_allclose(p, np.exp(z[:, 0]) / np.exp(z).sum(axis=1), rtol=1e-6)
