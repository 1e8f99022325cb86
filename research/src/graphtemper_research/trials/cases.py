"""The cases of a trial: which graphs, models and splits a request means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, Protocol

from graphtemper import Graph
from graphtemper_research.harness.cells import Case, Show
from graphtemper_research.harness.frame import Rows
from graphtemper_research.harness.runner import Request, Selection
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.trial import check_models

MODELS = ("SIGN",)


class MeasureGraph(Protocol):
    """Measures one split of one graph."""

    def __call__(
        self,
        graph: Graph,
        model: str,
        seed: int,
        compositions: int,
        *,
        progress: Show | None = None,
    ) -> Rows:
        """Return the rows."""
        ...


def graph_cases(
    measure: MeasureGraph,
    schema: str,
    graphs: Sequence[str],
    quick_graphs: Sequence[str],
    *,
    seeds: int = 1,
    **facts: Any,
) -> Callable[[Request], Selection]:
    """Return the function that gives a case for every model, graph and split of a request.

    Parameters
    ----------
    measure
        A function at the top of its module, so that workers can run it.
    schema, facts
        What a cell depends on besides graph, model, seed and the size of the atlas.
    graphs, quick_graphs
        Names of the catalogue or paths; those that are missing are left out and named, unless the
        request names others.
    seeds
        Number of splits unless the request says otherwise.
    """

    def cases(request: Request) -> Selection:
        models = models_of(request)
        splits = request.splits(seeds)
        names, missing = graphs_of(request, graphs, quick_graphs)
        contents = {name: graph_names.content(name) for name in names}
        found, size = [], request.compositions
        for model, name, seed in product(models, names, splits):
            graph = graph_names.short(name)
            head = {"schema": schema, "graph": graph, "model": model, "seed": seed}
            head |= {"compositions": size, "content": contents[name], **facts}
            work = partial(_load_and_measure, measure, name, model, seed, size)
            found.append(Case(f"{graph}-{model}-{seed}", head, work))
        return found, missing

    return cases


def _load_and_measure(
    measure: MeasureGraph, name: str, model: str, seed: int, compositions: int, show: Show | None
) -> Rows:
    return measure(graph_names.load(name), model, seed, compositions, progress=show)


def models_of(request: Request) -> Sequence[str]:
    """Return the models a request names, or SIGN alone."""
    return check_models(MODELS if request.models is None else request.models)


def graphs_of(
    request: Request, graphs: Sequence[str], quick_graphs: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the graphs a request names, or those of the bench that are here and those missing."""
    if request.names is not None:
        return list(request.names), []
    return graph_names.present(quick_graphs if request.quick else graphs)
