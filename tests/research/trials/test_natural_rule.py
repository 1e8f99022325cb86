"""The rule for natural shift without labels, beside its alternatives."""

import numpy as np
import pytest
from tests.helpers import block_model

from graphtemper.card.reading import read
from graphtemper_research.trials import natural_rule
from graphtemper_research.trials.natural_families import Family

pytestmark = pytest.mark.nightly


def test_the_rule_of_the_page_is_that_of_the_library(card, model):
    from graphtemper.signals.observation import Observation

    graph = block_model(6)
    moved = graph.replace(features=graph.features + 0.7)
    reading = read(card, Observation(model, moved))
    claimed = float(np.log(reading.evidence.confidence / (1.0 - reading.evidence.confidence)))
    low = {"confidence": claimed, "second": reading.natural_centre, "atlas": 9.0, "accuracy": 0.5}
    assert natural_rule.RULES["second opinion"](low) == pytest.approx(reading.natural_centre)


def test_the_deviation_of_a_family_is_chosen_on_the_others(tmp_path, quick):
    names = [str(tmp_path / f"{kind}_{number}.npz") for kind in "ab" for number in range(2)]
    for number, name in enumerate(names):
        block_model(number).save(name)
    families = [Family("a", tuple(names[:2])), Family("b", tuple(names[2:]))]
    bench = natural_rule.bench(families)
    outcome = quick(bench, tmp_path)
    assert {(item["family"], item["source"], item["target"]) for item in outcome.rows} == {
        *(("a", "a_0", "a_1"), ("a", "a_1", "a_0"), ("b", "b_0", "b_1"), ("b", "b_1", "b_0")),
    }
    chosen = {item["family"]: item["deviation"] for item in outcome.rows}
    for family, other in (("a", "b"), ("b", "a")):
        own = [item for item in outcome.rows if item["family"] == other]
        assert chosen[family] == natural_rule.deviation_of(own)
