r"""Conformal prediction: sets of classes that contain the true one with a chosen probability.

A score measures how badly a class fits a node. The threshold is a quantile of the scores of true
classes on labelled nodes, and a set contains every class whose score does not exceed it.

**Coverage is guaranteed only under exchangeability** of the labelled and the new nodes: their joint
distribution does not depend on their order. On a shifted graph this fails, and coverage is not
guaranteed. A weaker statement holds: if the recalibrated probabilities are the true ones, the
randomised APS score of the true class is uniform on every graph, so the source's threshold still
covers. `recalibrate` corrects the mean confidence and not every probability, so this is a reason to
measure coverage and not a guarantee.

`docs/sets.md` shows the use; `graphtemper bench sets` measures it under shift.
"""

from graphtemper.calibrators.conformal.scores import aps, diffuse, raps
from graphtemper.calibrators.conformal.sets import ConformalSets
from graphtemper.calibrators.conformal.threshold import threshold

__all__ = ["ConformalSets", "aps", "diffuse", "raps", "threshold"]
