"""The folder, read without the library, and its scores, against the library's own."""

import csv
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, csbm, metrics
from graphtemper_research.natural_benchmark import loader, scoring
from graphtemper_research.natural_benchmark.folder import write_folder
from graphtemper_research.trials.natural import Family, scored_nodes
from graphtemper_research.trials.trial import halves

ALONE = """
import sys
from pathlib import Path
from loader import add, tasks, write
import numpy as np
rows = []
for task in tasks(sys.argv[1]):
    assert "labels" not in task.target
    means = [task.source["features"][task.train][task.source["labels"][task.train] == k].mean(0)
             for k in (0, 1)]
    away = ((task.target["features"][task.scored][:, None] - means) ** 2).sum(2)
    p = np.exp(-away / 2) / np.exp(-away / 2).sum(1, keepdims=True)
    add(rows, task, p.argmax(1), p.max(1), float(p.max(1).mean()), 0.0, 1.0)
write(sys.argv[2], rows)
foreign = [name for name in sys.modules if name.startswith(("graphtemper", "scipy", "sklearn"))]
assert not foreign, foreign
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of one family of three graphs, one of them sparse."""
    home = tmp_path_factory.mktemp("graphs")
    names = []
    for number in range(3):
        g = csbm.sample(
            300, degree=6, homophily=0.8, snr=1.5, num_classes=2, num_features=4, seed=number
        )
        if number == 2:
            import scipy.sparse as sp

            g = g.replace(features=sp.csr_matrix(np.maximum(g.features, 0.0)))
        names.append(str(home / f"town_{number}.npz"))
        g.save(names[-1])
    out = home / "benchmark"
    families = [Family("towns", tuple(names), same_nodes=True)]
    assert write_folder(out, families) == 6
    return out, names


def test_the_loader_gives_graphs_and_splits_as_the_library_does(folder):
    out, names = folder
    found = list(loader.tasks(out))
    graphs = [Graph.load(name) for name in names]
    train, card = halves(graphs[0], 1)
    assert np.array_equal(found[0].train, train)
    assert np.array_equal(found[0].card, card)
    assert np.array_equal(found[1].scored, scored_nodes(graphs[2], names[2], train, 1))
    assert np.array_equal(found[1].target["features"], graphs[2].features.toarray())
    assert np.array_equal(found[0].source["edges"], graphs[0].edges)
    assert np.array_equal(found[0].source["labels"], graphs[0].labels)
    assert list(loader.tasks(out, ["nowhere"])) == []


def test_a_stranger_needs_numpy_alone_and_is_scored(folder, tmp_path):
    out, names = folder
    results = tmp_path / "nearest_mean.csv"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(out)!r})\n{ALONE}"]
    subprocess.run([*command, str(out), str(results)], check=True, timeout=60)
    rows = scoring.score(out, results)
    assert len(rows) == 6
    with results.open(encoding="utf-8", newline="") as stream:
        own = [row for row in csv.DictReader(stream) if row["task"] == "1"]
    labels = Graph.load(names[2]).labels[[int(row["node"]) for row in own]]
    sure = np.array([float(row["confidence"]) for row in own])
    chosen = np.array([int(row["prediction"]) for row in own])
    p = np.where(np.arange(2) == chosen[:, None], sure[:, None], 1.0 - sure[:, None])
    assert rows[1]["ece"] == pytest.approx(metrics.ece(p, labels), abs=1e-9)
    assert rows[1]["floor"] == pytest.approx(metrics.noise_floor(p), abs=1e-9)
    assert rows[1]["accuracy"] == pytest.approx((chosen == labels).mean())
    assert rows[1]["error"] == pytest.approx(abs(sure.mean() - (chosen == labels).mean()), abs=1e-6)
    (title,) = shown = scoring.table(out, results)
    assert title == "nearest_mean"
    assert [line["family"] for line in shown[title]] == ["towns", scoring.OVER_FAMILIES]


def test_the_example_of_the_page_adds_a_row(folder, tmp_path):
    """As the page says: the example next to the loader, run from the folder above, then scored."""
    page = Path(__file__).parents[3] / "docs" / "natural_benchmark.md"
    if not page.is_file():
        pytest.skip("the documentation is not part of this checkout")
    text = page.read_text("utf-8")
    example = textwrap.dedent(text.partition("   ```python\n")[2].partition("   ```\n")[0])
    shutil.copytree(folder[0], tmp_path / "benchmark")
    assert "python benchmark/logistic.py" in text
    script = tmp_path / "benchmark" / "logistic.py"
    script.write_text(example.replace('["airports", "villages"]', '["towns"]'))
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "benchmark/logistic.py"]
    subprocess.run(command, cwd=tmp_path, env=clean, check=True, timeout=60)
    assert "graphtemper bench score logistic.csv benchmark" in text
    assert len(scoring.score(tmp_path / "benchmark", tmp_path / "logistic.csv")) == 6


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda lines: lines[:-1], "missing"),
        (lambda lines: [*lines[:-1], lines[-1].replace("0.7", "1.7")], "range"),
        (lambda lines: [lines[0].replace("node", "knot"), *lines[1:]], "damaged"),
        (lambda lines: [*lines[:-1], lines[-1].replace("0.7", "sure")], "damaged"),
        (lambda lines: [*lines, lines[-1]], "repeated"),
        (lambda lines: [*lines, "77" + lines[-1][1:]], "missing"),
        (lambda lines: lines[:1], "missing"),
        (lambda lines: [*lines[:-1], lines[-1][:-2] + "0.7,,"], "conflict"),
    ],
)
def test_incomplete_answers_are_refused(folder, tmp_path, change, error):
    out, _ = folder
    rows = []
    for task in loader.tasks(out):
        loader.add(rows, task, np.zeros(task.scored.size), np.full(task.scored.size, 0.7))
    loader.write(tmp_path / "all.csv", rows)
    assert len(scoring.score(out, tmp_path / "all.csv")) == 6
    lines = (tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "wrong.csv").write_text("\n".join(change(lines)) + "\n")
    with raises(error):
        scoring.score(out, tmp_path / "wrong.csv")


def test_missing_files_are_named(folder, tmp_path):
    with raises("no-file", match=r"nothing\.csv"):
        scoring.score(folder[0], tmp_path / "nothing.csv")
    with raises("no-file", match="natural-folder"):
        scoring.score(tmp_path, tmp_path / "nothing.csv")


def test_the_loader_is_short():
    lines = Path(loader.__file__).read_text("utf-8").splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith(("#", '"""'))]
    assert len(code) <= 60
