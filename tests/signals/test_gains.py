"""Gains from covariances made by hand."""

from typing import NamedTuple

import numpy as np
import pytest

from graphtemper.signals.covariances import Covariance
from graphtemper.signals.gains import read_gains


class Views(NamedTuple):
    feature: Covariance = Covariance(4.0, 0.1)
    own_feature: Covariance = Covariance(9.0, 0.1)
    edge: Covariance = Covariance(2.0, 0.02)
    wedge: Covariance = Covariance(1.0, 0.01)
    held: Covariance = Covariance(1.5, 0.01)
    covariance: np.ndarray = np.eye(2)


SOURCE = Views()
UNREDUNDANT = Views(own_feature=Covariance(0.1, 0.1))


def test_the_source_against_itself():
    gains = read_gains(SOURCE, SOURCE)
    assert list(gains.to_dict().values()) == pytest.approx([1.0] * 6)


def test_own_gain_and_homophily_are_separated():
    """a = 0.5, eta = 0.8, g = 0.6: edges a^2 eta, wedges a^2 eta^2, held-out edges g a eta."""
    target = Views(
        edge=Covariance(2.0 * 0.2, 1e-6),
        wedge=Covariance(0.16, 1e-6),
        held=Covariance(1.5 * 0.6 * 0.4, 1e-6),
    )
    gains = read_gains(target, SOURCE).to_dict()
    assert gains["own"] == pytest.approx(0.5, rel=1e-3)
    assert gains["homophily"] == pytest.approx(0.8, rel=1e-2)
    assert gains["model"] == pytest.approx(0.6, rel=1e-3)


def test_halves_give_the_signal_gain_unless_neighbours_contradict_them():
    weaker = Views(feature=Covariance(1.0, 0.02), own_feature=Covariance(2.25, 0.02))
    half = {"edge": Covariance(0.5, 0.005), "wedge": Covariance(0.25, 0.002)}
    agreed = Views(feature=weaker.feature, own_feature=weaker.own_feature, **half)
    assert read_gains(agreed, SOURCE).to_dict()["signal"] == pytest.approx(0.5, rel=0.02)
    swapped = Views(**half)
    assert read_gains(swapped, SOURCE).to_dict()["halves"] == pytest.approx(1.0)
    assert read_gains(swapped, SOURCE).to_dict()["signal"] == pytest.approx(0.5, rel=0.03)


def test_without_redundant_columns_neighbours_give_the_signal_gain():
    target = Views(held=Covariance(0.75, 0.01))
    gains = read_gains(target, UNREDUNDANT)
    assert gains.halves is None
    assert np.exp(gains.signal) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("wedge", [-0.02, 0.0, 0.02])
def test_gains_stay_bounded_if_wedges_are_below_their_error(wedge):
    """Without signal between neighbours, the result must not depend on the sign of the noise."""
    target = Views(
        edge=Covariance(0.05, 0.05), wedge=Covariance(wedge, 0.04), held=Covariance(0.03, 0.04)
    )
    gains = read_gains(target, UNREDUNDANT).to_dict()
    assert 0.2 < gains["signal"] < 1.2
    assert gains["model"] < 1.2
    assert 0.2 < gains["homophily"] < 1.2


def test_a_changed_sign_of_the_edge_covariance_is_no_homophily():
    target = Views(edge=Covariance(-2.0, 0.02), held=Covariance(-1.5, 0.01))
    assert read_gains(target, SOURCE).to_dict()["homophily"] < 0.05


def test_a_target_without_edges_has_no_neighbour_gains():
    nothing = Covariance(0.0, 0.0)
    target = Views(edge=nothing, wedge=nothing, held=nothing)
    assert set(read_gains(target, SOURCE).to_dict()) == {"signal", "halves", "spread"}
    assert read_gains(target, UNREDUNDANT).signal is None


def test_a_heterophilous_source_has_negative_edge_covariances():
    source = Views(edge=Covariance(-2.0, 0.02), held=Covariance(-1.5, 0.01))
    target = Views(edge=Covariance(-1.0, 0.02), wedge=Covariance(0.25, 0.01))
    gains = read_gains(target, source).to_dict()
    assert gains["own"] == pytest.approx(1.0, rel=0.02)
    assert gains["homophily"] == pytest.approx(0.5, rel=0.1)
