"""Accuracy estimators behind one protocol: learn scalars at the source, estimate at the target.

===================  ==========================================  ==========================
estimator            reads at the target                         carries
===================  ==========================================  ==========================
`ATC`                confidence or entropy                       a threshold
`AverageConfidence`  confidence                                  nothing
`DoC`                confidence                                  accuracy, mean confidence
`GDE`                votes of perturbed passes                   a strength
`COT`                probabilities                               class shares
===================  ==========================================  ==========================

`check` tries an estimator of your own.
"""

from __future__ import annotations

from graphtemper._core.estimate import Estimate
from graphtemper._core.parameters import HasParameters
from graphtemper.estimators.atc import ATC
from graphtemper.estimators.base import Carried, Estimator, correct, share_estimate
from graphtemper.estimators.checking import check
from graphtemper.estimators.confidence import AverageConfidence, DoC
from graphtemper.estimators.gde import GDE
from graphtemper.estimators.transport import COT

__all__ = [
    "ATC",
    "COT",
    "GDE",
    "AverageConfidence",
    "Carried",
    "DoC",
    "Estimate",
    "Estimator",
    "HasParameters",
    "check",
    "correct",
    "share_estimate",
]
