"""The choice of the natural prior's numbers: made on other families only."""

import numpy as np
import pytest
from tests.helpers import block_model

from graphtemper.card.reading import NATURAL, read
from graphtemper_research.trials import natural_prior
from graphtemper_research.trials.natural_families import Family

pytestmark = pytest.mark.nightly


def row(family, confidence, atlas, accuracy, fraction=1.0, novelty=0.5):
    """Return a pair whose ECE is the distance between confidence and accuracy."""
    share = 1.0 / (1.0 + np.exp(-natural_prior.GRID))
    return {
        **{"family": family, "confidence": confidence, "atlas": atlas, "moved": atlas},
        **{"fraction": fraction, "novelty": novelty, "variance": 0.02},
        **{"accuracy": accuracy, "ece": np.abs(share - accuracy).tolist(), "source-T": 0.1},
    }


def test_the_atlas_gets_the_weight_that_other_families_support():
    """Where the atlas is right it gets the most that is tried, where it is half right less."""
    right = [row("a", 2.0, 0.0, 0.5, novelty=1.0), row("b", 2.0, 1.0, 0.731, novelty=1.0)]
    fifth = [row("a", 2.0, 0.0, 0.832), row("b", 3.0, 1.0, 0.9309)]  # log-odds of 1.6 and 2.6
    assert natural_prior.choose(right).halfway == 1.0
    assert natural_prior.choose([item | {"novelty": 1.0} for item in fifth]).halfway == 2.0
    late = [row(name, 0.6, 0.6, 0.62246) for name in "ab"]  # log-odds of 0.5
    assert natural_prior.choose(late).shift == 0.1


def test_the_interval_is_as_wide_as_other_families_need():
    near = [row(name, 1.0, 1.0, 0.73) for name in "abc"]
    far = [row(name, 1.0, 1.0, 0.35) for name in "abc"]
    assert natural_prior.choose(near).deviation == natural_prior.DEVIATIONS_TRIED[0]
    assert natural_prior.choose(far).deviation > 3 * natural_prior.DEVIATIONS_TRIED[0]


def test_a_score_follows_the_library(card, model):
    """The interval of a row is that of the reading it was made of."""
    from graphtemper.signals.observation import Observation

    graph = block_model(6)
    moved = graph.replace(features=graph.features + 0.7)
    reading = read(card, Observation(model, moved).at(card.temperature))
    found = row("a", 0.0, 0.0, 0.6) | {"atlas": reading.atlas_centre}
    found |= {"confidence": np.log(reading.evidence.confidence / (1 - reading.evidence.confidence))}
    found |= {"fraction": reading.moved_fraction, "novelty": reading.novelty}
    found |= {"variance": reading.atlas_variance}
    estimate = reading.prior.estimate("atlas")
    scored = natural_prior.score(NATURAL, found)
    assert scored["error"] == pytest.approx(abs(estimate.value - 0.6), abs=1e-6)
    assert scored["half_width"] == pytest.approx(0.5 * (estimate.high - estimate.low), abs=0.01)


def test_a_family_is_scored_with_the_numbers_of_the_others(tmp_path, quick):
    names = [str(tmp_path / f"{kind}_{number}.npz") for kind in "ab" for number in range(2)]
    for number, name in enumerate(names):
        block_model(number).save(name)
    families = [Family("a", tuple(names[:2])), Family("b", tuple(names[2:]))]
    bench = natural_prior.bench(families)
    outcome = quick(bench, tmp_path)
    assert {(item["family"], item["source"], item["target"]) for item in outcome.rows} == {
        *(("a", "a_0", "a_1"), ("a", "a_1", "a_0"), ("b", "b_0", "b_1"), ("b", "b_1", "b_0")),
    }
    assert "families left out" in bench.page(outcome.to_dict())
