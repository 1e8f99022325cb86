"""Simulated sessions are scored by the truth."""

import numpy as np
from tests.helpers import block_model

from graphtemper import recalibrate, shifts
from graphtemper_research.trials.label_sessions import session_facts, table


def test_sessions_of_every_kind_are_scored(model, card):
    target = shifts.noise(0.8)(block_model(2, num_nodes=600), 5)
    result = recalibrate(model, target, card)
    rows = [session_facts(result, target.labels, seed) for seed in range(4)]
    found = table(rows)
    assert set(found) == {"held", "share", "right", "labels", "always"}
    assert found["right"] == 1.0
    assert 0.3 < found["share"] <= 1.1
    scrambled = session_facts(result, np.roll(target.labels, 1), 0)
    assert scrambled["labels"] > 0
