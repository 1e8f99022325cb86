"""The number that several published graph calibrators report as their calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper_research.harness.numeric import top_label


def degree_ece(
    probabilities: ArrayLike, labels: ArrayLike, degree: NDArray[Any], groups: int = 10
) -> float:
    r"""ECE over groups of nodes of similar degree, instead of similar confidence.

    Nodes are sorted by degree (ties keep their order) and cut into ``groups`` runs of equal
    length, up to one node. Several published graph calibrators report this number as "ECE". It
    cannot detect miscalibration that depends on confidence inside a group, so do not compare it
    with `graphtemper.metrics.ece`.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    degree : (n,) array
        Degree of each node.
    groups : int
        Number of groups; groups beyond the number of nodes stay empty.

    Examples
    --------
    >>> round(degree_ece([[0.1, 0.9], [0.2, 0.8]], [1, 0], [1, 5], groups=2), 4)
    0.45
    """
    confidence, correct = top_label(probabilities, labels)
    residual = (confidence - correct)[np.argsort(degree, kind="stable")]
    parts = np.array_split(residual, groups)
    return float(sum(abs(part.sum()) for part in parts) / len(residual))
