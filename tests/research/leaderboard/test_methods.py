"""Who competes on the leaderboard."""

from graphtemper import calibrators
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.leaderboard import methods
from graphtemper_research.leaderboard.methods import (
    CALIBRATORS,
    ESTIMATORS,
    KIND,
    MOST_EPOCHS,
    PER_NODE,
    competitors,
    new_calibrator,
)
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def test_every_registered_method_competes():
    everyone = set(competitors("GCN", CALIBRATORS))
    assert everyone >= set(calibrators.REGISTRY) - {"TemperatureScaling"}
    assert everyone >= {SOURCE, ATLAS, PER_NODE, ORACLE, *ESTIMATORS}
    assert everyone == set(KIND)
    assert not set(methods.RETRAINED) & set(competitors("SIGN", CALIBRATORS))
    assert not set(methods.RETRAINED) & set(competitors("GCN"))


def test_networks_stop_by_their_authors_rule_or_by_folds():
    rules = {name: methods.new_calibrator(name, 1).get_params()["stop"] for name in methods.FOLDS}
    assert set(rules.values()) == {"folds"}
    for folds, name in methods.FOLDS.items():
        own = methods.new_calibrator(name, 1)
        assert own.get_params()["stop"] == own.authors_stop != rules[folds]


def test_gets_has_the_released_settings_of_a_graph():
    released = methods.RELEASED["citeseer"]
    for name in ("GETS", "GETS folds"):
        params = methods.new_calibrator(name, 1, "citeseer+svd64").get_params()
        assert {key: params[key] for key in released} == released
        assert methods.new_calibrator(name, 1, "county_2012").get_params()["lr"] != released["lr"]


def test_fewer_epochs_leave_the_size_loss_its_share():
    default, capped = CFGNN().get_params(), new_calibrator("CFGNN", 1).get_params()
    shares = [params["warm"] / params["epochs"] for params in (default, capped)]
    assert capped["epochs"] == MOST_EPOCHS
    assert shares[0] == shares[1]
