"""A budget: what a card and a recalibration cost in forward passes, and how a budget is spent.

Precision is spent at the source and at the target. An environment of the atlas gets one split of
the columns, because the response averages over many environments, and is compared with the source
measured on the same split. If the budget does not suffice for all environments, compositions are
left out; if it exceeds their cost, environments get more splits.

A pass is one call of the model on a graph of the size of the source. A call that also holds copies
of the nodes without edges (see `graphtemper.signals.shared_passes`) has twice the nodes and the
same edges, and counts as one and a half. Shifts of the edges alone leave views without neighbours
as they are at the source, so their environments need no copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphtemper._core.checks import check_integer
from graphtemper.errors import InputError
from graphtemper.models.predictor import Predictor, declared_passes
from graphtemper.signals import node_signals
from graphtemper.signals.passes import Probe
from graphtemper.signals.shared_passes import num_held_out

Budget = int | Literal["thorough"] | None
CARD_BUDGET, TARGET_BUDGET = 500, 12
"""Forward passes that a card and a recalibration may take by default."""
# Splits at the source and at the target: with copies of the nodes, and with passes for own views.
_SPLITS, _SPLITS_APART = 3, 2
# Bisection of the noise level at the source: steps, and passes per step.
_THOROUGH_STEPS, _THOROUGH_PASSES = 9, 6
_STEPS, _PASSES = 7, 2
# A model is recognised by a pass over a tiny graph, and checked at the source by two more.
_RECOGNISED, _CHECKED = 1, 3
# What copies of all nodes add to a pass.
_COPIES = 0.5


@dataclass(frozen=True)
class Plan:
    """How a card's budget is spent.

    Attributes
    ----------
    environments
        Number of environments, at most those that were planned.
    passes
        Forward passes of the whole build.
    shared_splits, inside
        Splits at source and target, and in environments; 0 takes passes one by one.
    copies
        Whether own views are read off copies of the nodes.
    noise_steps, noise_passes
        Steps of the search for the noise level, and passes per step.
    """

    environments: int
    passes: int
    shared_splits: int = 0
    inside: int = 0
    copies: bool = True
    noise_steps: int = _THOROUGH_STEPS
    noise_passes: int = _THOROUGH_PASSES


def resolved(budget: Budget, predictor: Predictor, default: int) -> int | None:
    """Return the number of passes that a budget allows, or None for thorough measurements.

    Without a budget, models that declare fast passes are measured thoroughly.

    Examples
    --------
    >>> resolved(None, lambda graph: graph.features, 500), resolved("thorough", print, 500)
    (500, None)
    """
    if budget is None:
        return None if declared_passes(predictor) is not None else default
    if isinstance(budget, str):
        if budget != "thorough":
            raise InputError(
                f"budget must be a number of forward passes or 'thorough', not {budget!r}."
            )
        return None
    return check_integer(budget, "budget", 1)


def plan(
    passes: int | None,
    edges_only: Sequence[bool],
    compositions: int,
    num_nodes: int,
    *,
    has_edges: bool = True,
    copies: bool = True,
    labelled: Sequence[int] = (),
    extra: int = 0,
) -> Plan:
    """Return how to build a card of some environments with a number of passes.

    Parameters
    ----------
    passes
        The budget, see `resolved`.
    edges_only
        Whether each planned environment changes nothing but edges; compositions come last.
    compositions
        How many of them are compositions.
    num_nodes, has_edges
        Number of labelled nodes, and whether the graph has edges.
    copies
        See `graphtemper.signals.copies.reads_copies`.
    labelled
        Numbers of labelled nodes of other environments; a pass there is one over their graph.
    extra
        Further passes to count within a budget.

    Examples
    --------
    >>> planned = [True] * 21 + [False] * 111
    >>> few = plan(400, planned, compositions=70, num_nodes=500)
    >>> few.environments, few.passes, plan(None, planned, 70, 500).passes
    (77, 398, 7106)
    """
    environments = len(edges_only)
    if passes is None:
        total = count_thorough(environments, num_nodes, has_edges)
        total += sum(_thorough_observation(size, has_edges) for size in labelled)
        return Plan(environments, total)
    at_source = _SPLITS if copies else _SPLITS_APART
    fixed = _CHECKED + 1 + _COPIES + _STEPS * _PASSES + extra
    fixed += (1 + len(labelled)) * observing(at_source, copies)
    for inside in range(at_source, 0, -1):
        again = 0 if inside == at_source else observing(inside, copies) - 1
        each = [observing(inside, copies, own=not same) for same in edges_only]
        needed = math.ceil(fixed + again + sum(each))
        if needed <= passes:
            return Plan(environments, needed, at_source, inside, copies, _STEPS, _PASSES)
    spent = fixed + again + np.cumsum(each)
    affordable, singles = int((spent <= passes).sum()), environments - compositions
    if affordable < max(singles, 1):
        least = math.ceil(spent[max(singles, 1) - 1])
        raise InputError(
            f"a budget of {passes} passes is too small for a card of {singles} single shifts; the "
            f"smallest useful budget is {least}, or pass fewer shifts."
        )
    needed = math.ceil(spent[affordable - 1])
    return Plan(affordable, needed, at_source, 1, copies, _STEPS, _PASSES)


def observing(splits: int, copies: bool, own: bool = True) -> float:
    """Return the passes over one graph that is measured with shared passes.

    Without ``own``, views without neighbours are known.

    Examples
    --------
    >>> observing(1, copies=True), observing(3, copies=True), observing(1, copies=False)
    (5.0, 11.0, 6.0)
    """
    clean, held_out = 1, num_held_out(splits)
    each = _COPIES if copies else 1.0
    return clean + 2 * splits + held_out + each * (1 + splits) * own


def count_thorough(num_environments: int, num_nodes: int, has_edges: bool = True) -> int:
    """Return the passes of a thorough build; a split of the columns takes four of them.

    Examples
    --------
    >>> count_thorough(0, 300), count_thorough(132, 300), count_thorough(132, 30_000)
    (110, 7106, 5510)
    """
    node_rows = 1 + 4 * node_signals.SPLITS
    each = _thorough_observation(num_nodes, has_edges) + node_rows
    return (num_environments + 1) * each + _THOROUGH_STEPS * _THOROUGH_PASSES + _CHECKED


def _thorough_observation(num_nodes: int, has_edges: bool) -> int:
    probe = Probe(1.0, 1.0, np.ones(1), 0.0, 0.0, seed=0)
    clean, own, halves = 1, 1, 4 * probe.splits
    noisy = 2 * probe.passes_over(num_nodes, fewest=2)  # deviations of the target and the source
    return clean + own + halves + noisy + (probe.passes_over(num_nodes) if has_edges else 0)


def count_target(
    probe: Probe,
    num_nodes: int,
    *,
    has_edges: bool = True,
    per_node: bool = False,
    plain: bool = True,
) -> int:
    """Return the passes of a recalibration with a card that was built with this probe.

    Graphs that are not ``plain`` (directed, weighted, with attributes or types) take their views
    without neighbours in passes of their own.

    Examples
    --------
    >>> probe = Probe(1.0, 0.5, np.ones(3), 0.9, 0.1, seed=0)
    >>> from dataclasses import replace
    >>> count_target(probe, 300), count_target(replace(probe, shared_splits=3), 300)
    (45, 12)
    """
    if probe.shared_splits:
        observed = observing(probe.shared_splits, probe.copies and plain)
        return _RECOGNISED + math.ceil(observed)
    node_rows = 1 + 4 * node_signals.SPLITS if per_node else 0
    return _RECOGNISED + _thorough_observation(num_nodes, has_edges) + node_rows


def check_target(passes: int | None, needed: int, probe: Probe) -> None:
    """Refuse a budget that is too small for a recalibration with this card."""
    if passes is None or needed <= passes:
        return
    how = "" if probe.shared_splits else " with a card that was built with budget='thorough'"
    raise InputError(
        f"a budget of {passes} passes is too small for a recalibration{how}; the smallest useful "
        f"budget is {needed}."
    )
