"""What people name on a command line: graphs, predictors, logits and nodes."""

import sys

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm
from graphtemper.cli.arguments import choose_nodes, resolve
from graphtemper.models import SIGN
from graphtemper.models.predictor import predict

GRAPH = csbm.sample(60, degree=6, homophily=0.8, snr=1.0, seed=1)

CODE = """
import graphtemper.models as models
from graphtemper.graph import Graph

def predict(graph):
    return [[0.0, float(x[0])] for x in graph.features]

def make():
    return predict

def fails(graph):
    raise KeyError("no such node")

class Holder:
    predict = staticmethod(predict)

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the working directory; each test has a name of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"user_code_{abs(hash(tmp_path))}"

    def write(code=CODE):
        (tmp_path / f"{name}.py").write_text(code)
        return name

    yield write
    sys.modules.pop(name, None)


def test_a_callable_from_the_working_directory(module):
    name = module()
    predictor = resolve(f"{name}:predict")
    assert predict(predictor, GRAPH).shape == (60, 2)
    assert predictor.__name__ == f"{name}:predict"
    assert predict(resolve(f"{name}:Holder.predict"), GRAPH).shape == (60, 2)


def test_a_saved_model(tmp_path):
    model = SIGN().fit(GRAPH)
    model.save(tmp_path / "model.npz")
    predictor = resolve(str(tmp_path / "model.npz"))
    assert isinstance(predictor, SIGN)
    assert np.array_equal(predictor(GRAPH), model(GRAPH))


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("{0}:nothing", "predictor"),
        ("{0}:number", "predictor"),
        ("{0}:Holder", "predictor"),
        ("{0}", "predictor"),
        (":predict", "predictor"),
        ("no_such_package.part:predict", "predictor"),
        ("nowhere.npz", "no-file"),
        ("...:x", "predictor"),
    ],
)
def test_what_is_not_a_predictor(module, spec, error):
    with raises(error):
        resolve(spec.format(module()))


@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('two\\nlines.')",
        "raise SystemExit(3)",
        "def broken(:",
        "import a_module_that_is_not_installed",
    ],
)
def test_a_module_that_does_not_import(module, code):
    with raises("predictor"):
        resolve(f"{module(code)}:predict")


def test_a_predictor_that_fails_is_named(module, monkeypatch):
    monkeypatch.delenv("GRAPHTEMPER_DEBUG", raising=False)
    with raises("predictor"):
        resolve(f"{module()}:fails")(GRAPH)


def test_a_torch_module_is_told_how_to_be_wrapped(module):
    pytest.importorskip("torch")
    name = module("import torch\nmodel = torch.nn.Linear(2, 2)\n")
    with raises("predictor"):
        resolve(f"{name}:model")


def test_nodes_from_a_file(tmp_path):
    (tmp_path / "nodes.txt").write_text("3\n\n 17 \n0\n")
    assert choose_nodes(GRAPH, tmp_path / "nodes.txt").tolist() == [3, 17, 0]
    assert choose_nodes(GRAPH) is None


@pytest.mark.parametrize(
    "text",
    [
        "1\nx\n",
        "-1\n",
        "1.5\n",
        "4\n5\n4\n",
        "9" * 30,
        "²\n",
        "\n",
    ],
)
def test_odd_files_of_nodes(tmp_path, text):
    (tmp_path / "nodes.txt").write_text(text, encoding="utf-8")
    with raises("table"):
        choose_nodes(GRAPH, tmp_path / "nodes.txt")


def test_stored_splits():
    masks = np.zeros((2, 60), dtype=bool)
    masks[0, :5] = masks[1, 5:8] = True
    labels = GRAPH.labels.copy()
    labels[0] = -1
    graph = GRAPH.replace(val_masks=masks, labels=labels)
    assert choose_nodes(graph, split="val").tolist() == [0, 1, 2, 3, 4]
    assert choose_nodes(graph, split="val:0", labelled=True).tolist() == [1, 2, 3, 4]
    assert choose_nodes(graph, split="val:1").tolist() == [5, 6, 7]
    for split, error in {
        "val:2": "choice",
        "test:0": "choice",
        "other:0": "choice",
        "val:x": "choice",
    }.items():
        with raises(error):
            choose_nodes(graph, split=split)
    with raises("conflict"):
        choose_nodes(graph, "nodes.txt", "val:0")
