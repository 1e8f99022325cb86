"""A trial: who is trained on, what the methods see, how answers are scored."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm
from graphtemper.errors import InputError
from graphtemper_research.trials import trial


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)


def test_splits_are_disjoint_labelled_and_seeded(graph):
    some = graph.replace(labels=np.where(np.arange(200) % 4 == 0, -1, graph.labels))
    for parts in (trial.split(some, 1), trial.halves(some, 1)):
        together = np.concatenate(parts)
        assert sorted(together) == some.labelled.tolist()
    assert [part.size for part in trial.split(some, 1)] == [75, 37, 38]
    assert [part.size for part in trial.halves(some, 1)] == [75, 75]
    again, other = trial.split(some, 1), trial.split(some, 2)
    assert (again[0] == trial.split(some, 1)[0]).all()
    assert not np.array_equal(again[0], other[0])


def test_an_infinite_loss_is_kept_out_of_json():
    logits, labels = np.array([[0.0, 3.0], [0.0, 2.0], [1.0, 0.0]]), np.array([1, 0, 0])
    answers = {"sure": trial.Answer(1e-6), "plain": trial.Answer(1.0, 0.9, 0.8, 0.95, "trust")}
    found = {row["method"]: row for row in trial.score(logits, labels, answers)}
    assert list(found) == ["sure", "plain", "oracle-T"]
    assert all(tuple(row) == trial.SCORES for row in found.values())
    assert found["sure"]["nll"] is None
    assert found["plain"]["accuracy"] == pytest.approx(2 / 3)
    assert found["plain"]["verdict"] == "trust"
    assert found["oracle-T"]["nll"] <= found["plain"]["nll"]
    assert found["oracle-T"]["estimate"] is None


def test_methods_are_shown_targets_without_labels(graph, monkeypatch):
    shown = []

    def spy(predictor, target, *rest, **options):
        shown.append(target.labels)
        raise InputError("seen")

    monkeypatch.setattr(trial, "recalibrate", spy)
    monkeypatch.setattr(trial.Peers, "answer", lambda self, predictor, target, *rest: {})
    source = trial.Source(None, None, trial.Peers(1.0, 0.5, {}), 50)
    with pytest.raises(InputError):
        source.answers(graph, np.arange(10), 1)
    assert shown == [None]


@pytest.mark.parametrize(
    "models",
    [["MLP"], []],
)
def test_unknown_models(models):
    with raises("choice"):
        trial.check_models(models)
