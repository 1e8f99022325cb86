"""The command `graphtemper scale`."""

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
def folder(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("command")
    problem.target.save(path / "target.npz")
    problem.model.save(path / "model.npz")
    problem.card.save(path / "card.json")
    return path


@pytest.mark.cpu(4)
def test_from_a_graph_to_probabilities(folder, serial):
    converted = call(
        "convert", "target.npz", "--out", "g", "--rows-per-shard", 700, "--json", cwd=folder
    )
    assert converted.returncode == 0, converted.stderr
    assert json.loads(converted.stdout)["shards"] == 3
    options = ("--predict", "model.npz", "--card", "card.json", "--out", "answer")
    result = call("recalibrate", "g", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "Verdict" in result.stdout
    assert "2,000 nodes" in result.stdout
    assert serial.read(folder / "answer") == serial.written


@pytest.mark.nightly
def test_any_model_and_its_logits(folder, problem):
    (folder / "mine.py").write_text(
        "from graphtemper.models import load\n\nmodel = load('model.npz')\n\n\n"
        "def predict(graph):\n    return model(graph)\n"
    )
    np.save(folder / "z.npy", problem.model(problem.target))
    options = ("--predict", "mine:predict", "--card", "card.json", "--json", "--out")
    found = []
    for name, more in (("computed", ()), ("given", ("--logits", "z.npy"))):
        result = call("recalibrate", problem.sharded.path, *options, name, *more, cwd=folder)
        assert result.returncode == 0, result.stderr
        found.append(json.loads(result.stdout))
    assert found[0]["temperature"] == pytest.approx(found[1]["temperature"], rel=1e-6)
    wrong = call("recalibrate", problem.sharded.path, *options, "none", "--hops", 0, cwd=folder)
    assert wrong.returncode == 2


@pytest.mark.nightly
def test_bad_input_is_one_sentence(folder, tmp_path):
    options = ("--predict", "model.npz", "--card", "card.json", "--out", "nothing")
    for arguments in (
        ("check", tmp_path),
        ("recalibrate", tmp_path, *options),
        ("recalibrate-logits", tmp_path, "--card", "card.json", "--out", "nothing"),
        ("convert", tmp_path / "edges.csv", "--features", tmp_path / "x.npy", "--out", "nothing"),
        ("convert", "edges.csv", "--out", "nothing"),
        ("convert", "target.npz", "--features", "x.npy", "--out", "nothing"),
    ):
        result = call(*arguments, cwd=folder)
        assert result.returncode == 2
        assert result.stderr.startswith("graphtemper: ")
        assert result.stderr.count("\n") == 1
    assert not (folder / "nothing").exists()


@pytest.mark.parametrize("job", ["convert", "recalibrate_logits"])
def test_an_interrupted_conversion_says_that_nothing_is_kept(
    folder, problem, tmp_path, monkeypatch, job
):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from graphtemper.scale.conversion import convert
    from graphtemper.scale.logits import recalibration as of_logits

    command = getattr(import_module("graphtemper.cli.scale"), job)

    def stop(*_, **__):
        raise KeyboardInterrupt

    out, card, read = tmp_path / "out", folder / "card.json", tmp_path / "z.parquet"
    if job == "convert":
        monkeypatch.setattr(convert.ShardWriter, "finish", stop)
        read, options = str(folder / "target.npz"), {}
    else:
        monkeypatch.setattr(of_logits, "write_parts", stop)
        columns = {f"logit_{k}": z for k, z in enumerate(problem.model(problem.target).T)}
        pq.write_table(pa.table(columns), read)
        options = {"card": card}
    with pytest.raises(KeyboardInterrupt):
        command(read, out=out, **options, as_json=True)
    assert {path.name for path in tmp_path.iterdir()} <= {"z.parquet"}


def test_logits(folder, problem, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    logits = problem.model(problem.target)
    columns = {f"logit_{k}": column for k, column in enumerate(logits.T)}
    pq.write_table(pa.table(columns), tmp_path / "z.parquet")
    options = ("--card", "card.json", "--out", tmp_path / "answer", "--json")
    result = call("recalibrate-logits", tmp_path / "z.parquet", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    p = pq.read_table(tmp_path / "answer")["probability_0"].to_numpy()
    z = logits.astype(np.float64) / facts["temperature"]
    np.testing.assert_allclose(p, np.exp(z[:, 0]) / np.exp(z).sum(axis=1), rtol=1e-6)
