"""COTT against the linear program of the transport."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from graphtemper.estimators.transport import transport
from graphtemper_research.baselines.cott import COTT


def test_costs_are_those_of_the_linear_program():
    rng = np.random.default_rng(8)
    n, k = 60, 3
    p, shares = rng.dirichlet(np.full(k, 0.5), n), np.array([0.5, 0.3, 0.2])
    plan = linprog(
        -p.ravel() / n,
        A_eq=sp.vstack(
            [sp.kron(sp.identity(n), np.ones((1, k))), sp.kron(np.ones((1, n)), sp.identity(k))]
        ).tocsr(),
        b_eq=np.concatenate([np.ones(n), n * shares]),
    ).x.reshape(n, k)
    whole = plan.max(axis=1) > 1 - 1e-6
    assert whole.sum() >= n - (k - 1)
    exact = p[np.arange(n), plan.argmax(axis=1)]
    assert transport(p, shares)[1][whole] == pytest.approx(exact[whole])


def test_the_source_accuracy_at_the_source_and_less_under_shift(observation, target, graph):
    labels = graph.labels[observation.nodes]
    cott = COTT().fit(observation, labels)
    truth = float((observation.predictions == labels).mean())
    assert cott.estimate(observation).value == pytest.approx(truth, abs=2 / labels.size)
    assert set(cott.carries) == {"shares", "threshold"}
