"""A budget: what a card and a recalibration cost in forward passes, and how a budget is spent.

A pass is one call of the model on a graph of the size of the source. Precision is spent at the
source and at the target. A shift of the atlas gets one split of the columns, because the response
averages over many, and is compared with the source measured on the same split. If the budget does
not suffice for all shifts, compositions are left out; if it exceeds their cost, shifts get more
splits. Shifts of the edges alone leave views without neighbours as they are at the source, so that
these are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from graphtemper import errors
from graphtemper._core.checks import check_integer
from graphtemper.models.passes import Passes
from graphtemper.signals.views import num_passes

Budget = int | Literal["thorough"] | None
CARD_BUDGET, TARGET_BUDGET = 500, 12
"""Forward passes that a card and a recalibration may take by default."""
NOISE_STEPS, NOISE_PASSES = 5, 2
"""Bisection of the noise level at the source: steps, and passes per step."""
# Splits at the source and at the target, within a budget and without.
_SPLITS, _THOROUGH = 3, 4


class Spending(NamedTuple):
    """How a card's budget is spent.

    ``shifts`` is the number of shifts, at most those that were planned; ``passes`` are those of the
    whole build; ``splits`` are those at source and target, and ``inside`` those under each shift.
    """

    shifts: int
    passes: int
    splits: int
    inside: int


def resolved(budget: Budget, passes: Passes | None, default: int) -> int | None:
    """Return the number of passes that a budget allows, or None for thorough measurements.

    Without a budget, models whose passes are cheap are measured thoroughly.

    Examples
    --------
    >>> from graphtemper.models.passes import ForwardPasses
    >>> passes = ForwardPasses(lambda graph: graph.features)
    >>> resolved(None, passes, 500), resolved("thorough", passes, 500)
    (500, None)
    """
    if budget is None:
        return None if passes is not None and passes.cheap else default
    if isinstance(budget, str):
        if budget != "thorough":
            raise errors.wrong_type(
                f"budget must be a number of forward passes or 'thorough', not {budget!r}."
            )
        return None
    return check_integer(budget, "budget", 1)


def spend(
    allowed: int | None,
    edges_only: Sequence[bool],
    compositions: int,
    *,
    others: int = 0,
    checks: int = 0,
) -> Spending:
    """Return how to build a card with a number of passes; None for a thorough one.

    Parameters
    ----------
    allowed
        The budget, see `resolved`.
    edges_only
        Whether each planned shift changes nothing but edges; compositions come last.
    compositions
        How many of them are compositions.
    others
        Number of further graphs to measure; a pass there is one over their graph.
    checks
        Passes that were taken to check the model.

    Examples
    --------
    >>> planned = [True] * 21 + [False] * 111
    >>> spend(400, planned, compositions=70)
    Spending(shifts=70, passes=399, splits=3, inside=1)
    >>> spend(None, planned, compositions=70).passes
    1900
    """
    splits = _THOROUGH if allowed is None else _SPLITS
    fixed = checks + NOISE_STEPS * NOISE_PASSES + (1 + others) * num_passes(splits)
    for inside in range(splits, 0, -1):
        each = np.array([num_passes(inside, own_known=same) for same in edges_only])
        spent = fixed + np.cumsum(each)
        if allowed is None or spent[-1] <= allowed:
            return Spending(len(edges_only), int(spent[-1]), splits, inside)
    singles = max(len(edges_only) - compositions, 1)
    affordable = int((spent <= allowed).sum())
    if affordable < singles:
        raise errors.too_few(
            f"a budget of {allowed} passes is too small for a card of {singles} single shifts; the "
            f"smallest useful budget is {spent[singles - 1]}, or pass fewer shifts."
        )
    return Spending(affordable, int(spent[affordable - 1]), splits, 1)


def check_target(budget: Budget, needed: int) -> None:
    """Refuse a budget that is too small for a recalibration."""
    allowed = resolved(budget, None, TARGET_BUDGET)
    if allowed is not None and needed > allowed:
        raise errors.too_few(
            f"a budget of {allowed} passes is too small for a recalibration with this card; the "
            f"smallest useful budget is {needed}."
        )
