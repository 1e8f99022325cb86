"""The shifts of the evaluations, and the targets they make of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphtemper import Graph, shifts
from graphtemper.shifts import Shift
from graphtemper_research.graphs import datasets
from graphtemper_research.trials.trial import TARGET_SEED

FEWEST_NODES = 1000
SHIFTS: tuple[Shift | None, ...] = (
    None,
    *(shifts.noise(level) for level in (0.75, 1.0, 2.5)),
    *(shifts.mask(level) for level in (0.5, 0.9)),
    *(shifts.rewire(level) for level in (0.25, 0.5, 0.75)),
    *(shifts.drop(level) for level in (0.5, 0.9)),
    shifts.add(1.5),
    shifts.shuffle(0.5),
    shifts.heterogeneous(1.5),
    *(shifts.scale(level) for level in (0.4, 2.5)),
)
HOMOPHILY = tuple(shifts.homophily(level) for level in (-0.6, -0.3, 0.3, 0.6))
"""The shift of the paper's theory, which needs the labels of a graph to be drawn."""


def title(shift: Shift | None) -> str:
    """Return the name of a shift in a table.

    Examples
    --------
    >>> title(None), title(shifts.noise(0.75))
    ('none', 'noise(0.75)')
    """
    return "none" if shift is None else repr(shift)


def large_graphs() -> list[str]:
    """Return the graphs of the catalogue that are large enough."""
    return [
        name
        for name, entry in datasets.CATALOGUE.items()
        if entry.collection == "benchmark" and entry.nodes >= FEWEST_NODES
    ]


def families(chosen: Sequence[Shift | None] | None = None) -> list[str]:
    """Return the families of some shifts, or of `SHIFTS`, each once.

    Examples
    --------
    >>> families(HOMOPHILY)
    ['homophily']
    """
    given = SHIFTS if chosen is None else chosen
    return list(dict.fromkeys(shift.family for shift in given if shift is not None))


def shifted(
    graph: Graph, seed: int, chosen: Sequence[Shift | None] | None = None
) -> Iterator[tuple[Shift | None, Graph, int]]:
    """Yield every shift, of `SHIFTS` by default, with the graph under it and the draw's seed.

    The graph has all its labels, which a shift of the homophily reads; the targets have none.
    """
    for index, shift in enumerate(SHIFTS if chosen is None else chosen):
        draw = TARGET_SEED + 100 * seed + index
        target = graph if shift is None else shift(graph, draw)
        yield shift, target.replace(labels=None), draw
