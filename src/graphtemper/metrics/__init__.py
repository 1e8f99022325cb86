"""Metrics of probabilities: calibration, likelihood, decisions, sets.

Every metric takes ``probabilities`` (n, K), rows summing to 1, and ``labels`` (n,) integers, and
checks both. A binary score g becomes two columns with ``temperature.apply([[0, g]])``.
Calibration is that of the top label: confidence is the largest probability of a row, and a node
is correct if the first class that attains it is the label. Metrics of prediction sets take
``sets`` (n, K), boolean, in place of probabilities.
"""

from graphtemper.metrics.binned import BinnedStatistics, bin_probabilities
from graphtemper.metrics.calibration_error import (
    classwise_ece,
    debiased_ece,
    ece,
    mce,
    noise_floor,
)
from graphtemper.metrics.classification import (
    auroc,
    average_precision,
    confusion,
    cost,
    decisions,
    f1,
    precision,
    precision_at_k,
    recall,
    recall_at_k,
    specificity,
)
from graphtemper.metrics.prediction_sets import (
    classwise_coverage,
    coverage,
    mean_set_size,
    singleton_share,
)
from graphtemper.metrics.proper import brier, nll
from graphtemper.metrics.uncertainty import ReliabilityCurve, reliability_curve

__all__ = [
    "BinnedStatistics",
    "ReliabilityCurve",
    "auroc",
    "average_precision",
    "bin_probabilities",
    "brier",
    "classwise_coverage",
    "classwise_ece",
    "confusion",
    "cost",
    "coverage",
    "debiased_ece",
    "decisions",
    "ece",
    "f1",
    "mce",
    "mean_set_size",
    "nll",
    "noise_floor",
    "precision",
    "precision_at_k",
    "recall",
    "recall_at_k",
    "reliability_curve",
    "singleton_share",
    "specificity",
]
