"""Who competes on the leaderboard."""

from graphtemper import calibrators
from graphtemper_research.leaderboard import methods
from graphtemper_research.leaderboard.methods import (
    CALIBRATORS,
    ESTIMATORS,
    KIND,
    PER_NODE,
    competitors,
)
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def test_every_registered_method_competes():
    everyone = set(competitors("GCN", CALIBRATORS))
    assert everyone >= set(calibrators.REGISTRY) - {"TemperatureScaling"}
    assert everyone >= {SOURCE, ATLAS, PER_NODE, ORACLE, *ESTIMATORS}
    assert everyone == set(KIND)
    assert not set(methods.RETRAINED) & set(competitors("SIGN", CALIBRATORS))
    assert not set(methods.RETRAINED) & set(competitors("GCN"))
