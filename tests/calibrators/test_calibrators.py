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
BRIEF["CFGNN"] = {"epochs": 40, "warm": 20}


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


@pytest.mark.parametrize("name", NAMES)
def test_rows_sum_to_one_on_this_and_on_another_graph(name, scene, fitted):
    calibrator = fitted(name)
    here = calibrator.transform(scene.logits, graph=scene.graph, train_nodes=scene.train)
    there = calibrator.transform(scene.other_logits, graph=scene.other)
    for p, logits in ((here, scene.logits), (there, scene.other_logits)):
        assert p.shape == logits.shape
        assert p.dtype == np.float64
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        if calibrator.preserves_argmax:
            assert (p.argmax(axis=1) == logits.argmax(axis=1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bytes_without_other_labels_and_without_memory_of_a_graph(
    name, scene, fitted
):
    """A second fit that sees no label but those of its nodes, then is used on two graphs."""
    expected = fitted(name).transform(scene.other_logits, graph=scene.other)
    hidden = np.full(scene.labels.size, -1)
    visible = np.concatenate([scene.cal, scene.train])
    hidden[visible] = scene.labels[visible]
    wrong = scene.graph.replace(labels=(scene.labels + 1) % 3)
    again = made(name, scene)
    again.fit(scene.logits, hidden, wrong, scene.cal, train_nodes=scene.train)
    again.transform(scene.logits, graph=scene.graph, train_nodes=scene.train)
    other = scene.other.replace(labels=None)
    assert again.transform(scene.other_logits, graph=other).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_named(name, scene, fitted):
    calibrator = fitted(name)
    fresh = made(name, scene)
    with raises("not-fitted"):
        fresh.transform(scene.logits, graph=scene.graph)
    with raises("other-classes"):
        calibrator.transform(np.zeros((300, 4)), graph=scene.other)
    spoiled = scene.logits.copy()
    spoiled[7, 1] = np.nan
    with raises("not-finite"):
        calibrator.transform(spoiled, graph=scene.graph)
    with raises("not-finite"):
        fresh.fit(spoiled, scene.labels, scene.graph, scene.cal)
    with raises("too-few"):
        calibrator.transform(scene.logits, graph=scene.other)
    with raises("shape"):
        fresh.fit(scene.logits, scene.labels[:9], scene.graph, scene.cal)
    with raises("wrong-type"):
        fresh.fit(scene.logits, scene.labels.astype(str), graph=scene.graph)
    wrong = scene.labels.copy()
    wrong[scene.cal[0]] = 3
    with raises("range"):
        fresh.fit(scene.logits, wrong, scene.graph, scene.cal)
    if "graph" in calibrator.needs:
        with raises("missing"):
            calibrator.transform(scene.logits)
    with raises("wrong-type"):
        fresh.fit(scene.logits, scene.labels, scene.cal, scene.graph)
    with raises("wrong-type"):
        calibrator.transform(scene.logits, scene.cal)


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
