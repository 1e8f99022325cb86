r"""What a card lets expect of each class of a target: biases of its scores, and its share.

One temperature makes confidence right on average, but not precision and recall: these also depend
on which classes the model favours. With logits z, a slope :math:`\beta` and a bias per class,

.. math:: p_i = \mathrm{softmax}(\beta z_i + b)

describes both. The slope follows from the accuracy. For the biases there are two expectations, each
with a variance, and a target weighs them (`graphtemper.recalibration.decisions.posterior`): they
are about those of the source (or the mean of those in labelled environments), and the mean of
:math:`p_i` is about the class shares of the source (or of the environments). Where feature means
did not move, shares hardly do. Biases move the more, the farther the accuracy is from the
confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphtemper._core.checks import FloatArray

if TYPE_CHECKING:
    from graphtemper.card.card import SourceCard

FEW_MEMBERS = 30
"""With fewer labelled nodes of a class in the card, what is said about the class is vague."""


@dataclass(frozen=True)
class Constants:
    """How far classes usually move, in log-odds.

    Attributes
    ----------
    bias, bias_slope
        Deviation of the biases, and how much of it the gap between accuracy and confidence adds.
    share, natural_share
        Deviation of the logarithms of class shares where feature means stay, and where they move.
    counted
        How many environments the usual deviations are worth next to those that a card has seen.
    """

    bias: float = 0.4
    bias_slope: float = 0.5
    share: float = 0.1
    natural_share: float = 0.7
    counted: float = 3.0


CONSTANTS = Constants()


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Biases (K,) and logarithms of class shares (K,) that are expected, and their variances."""

    biases: FloatArray
    bias_variance: FloatArray
    log_shares: FloatArray
    share_variance: FloatArray


def centred(biases: FloatArray) -> FloatArray:
    """Return biases with mean zero; a common constant says nothing."""
    return np.asarray(biases - biases.mean(axis=-1, keepdims=True))


def expected(
    card: SourceCard, moved: float, gap: float, size: int, constants: Constants = CONSTANTS
) -> ClassPrior:
    """Return what is expected of the classes of a target with ``size`` nodes.

    Parameters
    ----------
    card
        The source card.
    moved
        Whether feature means have moved, between 0 and 1.
    gap
        Log-odds of the accuracy minus those of confidence at the source temperature, with their
        deviation: the root mean square.
    """
    c, profile = constants, card.class_profile
    members = card.reference.moments.shares * card.effective_nodes + 0.5
    shares = members / members.sum()
    biases = np.zeros(shares.size) if profile is None else centred(profile.biases)
    rare = 1.0 / members
    bias_variance = c.bias**2 + (c.bias_slope * gap) ** 2
    share_variance = c.share**2 + moved * c.natural_share**2
    log_shares = np.log(shares)
    if card.environments:
        apart = [centred(item.biases) - biases for item in card.environments]
        change, bias_variance = _pooled(np.array(apart), bias_variance, c.counted)
        biases, rare = biases + change, 0.0 * rare
        there = np.array([item.log_shares for item in card.environments])
        change, share_variance = _pooled(
            there - log_shares, c.share**2 + c.natural_share**2, c.counted
        )
        log_shares = log_shares + change
    here = 1.0 / (shares * size + 0.5)
    return ClassPrior(biases, bias_variance + rare, log_shares, share_variance + rare + here)


def _pooled(moves: FloatArray, usual: float, counted: float) -> tuple[FloatArray, float]:
    """Return the expected move of every class (K,), and the variance of the next one.

    ``moves`` (m, K) are those of m environments. Their mean is shrunk towards none, and their
    variance, one number for all classes, towards the ``usual`` one.
    """
    count, mean = len(moves), moves.mean(axis=0)
    around = float(((moves - mean) ** 2).mean(axis=1).sum())
    variance = (counted * usual + around) / (counted + count - 1.0)
    held = usual / (usual + variance / count)
    return held * mean, variance * (1.0 + held / count)
