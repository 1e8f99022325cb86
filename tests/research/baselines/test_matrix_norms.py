"""Norms of the predictions."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm, shifts, temperature
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines.matrix_norms import MaNo, NuclearNorm


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        3000, degree=12, homophily=0.8, snr=0.5, num_classes=3, num_features=8, seed=1
    )


@pytest.fixture(scope="module")
def source(graph):
    return Observation(SIGN().fit(graph, range(1000)), graph, range(1000, 3000), temperature=1.1)


@pytest.mark.parametrize("method", [NuclearNorm, MaNo])
def test_less_signal_lowers_the_estimate(graph, source, method):
    with raises("not-fitted"):
        method().estimate(source)
    estimator = method().fit(source, graph.labels[source.nodes])
    here = estimator.estimate(source)
    assert 0 <= here.low <= here.value <= here.high <= 1
    target = Observation(source.predictor, shifts.rewire(0.5)(graph), source.nodes, temperature=1.1)
    assert estimator.estimate(target).value < here.value


@pytest.mark.parametrize("method", [NuclearNorm, MaNo])
def test_the_source_accuracy_is_reproduced_at_the_source(graph, source, method):
    truth = graph.labels[source.nodes]
    estimate = method().fit(source, truth).estimate(source).value
    assert estimate == pytest.approx((source.predictions == truth).mean())


def test_nuclear_norm_and_mano_are_their_formulas(source):
    p, z = source.probabilities, source.logits / source.temperature
    values = np.sqrt(np.linalg.eigvalsh(p.T @ p))
    assert NuclearNorm().measure(source) == pytest.approx(values.sum() / np.sqrt(2000 * 3))
    centred = z - z.mean(axis=1, keepdims=True)
    q = 1 + centred + centred**2 / 2
    q /= q.sum(axis=1, keepdims=True)
    assert MaNo().measure(source) == pytest.approx(np.mean(q**4) ** 0.25)
    sure = Observation(40 * source.all_logits / 1.1, source.graph, source.nodes)
    assert MaNo().measure(sure) == pytest.approx(
        np.mean(temperature.apply(40 * z) ** 4) ** 0.25, rel=1e-6
    )
