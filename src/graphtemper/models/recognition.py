"""Recognising a model: its logits on a small fixed graph, and whether it repeats them."""

from __future__ import annotations

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import ChangedGraphError, Predictor, predict, probe_graph

# Sums on many threads or a GPU differ by far less than this part of the largest logit.
_REPEATED = 1e-4


def fingerprint(predictor: Predictor, num_features: int) -> FloatArray | None:
    """Return the logits on `probe_graph`, or None if the model cannot run on it.

    It is enough to recognise a model, and nothing of anybody's data. A model may refuse it, for
    instance because it looks up known nodes; one that changes its input is refused here, before it
    has seen any other graph.
    """
    try:
        return np.asarray(predict(predictor, probe_graph(num_features)))
    except ChangedGraphError:
        raise
    except Exception:  # the model may raise anything
        return None


def check_repeatable(predictor: Predictor, graph: Graph) -> None:
    """Raise `InputError` if the model answers a graph differently when it is called again.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> check_repeatable(lambda graph: rng.standard_normal((6, 2)), probe_graph(3))
    Traceback (most recent call last):
    graphtemper.errors.InputError: the model answers the same graph differently when it is ...
    """
    first, second = predict(predictor, graph), predict(predictor, graph)
    size = float(np.abs(first).max())
    if first.shape != second.shape or not np.allclose(first, second, 0.0, _REPEATED * size):
        raise InputError(
            "the model answers the same graph differently when it is called again; switch off "
            "dropout, as module.eval() does, and whatever else is random or changes with every "
            "call."
        )
