"""What a card lets expect of the classes of a target."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from graphtemper.card import class_bias


def card(environments=(), shares=(0.9, 0.1), size=1000, biases=(0.0, 1.0)):
    moments = SimpleNamespace(shares=np.array(shares))
    return SimpleNamespace(
        class_profile=SimpleNamespace(biases=np.array(biases)),
        reference=SimpleNamespace(moments=moments),
        effective_nodes=size,
        environments=environments,
    )


def environment(biases, shares):
    return SimpleNamespace(biases=np.array(biases), log_shares=np.log(shares))


def test_without_environments_classes_are_those_of_the_source():
    found = class_bias.expected(card(), 0.0, 0.0, 1000)
    assert found.biases == pytest.approx([-0.5, 0.5])
    assert np.exp(found.log_shares) == pytest.approx([0.9, 0.1], abs=1e-3)


def test_moved_features_and_gaps_widen():
    still = class_bias.expected(card(), 0.0, 0.0, 1000)
    moved = class_bias.expected(card(), 1.0, 1.0, 1000)
    assert (moved.share_variance > 4 * still.share_variance).all()
    assert (moved.bias_variance > still.bias_variance).all()


def test_rare_classes_are_less_certain():
    found = class_bias.expected(card(size=100), 0.0, 0.0, 1000)
    assert found.bias_variance[1] > found.bias_variance[0] + 0.08


def test_environments_set_the_centre_and_the_width():
    same = [environment([2.0, 0.0], [0.5, 0.5])] * 8
    found = class_bias.expected(card(same), 1.0, 0.3, 1000)
    assert found.biases == pytest.approx([1.0, -1.0], abs=0.2)
    assert np.exp(found.log_shares[1]) == pytest.approx(0.5, abs=0.1)
    apart = [environment([4.0, 0.0], [0.5, 0.5]), environment([-4.0, 0.0], [0.5, 0.5])] * 4
    wide = class_bias.expected(card(apart), 1.0, 0.3, 1000)
    assert wide.bias_variance[0] > 5 * found.bias_variance[0]


def test_a_card_without_a_profile_has_no_biases():
    plain = card()
    plain.class_profile = None
    assert class_bias.expected(plain, 0.0, 0.0, 10).biases.tolist() == [0.0, 0.0]


def test_constants_can_be_changed():
    tight = replace(class_bias.CONSTANTS, bias=0.01, bias_slope=0.0)
    found = class_bias.expected(card(), 0.0, 1.0, 1000, tight)
    assert found.bias_variance.max() < 0.02
