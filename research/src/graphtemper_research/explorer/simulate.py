"""Measured points for the explorer: a frozen, calibrated classifier on drawn block models."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, csbm, errors, metrics, temperature
from graphtemper._core.checks import check_integer
from graphtemper.graph.operators import Operator, multiply, operator
from graphtemper.models import SGC
from graphtemper_research.explorer.readings import State
from graphtemper_research.harness.numeric import stream

FEWEST_NODES, MOST_NODES, MOST_HALF_EDGES = 200, 20_000, 1_000_000
LARGEST_SEED = 2**31 - 1
_BINS = 10


def simulate(state: State, num_nodes: int = 4000, seed: int = 0) -> dict[str, Any]:
    """Measure on drawn graphs what the theory predicts for a state.

    Logistic regression on aggregated features is fitted on one source graph, its temperature on a
    second one, and both are scored on a target graph; two classes. The signal coefficient is
    measured on a target graph with the state's number of classes.

    Parameters
    ----------
    state
        The values of the sliders.
    num_nodes, seed
        Nodes of each graph, at most 20,000 and with at most 1,000,000 half edges; seed of the draw.

    Returns
    -------
    dict
        ``curve``: bins of the logit magnitude with accuracy and its standard error; ``slope``,
        ``slope_self_loop`` (None where no temperature is optimal), ``accuracy``,
        ``mean_confidence``, ``ece`` (15 bins), ``noise_floor`` and ``signal``.

    Examples
    --------
    >>> measured = simulate(State(h_target=0.65), num_nodes=2000)
    >>> bool(abs(measured["slope"] - 0.46) < 0.1), len(measured["curve"])
    (True, 10)
    """
    check_integer(num_nodes, "num_nodes", FEWEST_NODES, MOST_NODES)
    check_integer(seed, "seed", 0, LARGEST_SEED)
    if num_nodes * state.degree > MOST_HALF_EDGES:
        raise errors.range(
            f"{num_nodes} nodes of degree {state.degree:g} are more than {MOST_HALF_EDGES} half "
            "edges; lower num_nodes or the degree."
        )
    source, held_out = (_draw(state, num_nodes, seed, role) for role in ("source", "held out"))
    target = _draw(state, num_nodes, seed, "target")
    logits = _calibrated_logits("mean", source, held_out, target)
    loops = _calibrated_logits("self-loop", source, held_out, target)
    labels = _labels(target)
    probabilities = temperature.apply(logits)
    return {
        "curve": _bins(logits[:, 1] - logits[:, 0], labels),
        "slope": _slope(logits, labels),
        "slope_self_loop": _slope(loops, labels),
        "accuracy": float((logits.argmax(axis=1) == labels).mean()),
        "mean_confidence": float(probabilities.max(axis=1).mean()),
        "ece": metrics.ece(probabilities, labels),
        "noise_floor": metrics.noise_floor(probabilities),
        "signal": _signal(_draw(state, num_nodes, seed, "classes"), state.snr),
    }


def _draw(state: State, num_nodes: int, seed: int, role: str) -> Graph:
    """Draw a graph; targets have the added noise, which leaves their class means where they are."""
    from_source = role in ("source", "held out")
    gamma = 0.0 if from_source else state.gamma
    return csbm.sample(
        num_nodes,
        state.degree,
        state.h_source if from_source else state.h_target,
        state.snr / (1.0 + gamma),
        state.num_classes if role == "classes" else 2,
        seed=stream(seed, f"explorer {role}"),
        noise=math.sqrt(1.0 + gamma),
    )


def _calibrated_logits(
    kind: Operator, source: Graph, held_out: Graph, target: Graph
) -> NDArray[np.float64]:
    model = SGC(hops=1, operator=kind, C=1e6, tol=1e-8).fit(source)
    scale = temperature.solve(model(held_out), _labels(held_out)).temperature
    return model(target).astype(np.float64) / scale


def _slope(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> float | None:
    fitted = temperature.solve(logits, labels)
    return fitted.inverse if fitted.status == "optimal" else None


def _bins(delta: NDArray[np.float64], labels: NDArray[np.int64]) -> list[dict[str, float]]:
    """Return the accuracy in bins of equally many nodes, by the size of the decision value."""
    size, correct = np.abs(delta), (delta > 0) == (labels == 1)
    edges = np.quantile(size, np.linspace(0.0, 1.0, _BINS + 1))
    rows = []
    for low, high in pairwise(edges):
        chosen = (size >= low) & ((size < high) | (high == edges[-1]))
        nodes = int(chosen.sum())
        if nodes:
            share = float(correct[chosen].mean())
            error = math.sqrt(share * (1.0 - share) / nodes)
            t = float(size[chosen].mean())
            rows.append({"t": t, "accuracy": share, "error": error, "nodes": nodes})
    return rows


def _signal(graph: Graph, snr: float) -> float:
    """Project aggregated features on the own class mean, in units of its squared norm."""
    connected = graph.degrees > 0
    aggregated = multiply(operator(graph, "mean"), np.asarray(graph.features))
    own_mean = csbm.simplex_means(graph.num_classes, radius=math.sqrt(snr))[_labels(graph)]
    return float((aggregated * own_mean).sum(axis=1)[connected].mean() / snr)


def _labels(graph: Graph) -> NDArray[np.int64]:
    assert graph.labels is not None
    return graph.labels
