import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from tests.helpers import raises

from graphtemper import csbm, estimators, shifts, signals
from graphtemper.estimators import (
    ATC,
    COT,
    GDE,
    AverageConfidence,
    DoC,
)
from graphtemper.estimators.base import share_estimate
from graphtemper.estimators.transport import transport
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation

EVERY = [
    ATC(),
    ATC("entropy"),
    AverageConfidence(),
    DoC(),
    GDE("feature"),
    GDE("edge", calibrated=True),
    GDE("both", passes=5),
    COT(),
]
# These reproduce the source accuracy at the source, by construction.
ANCHORED = [ATC(), ATC("entropy"), DoC(), GDE("feature", calibrated=True)]


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        3000, degree=12, homophily=0.8, snr=0.5, num_classes=3, num_features=8, seed=1
    )


@pytest.fixture(scope="module")
def model(graph):
    return SIGN().fit(graph, range(1000))


@pytest.fixture(scope="module")
def source(graph, model):
    return Observation(model, graph, range(1000, 3000), temperature=1.1)


def truth(graph, observation):
    return float((observation.predictions == graph.labels[observation.nodes]).mean())


@pytest.mark.parametrize("estimator", EVERY, ids=range(len(EVERY)))
def test_every_estimator_keeps_the_protocol(estimator):
    estimators.check(estimator)


class Wrong:
    """An estimator with one fault."""

    def __init__(self, fault=""):
        self.fault = fault

    def fit(self, source, labels):
        self.carries = {"a": float("nan") if self.fault == "no number" else 0.5}
        return None if self.fault == "returns nothing" else self

    def estimate(self, target):
        a = self.carries["a"] if self.fault != "unfitted" else 0.5
        if self.fault == "draws":
            a = np.random.default_rng().random()
        low, high = (a, a) if self.fault == "no interval" else (a / 2, (1 + a) / 2)
        return estimators.Estimate(a, low, high, "" if self.fault == "no name" else "a test")


FAULTS = ["no number", "returns nothing", "unfitted", "draws", "no interval"]


@pytest.mark.parametrize("fault", [*FAULTS, "no name"])
def test_the_check_finds_what_is_wrong(fault):
    estimators.check(Wrong())
    with raises("input"):
        estimators.check(Wrong(fault))


@pytest.mark.parametrize("estimator", ANCHORED, ids=range(len(ANCHORED)))
def test_the_source_accuracy_is_reproduced_at_the_source(graph, source, estimator):
    estimator.fit(source, graph.labels[source.nodes])
    assert estimator.estimate(source).value == pytest.approx(truth(graph, source), abs=2e-3)


def test_what_an_unfitted_estimator_carries_is_refused():
    with raises("not-fitted"):
        _ = ATC().carries


def test_less_signal_lowers_every_estimate(graph, model, source):
    target = Observation(model, shifts.rewire(0.5)(graph), source.nodes, temperature=1.1)
    assert truth(graph, target) < truth(graph, source) - 0.05
    for estimator in EVERY:
        estimator.fit(source, graph.labels[source.nodes])
        assert estimator.estimate(target).value < estimator.estimate(source).value, estimator


def test_atc_and_doc_are_their_formulas(graph, model, source):
    target = Observation(model, shifts.noise(1.0)(graph), source.nodes, temperature=1.1)
    atc = ATC().fit(source, graph.labels[source.nodes])
    share = (target.probabilities.max(axis=1) >= atc.carries["threshold"]).mean()
    assert atc.estimate(target).value == share
    doc = DoC().fit(source, graph.labels[source.nodes])
    change = target.probabilities.max(axis=1).mean() - source.probabilities.max(axis=1).mean()
    assert doc.estimate(target).value == pytest.approx(truth(graph, source) + change)


def test_gde_is_one_minus_disagreement(graph, source):
    for kind in ("feature", "edge", "both"):
        votes = source.votes(kind, 6, level=0.2, share=0.2)
        value = GDE(kind, 0.2, 6).estimate(source).value
        assert value == pytest.approx(1 - signals.pairwise_disagreement(votes))


def test_calibration_stops_at_the_ends(graph, source):
    right = GDE("edge", calibrated=True).fit(source, source.predictions)
    assert right.carries["strength"] == 0.01
    wrong = GDE("edge", calibrated=True).fit(source, (source.predictions + 1) % 3)
    assert wrong.carries["strength"] == 0.99


def test_transport_is_the_linear_program():
    rng = np.random.default_rng(0)
    for n, k in ((5, 2), (60, 3), (200, 6)):
        p, shares = rng.dirichlet(np.full(k, 0.4), n), rng.dirichlet(np.ones(k))
        shares[0], shares[-1] = 0.0, shares[-1] + shares[0]
        rows = sp.kron(sp.identity(n), np.ones((1, k)))
        columns = sp.kron(np.ones((1, n)), sp.identity(k))
        exact = -linprog(
            -p.ravel() / n,
            A_eq=sp.vstack([rows, columns]).tocsr(),
            b_eq=np.concatenate([np.ones(n), n * shares]),
        ).fun
        assert -1e-9 <= transport(p, shares)[0] - exact <= 1e-4 * np.log(k)


def test_one_class_with_mass_takes_every_node():
    p = np.array([[0.4, 0.6], [0.1, 0.9]])
    mean, assigned = transport(p, np.array([1.0, 0.0]))
    assert mean == pytest.approx(0.25)
    assert assigned.tolist() == [0.4, 0.1]


def test_cot_is_mean_confidence_when_the_shares_agree_and_below_it_otherwise(source):
    predicted = np.bincount(source.predictions, minlength=3) / source.num_nodes
    confidence = AverageConfidence().estimate(source).value
    assert transport(source.probabilities, predicted)[0] == pytest.approx(confidence, abs=1e-4)
    assert transport(source.probabilities, np.array([0.8, 0.1, 0.1]))[0] < confidence - 0.1


def test_the_sampling_interval_covers():
    rng = np.random.default_rng(1)
    for share in (0.02, 0.5, 0.9):
        draws = [share_estimate(rng.binomial(80, share) / 80, 80, "") for _ in range(2000)]
        covered = np.mean([e.low <= share <= e.high for e in draws])
        assert 0.84 < covered < 0.97
    assert share_estimate(1.3, 10, "").value == 1.0
    assert share_estimate(0.0, 10, "").low == 0.0
