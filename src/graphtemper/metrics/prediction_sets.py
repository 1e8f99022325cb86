"""Coverage and size of prediction sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, as_array, check_labels


def coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of nodes whose set contains the true class.

    Parameters
    ----------
    sets : (n, K) bool array
        Which classes are in each node's set.
    labels : (n,) integer array

    Examples
    --------
    >>> coverage([[True, False], [True, True], [True, False], [False, False]], [0, 1, 1, 0])
    0.5
    """
    return float(_covered(sets, labels)[0].mean())


def classwise_coverage(sets: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Return the coverage among the nodes of each class, (K,); NaN for a class without nodes.

    Examples
    --------
    >>> classwise_coverage([[True, False, False], [True, True, False]], [0, 0]).tolist()
    [1.0, nan, nan]
    """
    covered, truth, num_classes = _covered(sets, labels)
    counts = np.bincount(truth, minlength=num_classes).astype(np.float64)
    hits = np.bincount(truth, weights=covered, minlength=num_classes)
    fractions = np.full(num_classes, np.nan)
    np.divide(hits, counts, out=fractions, where=counts > 0)
    return fractions


def mean_set_size(sets: ArrayLike) -> float:
    """Return the mean number of classes per set; an empty set counts as 0.

    Examples
    --------
    >>> mean_set_size([[True, False], [True, True], [False, False]])
    1.0
    """
    return float(_checked(sets).sum(axis=1).mean())


def singleton_share(sets: ArrayLike) -> float:
    """Return the fraction of nodes whose set is a single class.

    Examples
    --------
    >>> singleton_share([[True, False], [True, True], [False, False], [False, True]])
    0.5
    """
    return float((_checked(sets).sum(axis=1) == 1).mean())


def _covered(sets: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.intp], int]:
    members = _checked(sets)
    truth = check_labels(labels, *members.shape)
    return members[np.arange(len(members)), truth], truth, members.shape[1]


def _checked(sets: ArrayLike) -> NDArray[np.bool_]:
    array = as_array(sets, "sets")
    if array.dtype != bool:
        raise errors.too_few(f"sets must be boolean, one column per class, but is {array.dtype}.")
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise errors.shape(f"sets must have shape (n, K) with n >= 1, K >= 2, not {array.shape}.")
    return array
