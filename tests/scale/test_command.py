"""The command `graphtemper recalibrate` on a graph in Parquet."""

import json
import subprocess
import sys

import numpy as np
import pytest

from graphtemper.cli import app
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
        ((), "needs the --logits"),
        (("--logits", problem.tables["logits"], "--per-node"), "per_node"),
    ):
        result = call(problem, folder, *options, "--out", "nothing")
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert said in result.stderr
    assert not (folder / "nothing").exists()


def run(problem, folder, *options):
    tables = {name: str(path) for name, path in problem.tables.items()}
    words = ["recalibrate", tables["graph"], "--features", tables["features"], *options]
    words += ["--logits", tables["logits"], "--card", str(folder / "card.json")]
    words += ["--out", str(folder / "answer")]
    app(words, exit_on_error=False, result_action="return_value")


def test_the_answer_is_printed(problem, folder, capsys):
    run(problem, folder, "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["out"] == str(folder / "answer")
    assert np.isfinite(facts["temperature"])


def test_an_interruption_leaves_nothing(problem, folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(stored_job, "write_parts", stop)
    with pytest.raises(KeyboardInterrupt):
        run(problem, folder)
    assert {path.name for path in folder.iterdir()} == {"card.json", "model.npz"}
