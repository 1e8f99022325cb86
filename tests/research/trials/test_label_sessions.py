"""Simulated sessions are scored by the truth."""

import numpy as np
from tests.helpers import block_model

from graphtemper import recalibrate, shifts
from graphtemper_research.trials.label_sessions import BENCH, session_facts, table


def test_sessions_of_every_kind_are_scored(model, card):
    target = shifts.noise(0.8)(block_model(2, num_nodes=600), 5)
    result = recalibrate(model, target, card)
    rows = [session_facts(result, target.labels, seed) for seed in range(4)]
    found = table(rows)
    assert found["sessions"] == 4
    assert found["right"] == 1.0
    assert 0.3 < found["share"] <= 1.1
    scrambled = session_facts(result, np.roll(target.labels, 1), 0)
    assert scrambled["labels"] > 0


def test_the_outcome_states_the_bars():
    row = {"target": "b", "session": 0, "held": 1.0, "share": 0.7, "right": 1.0, "labels": 90.0}
    rows = [row | {"always": 1.0}, row | {"held": 0.0, "labels": 110.0, "always": 1.0}]
    cell = {"family": "f", "source": "a", "model": "SIGN", "seed": 1, "sessions": 2, "rows": rows}
    outcome = BENCH.outcome([cell])
    assert [item["family"] for item in outcome.rows] == ["f", "all sessions"]
    assert outcome.rows[0]["held"] == 0.5
    assert outcome.rows[1]["labels"] == 100.0
    met = [bar.met for bar in outcome.comparisons]
    assert met == [False, True, True, True, True]
