"""Signs that labelled nodes are not what their owner takes them for; each is a warning.

A card believes its labels. Nodes that the model was trained on, labels with other numbers than the
model's classes and a model that is worse than no model are mistakes that only its owner can mend.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import GraphTemperWarning

# What counts as more accurate: by this many points, and standard errors of the difference.
_BETTER, _STANDARD_ERRORS = 0.05, 4.0
# By how much another numbering of the classes has to raise the accuracy.
_RENUMBERED = 0.2
_Classes = NDArray[np.integer[Any]]


def warn(messages: Iterator[str]) -> None:
    """Show every message as a warning."""
    for message in messages:
        warnings.warn(message, GraphTemperWarning, stacklevel=3)


def much_better(right: NDArray[np.bool_], classes: _Classes, here: NDArray[np.bool_]) -> bool:
    r"""Return whether predictions are right here far more often than elsewhere, class by class.

    By 5 points and by four standard errors of the mean difference, in which a class with n nodes
    here and m elsewhere has the weight :math:`nm / (n + m)` (Mantel and Haenszel). So another mix
    of classes is no difference.

    Parameters
    ----------
    right, classes, here : (n,) arrays
        Whether each prediction is right, the class of each node, and whether the node is here.

    Examples
    --------
    >>> here, right = np.arange(400) < 200, np.arange(400) % 5 > 0
    >>> none = np.zeros(400, int)
    >>> much_better(right | here, none, here), much_better(right, none, here)
    (True, False)
    """
    total = gap = square = 0.0
    for k in np.unique(classes):
        n, m = (float(((classes == k) & side).sum()) for side in (here, ~here))
        if not n or not m:
            continue
        inside, outside = (right[(classes == k) & side].mean() for side in (here, ~here))
        weight = n * m / (n + m)
        common = (right[classes == k].sum() + 0.5) / (n + m + 1.0)
        total, gap = total + weight, gap + weight * float(inside - outside)
        square += weight * float(common * (1.0 - common))
    if not total:
        return False
    return gap / total > max(_BETTER, _STANDARD_ERRORS * float(np.sqrt(square)) / total)


def of_labels(
    predictions: _Classes, labels: _Classes, num_classes: int, where: str
) -> Iterator[str]:
    """Say that labels seem to be numbered otherwise, or that the model is worse than none.

    Examples
    --------
    >>> truth = np.arange(300) % 3
    >>> for text in of_labels((truth + 1) % 3, truth, 3, "the source"):
    ...     print(text)
    in the source 0.0% of the predictions agree with the labels, and 100.0% would if ...
    >>> list(of_labels(truth, truth, 3, "the source"))
    []
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((num_classes, num_classes))
    np.add.at(counts, (predictions, labels), 1.0)
    accuracy = float(np.trace(counts)) / labels.size
    rows, columns = linear_sum_assignment(-counts)
    renumbered = float(counts[rows, columns].sum()) / labels.size
    largest = float(counts.sum(axis=0).max()) / labels.size
    if renumbered > max(accuracy + _RENUMBERED, largest + _BETTER):
        moved = [(int(a), int(b)) for a, b in zip(rows, columns, strict=True) if a != b][:4]
        pairs = ", ".join(f"{a} is labelled {b}" for a, b in moved)
        yield (
            f"in {where} {accuracy:.1%} of the predictions agree with the labels, and "
            f"{renumbered:.1%} would if classes had other numbers ({pairs}); check that labels "
            "are numbered as the model's outputs are."
        )
        return
    error = float(np.sqrt(max(accuracy * (1.0 - accuracy), 0.01) / labels.size))
    if accuracy + 2.0 * error < largest:
        yield (
            f"in {where} the model is right {accuracy:.1%} of the time, less than the "
            f"{largest:.1%} of always answering the most frequent class; check the labels and "
            "the model."
        )
