"""What every calibrator promises, checked over the registry."""

import functools
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers import MISSING, raises

from graphtemper import calibrators, metrics, temperature
from graphtemper.errors import MissingExtraError

REGISTRY = dict(calibrators.REGISTRY)
if "graphtemper_research" not in MISSING:
    from graphtemper_research import baselines

    REGISTRY |= baselines.REGISTRY
NAMES = sorted(REGISTRY)
TORCH = sorted(name for name, method in REGISTRY.items() if method.extra)
KEEPERS = sorted(name for name, method in REGISTRY.items() if method.preserves_argmax)
# Enough training to move the answers, not enough to take time.
BRIEF = {name: {"epochs": 30} for name in TORCH}
BRIEF["CFGNN"] = {"epochs": 10, "warm": 5}


def made(name, scene):
    needed = {"predictor": scene.predictor} if "predictor" in REGISTRY[name].needs else {}
    return REGISTRY[name](**needed, **BRIEF.get(name, {}))


@pytest.fixture(scope="module")
def fitted(scene):
    """Each calibrator, fitted once; nothing that is done with one may change it."""

    @functools.cache
    def of(name):
        if REGISTRY[name].extra:
            pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
        return made(name, scene).fit(
            scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
        )

    return of


@pytest.mark.cpu(6)  # networks are trained twice
@pytest.mark.parametrize("name", NAMES)
def test_every_calibrator_keeps_the_protocol(name, scene):
    if REGISTRY[name].extra:
        pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
    calibrators.check(made(name, scene), scene.graph, scene.other)


@pytest.mark.parametrize("name", NAMES)
def test_graph_and_nodes_in_the_wrong_order(name, scene):
    with raises("wrong-type"):
        made(name, scene).fit(scene.logits, scene.labels, scene.cal, scene.graph)


class Wrong(calibrators.Calibrator):
    """A calibrator with one fault."""

    reference = "a test"
    preserves_argmax = True
    last = 0.0

    def __init__(self, fault=""):
        self.fault = fault

    def fit(self, logits, labels, graph=None, nodes=None, *, train_nodes=None):
        if self.fault == "writes":
            logits[0] += 1.0
        super().fit(logits, labels, graph, nodes, train_nodes=train_nodes)
        if self.fault == "peeks":
            self.scale_ += int(labels.sum()) % 7
        return None if self.fault == "returns nothing" else self

    def _fit(self, inputs, labelled):
        self.scale_ = 2.0

    def _transform(self, inputs):
        z = inputs.logits / self.scale_
        p = temperature.apply(-z if self.fault == "reverses" else z)
        if self.fault == "remembers":
            p = p + Wrong.last
            Wrong.last += 1e-12
        return p[:, :2] if self.fault == "loses a class" else p * (1.0 + (self.fault == "doubles"))

    def transform(self, logits, graph=None, *, train_nodes=None):
        if self.fault == "accepts anything":
            return np.full(np.shape(logits), 1.0 / np.shape(logits)[1])
        return super().transform(logits, graph, train_nodes=train_nodes)


@pytest.mark.parametrize(
    "fault",
    [
        "writes",
        "peeks",
        "returns nothing",
        "reverses",
        "remembers",
        "loses a class",
        "doubles",
        "accepts anything",
    ],
)
def test_the_check_finds_what_is_wrong(fault):
    calibrators.check(Wrong())
    with raises("input"):
        calibrators.check(Wrong(fault))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if not name.startswith("STAC") and REGISTRY[name].granularity not in ("set", "model")
    ],
)
def test_it_corrects_what_is_far_too_confident(name, scene, fitted):
    """Fitted with labels, on the kind of graph it was fitted on, the NLL must fall."""
    p = fitted(name).transform(scene.logits, graph=scene.graph, train_nodes=scene.train)
    y = scene.labels[scene.test]
    before = metrics.nll(temperature.apply(scene.logits)[scene.test], y)
    if name in ("HistogramBinning", "Isotonic", "IsotonicShared"):
        # Zeros make their NLL large with 200 labels; the Brier score is bounded.
        before = metrics.brier(temperature.apply(scene.logits)[scene.test], y)
        assert metrics.brier(p[scene.test], y) < before
    else:
        assert metrics.nll(p[scene.test], y) < before


def test_data_of_the_registry():
    words = {"labels", "graph", "features", "train_nodes", "predictor", "retrain"}
    for name, method in REGISTRY.items():
        assert method.__name__ == name
        assert set(method.needs) <= words
        assert method.granularity in ("global", "class", "node", "node_class", "set", "model")
        assert method.reference
        assert not method.extra or method.extra == "pyg"
    assert all(getattr(calibrators, name) is kept for name, kept in calibrators.REGISTRY.items())
    assert {"TemperatureScaling", "CaGCN", "GATS", "STAC"} <= set(KEEPERS)


def test_importing_needs_no_torch():
    code = "import sys; from graphtemper import calibrators; print('torch' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "False", output.stderr


@pytest.mark.parametrize("name", TORCH)
def test_a_missing_extra_is_named(name, scene, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError):
        made(name, scene).fit(scene.logits, scene.labels, scene.graph, scene.cal)
