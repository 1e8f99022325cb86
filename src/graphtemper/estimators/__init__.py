"""Accuracy estimators behind one protocol: learn scalars at the source, estimate at the target.

===================  ==========================================  ==========================
estimator            reads at the target                         carries
===================  ==========================================  ==========================
`ATC`                confidence or entropy                       a threshold
`AverageConfidence`  confidence                                  nothing
`DoC`                confidence                                  accuracy, mean confidence
`GDE`                votes of perturbed passes                   a strength
`MinimumATCGDE`      both, as the paper does                     a threshold, a strength
`NuclearNorm`        singular values of the probabilities        accuracy, score
`MaNo`               a matrix norm of the normalised logits      accuracy, score
`COT`                probabilities                               class shares
===================  ==========================================  ==========================
"""

from __future__ import annotations

from graphtemper._core.estimate import Estimate
from graphtemper.estimators.atc import ATC
from graphtemper.estimators.base import Estimator
from graphtemper.estimators.confidence import AverageConfidence, DoC
from graphtemper.estimators.gde import GDE, MinimumATCGDE
from graphtemper.estimators.matrix_norms import MaNo, NuclearNorm
from graphtemper.estimators.transport import COT

__all__ = [
    "ATC",
    "COT",
    "GDE",
    "AverageConfidence",
    "DoC",
    "Estimate",
    "Estimator",
    "MaNo",
    "MinimumATCGDE",
    "NuclearNorm",
]
