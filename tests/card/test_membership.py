"""Who is in a card? An attack on every part that holds logits, with 200 nodes and the model.

The attacker has the logits of candidates, a few of them members, and knows neither labels nor who
is a member. A published average is compared with that of the candidates, in the metric of its
sampling error: for normal averages this is the likelihood ratio (Homer et al. 2008). Contributions
of labels are replaced by those that the model expects.
"""

import numpy as np
import pytest
from scipy.stats import rankdata

from graphtemper.card.class_profile import ClassProfile
from graphtemper.card.node_response import NodeResponse
from graphtemper.card.privacy import (
    coarse_evidence,
    coarse_moments,
    coarse_profile,
    coarse_response,
)
from graphtemper.graph.graph import Graph
from graphtemper.signals.covariances import centred
from graphtemper.signals.evidence import Evidence
from graphtemper.signals.gains import ClassMoments
from graphtemper.signals.observation import Observation
from graphtemper.temperature import apply

MEMBERS, CANDIDATES, DRAWS = 200, 1600, 40
LARGEST_AREA = 0.55


def _attack(contributions, published):
    """Area under the curve of the scores; the first candidates are the members."""
    moved = contributions - contributions.mean(axis=0)
    inverse = np.linalg.pinv(np.cov(moved.T), rcond=1e-6, hermitian=True)
    scores = moved @ inverse @ (published - contributions.mean(axis=0))
    ranks = rankdata(scores)[:MEMBERS]
    return float((ranks.mean() - (MEMBERS + 1) / 2) / (CANDIDATES - MEMBERS))


def _evidence(seen):
    z = centred(seen.logits)
    shares = np.bincount(seen.predictions, minlength=seen.num_classes) / len(z)
    covariance = np.cov(z.T, bias=True)
    return Evidence(0.8, 0.7, 0.7, z.mean(axis=0), covariance, shares, None, 0.0, 1.0)


def _moments(logits, labels, found, classes):
    """What mean, covariance, predicted shares and class moments tell."""
    evidence, by_class = found
    z, p = centred(logits), apply(logits)
    rows, columns = np.triu_indices(classes)
    second = evidence.covariance + np.outer(evidence.mean, evidence.mean)
    yield "logit means", _attack(z, evidence.mean)
    yield (
        "covariances",
        _attack(
            np.column_stack([z, z[:, rows] * z[:, columns]]),
            np.concatenate([evidence.mean, second[rows, columns]]),
        ),
    )
    predicted = np.eye(classes)[logits.argmax(axis=1)]
    yield "predicted shares", _attack(predicted, evidence.predicted_shares)
    means = by_class.offsets + evidence.mean
    yield (
        "class moments",
        _attack(
            np.column_stack([p, (p[:, :, None] * z[:, None, :]).reshape(len(z), -1)]),
            np.concatenate([by_class.shares, (by_class.shares[:, None] * means).ravel()]),
        ),
    )


def _signals(rng, secret):
    """What means and spreads of ten node signals tell, exact and stored."""
    x = rng.standard_normal((CANDIDATES, 10)) @ rng.standard_normal((10, 10))
    mean, spread = x[:MEMBERS].mean(axis=0), x[:MEMBERS].std(axis=0)
    names = tuple(map(str, range(10)))
    exact = NodeResponse(names, mean, spread, mean, mean, np.zeros(3), 0.1, 0.1)
    contributions = np.column_stack([x, x**2])
    for item in (exact, coarse_response(exact, MEMBERS, secret)):
        published = np.concatenate([item.origin, item.scale**2 + item.origin**2])
        yield _attack(contributions, published)


@pytest.mark.parametrize(("classes", "exact_area"), [(2, 0.51), (4, 0.54), (7, 0.58)])
def test_no_part_with_logits_tells_members_from_others(classes, exact_area):
    rng = np.random.default_rng(classes)
    found = {"exact": {}, "card": {}}
    for secret in range(DRAWS):
        labels = rng.integers(0, classes, CANDIDATES)
        logits = 1.6 * (1.6 * np.eye(classes)[labels] + rng.standard_normal((CANDIDATES, classes)))
        own, seen = labels[:MEMBERS], np.arange(MEMBERS)
        observation = Observation(logits, Graph(np.ones((CANDIDATES, 1)), edges=[]), seen)
        evidence = _evidence(observation)
        exact = evidence, ClassMoments.measure(logits[seen], own)
        stored = coarse_evidence(evidence, observation, secret)
        card = stored, coarse_moments(logits[seen], own, stored.covariance, secret)
        for name, parts in (("exact", exact), ("card", card)):
            for part, value in _moments(logits, labels, parts, classes):
                found[name].setdefault(part, []).append(value)
    means = {name: {k: np.mean(v) for k, v in parts.items()} for name, parts in found.items()}
    assert means["exact"]["covariances"] > exact_area  # the attack works on exact numbers
    assert max(means["card"].values()) <= LARGEST_AREA, means["card"]


def test_the_signals_of_nodes_do_not_tell_members_from_others():
    rng = np.random.default_rng(0)
    exact, card = np.mean([list(_signals(rng, secret)) for secret in range(DRAWS)], axis=0)
    assert exact > 0.57
    assert card <= LARGEST_AREA


@pytest.mark.parametrize(("classes", "most"), [(2, 0.55), (4, 0.565), (7, 0.58)])
def test_counts_by_prediction_and_confidence_tell_little(classes, most):
    """SECURITY.md states these; they are rounded counts of cells that need no label."""
    rng = np.random.default_rng(classes)
    exact, card = [], []
    for secret in range(DRAWS):
        labels = rng.integers(0, classes, CANDIDATES)
        logits = 1.6 * (1.6 * np.eye(classes)[labels] + rng.standard_normal((CANDIDATES, classes)))
        given = logits[:MEMBERS], labels[:MEMBERS]
        for kept, profile in (
            (exact, ClassProfile.measure(*given)),
            (card, coarse_profile(*given, secret)),
        ):
            third = np.searchsorted(profile.edges, apply(logits).max(axis=1))
            cell = 3 * logits.argmax(axis=1) + third
            np.testing.assert_array_equal(
                profile.cells(logits), np.bincount(cell, minlength=3 * classes)
            )
            rows = profile.counts.sum(axis=1) / profile.num_nodes
            kept.append(_attack(np.eye(len(rows))[cell], rows))
    assert np.mean(card) < np.mean(exact)
    assert np.mean(card) <= most
