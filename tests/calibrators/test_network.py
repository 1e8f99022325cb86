"""When the training of a network calibrator ends."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper.calibrators import GATS, CaGCN

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


@pytest.mark.parametrize("stop", ["train", "calibration", "folds"])
def test_when_training_stops(scene, stop):
    gats = GATS(stop=stop, epochs=40, patience=5)
    gats.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)
    assert 1 <= gats.epoch_ <= 40
    if stop == "train":
        with raises("missing"):
            gats.fit(scene.logits, scene.labels, scene.graph, scene.cal)


@pytest.mark.parametrize("method", [GATS, CaGCN])
def test_labels_of_the_training_nodes_do_not_stop_the_default(scene, method):
    """Their logits are overfitted: by default only calibration nodes decide."""
    wrong = scene.labels.copy()
    wrong[scene.train] = (wrong[scene.train] + 1) % 3
    found = []
    for labels in (scene.labels, wrong):
        made = method(epochs=12, patience=3, lr=0.1)
        made.fit(scene.logits, labels, scene.graph, scene.cal[:60], train_nodes=scene.train)
        found.append(made.temperatures(scene.logits, scene.graph))
    np.testing.assert_array_equal(*found)


def test_folds_choose_short_training_on_random_labels(scene):
    """With random labels, longer training must raise the loss on held-out nodes."""
    labels = np.random.default_rng(0).integers(3, size=500)
    cagcn = CaGCN(stop="folds", epochs=300, lr=0.05, weight_decay=0.0, dropout=0.0, margin=0.0)
    cagcn.fit(scene.logits, labels, scene.graph, scene.cal[:40])
    assert cagcn.epoch_ < 300
