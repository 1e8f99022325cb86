"""Sizes of prediction sets before and after CF-GNN."""

from pathlib import Path

import numpy as np
import pytest

from graphtemper.calibrators.conformal import aps
from graphtemper_research.harness.provenance import load

pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper_research.gats import set_sizes

RESULT = Path(__file__).parents[3] / "docs" / "results" / "cf_gnn_sets.json"


def test_sizes_are_those_of_sorted_probabilities():
    """Against a slow count: cumulative sorted probabilities up to the quantile."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=300)
    labels = np.array([rng.choice(4, p=row) for row in p])
    random, found, hits = np.random.default_rng(1), [], []
    for _ in range(3):
        rows = random.permutation(300)
        scores = []
        for i in range(300):
            order = np.argsort(-p[i])
            scores.append(dict(zip(order.tolist(), np.cumsum(p[i][order]), strict=True)))
        limit = sorted(scores[i][labels[i]] for i in rows[:100])[int(np.ceil(101 * 0.9)) - 1]
        members = [{k for k, s in scores[i].items() if s <= limit + 1e-12} for i in rows[100:]]
        found.append(np.mean([len(member) for member in members]))
        hits.append(np.mean([labels[i] in m for i, m in zip(rows[100:], members, strict=True)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(set_sizes, "CHOICES", 3)
        size, covered = set_sizes.sizes(aps(p), labels, 100, np.random.default_rng(1))
    assert size == pytest.approx(np.mean(found), abs=1e-3)
    assert covered == pytest.approx(np.mean(hits), abs=1e-2)
    assert 0.85 < covered < 0.95


def test_the_committed_result_shows_the_published_effect():
    """CF-GNN makes sets at least a fifth smaller at the same coverage."""
    if not RESULT.is_file():
        pytest.skip("the documentation is not part of this installation")
    rows = load(RESULT)["rows"]
    mean = {row["method"]: (row["size"], row["coverage"]) for row in rows}
    assert mean.keys() == {"GCN alone", *set_sizes.SETTINGS}
    alone = mean.pop("GCN alone")
    for size, covered in mean.values():
        assert size < 0.8 * alone[0]
        assert covered == pytest.approx(0.9, abs=0.02)
