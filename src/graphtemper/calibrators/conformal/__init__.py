r"""Sets of classes that hold the true one with a chosen probability: conformal prediction.

A score says how badly a class fits a node. The threshold is a quantile of the scores of true
classes on labelled nodes, and a set is every class whose score does not exceed it.

**Coverage is guaranteed only under exchangeability**: if the labelled nodes and the new ones could
change places without anybody noticing. A shifted graph breaks that, and then nothing here promises
coverage. What can be said is weaker: if the recalibrated probabilities are the true ones, the
randomised APS score of the true class is uniform on every graph, so the source's threshold still
covers. `recalibrate` makes mean confidence right, not every probability, so this is a reason to
measure and not a guarantee.

`docs/sets.md` shows how it is used; `graphtemper bench sets` measures it under shift.
"""

from graphtemper.calibrators.conformal.scores import aps, diffuse, raps
from graphtemper.calibrators.conformal.sets import ConformalSets
from graphtemper.calibrators.conformal.threshold import threshold

__all__ = ["ConformalSets", "aps", "diffuse", "raps", "threshold"]
