"""The command `graphtemper recalibrate` on a graph in Parquet."""

import json
import subprocess
import sys

import numpy as np
import pytest

from graphtemper.cli.options import Deployed
from graphtemper.cli.stored import Stored, recalibrate_stored
from graphtemper.recalibration import stored as stored_job

from .conftest import answered, written


def call(problem, folder, *options):
    tables = {name: str(path) for name, path in problem.tables.items()}
    inputs = (tables["graph"], "--features", tables["features"], "--card", "card.json")
    return subprocess.run(
        [sys.executable, "-m", "graphtemper", "recalibrate", *inputs, *map(str, options)],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def folder(problem, tmp_path):
    problem.model.save(tmp_path / "model.npz")
    problem.card.save(tmp_path / "card.json")
    return tmp_path


@pytest.mark.nightly
def test_from_tables_to_probabilities(problem, folder):
    options = ("--logits", problem.tables["logits"], "--predict", "model.npz", "--out", "answer")
    result = call(problem, folder, *options)
    assert result.returncode == 0, result.stderr
    assert "Verdict" in result.stdout
    assert "2,000 nodes" in result.stdout
    again = call(problem, folder, *options, "--json")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    answered(problem, folder / "known", sample=None)
    assert written(folder / "answer") == written(folder / "known")


@pytest.mark.nightly
def test_what_is_missing_or_too_much_is_one_sentence(problem, folder):
    for options, said in (
        ((), "give --logits"),
        (("--logits", "z.npy", "--per-node"), "leave the others out"),
    ):
        result = call(problem, folder, *options, "--out", "nothing")
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert said in result.stderr
    assert not (folder / "nothing").exists()


def test_the_answer_is_printed(problem, folder, capsys):
    given = {"card": folder / "card.json", "logits": problem.tables["logits"], "as_json": True}
    stored = Stored(features=str(problem.tables["features"]))
    recalibrate_stored(str(problem.tables["graph"]), stored, folder / "answer", Deployed(**given))
    facts = json.loads(capsys.readouterr().out)
    assert facts["out"] == str(folder / "answer")
    assert np.isfinite(facts["temperature"])


def test_an_interruption_says_that_nothing_is_kept(problem, folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(stored_job, "write_parts", stop)
    given = {"card": folder / "card.json", "logits": problem.tables["logits"]}
    stored = Stored(features=str(problem.tables["features"]))
    with pytest.raises(KeyboardInterrupt, match="the same command starts over"):
        recalibrate_stored(
            str(problem.tables["graph"]), stored, folder / "answer", Deployed(**given)
        )
    assert {path.name for path in folder.iterdir()} == {"card.json", "model.npz"}
