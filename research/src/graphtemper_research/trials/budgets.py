"""A card within the default budget against a thorough one, on the shifts of `known_shifts`.

Run ``python -m graphtemper_research.trials.budgets GRAPH MODEL [SEED]``. Models are those of the
other trials, called as any other predictor so that they have no fast passes, and ``PyG-GCN``,
``PyG-GAT`` and ``PyG-SAGE``, two layers of 64 hidden units each. Forward calls are counted by the
wrapped model itself; seconds are those of the processor.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphtemper import SourceCard, metrics, recalibrate, temperature
from graphtemper.card.budget import Budget
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor, predict
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.shifted_targets import families, shifted
from graphtemper_research.trials.trial import MODELS, Indices, hide_labels, split

_LAYERS = {"PyG-GCN": "GCN", "PyG-GAT": "GAT", "PyG-SAGE": "GraphSAGE"}
_EPOCHS = 100


@dataclass
class Counted:
    """A predictor without fast passes that counts its calls."""

    predictor: Predictor
    calls: int = field(default=0)

    def __call__(self, graph: Graph) -> Any:
        """Return the logits."""
        self.calls += 1
        return self.predictor(graph)


def trained(name: str, graph: Graph, train: Indices, seed: int) -> Predictor:
    """Return a model that was trained on some nodes."""
    if name in MODELS:
        return MODELS[name](seed).fit(graph, train)
    import torch
    from torch_geometric.nn import models

    from graphtemper.pyg import predictor

    torch.manual_seed(seed)
    make: Callable[..., torch.nn.Module] = getattr(models, _LAYERS[name])
    net = make(graph.num_features, 64, 2, graph.num_classes, dropout=0.5)
    data, rows = graph.to_pyg(), torch.from_numpy(train)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(_EPOCHS):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data.x, data.edge_index)[rows], data.y[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return predictor(net.eval())


def measure(graph: Graph, model: str, seed: int, budget: Budget) -> dict[str, Any]:
    """Return calls, seconds, and ECE over the oracle's with known and with unknown families.

    Labels of the scored nodes are hidden from the card; they only score.
    """
    train, val, test = split(graph, seed)
    hidden = hide_labels(graph, test)
    counted = Counted(trained(model, hidden, train, seed))
    predict(counted, hidden)  # what is computed once per graph is computed now
    start = time.process_time()
    predict(counted, hidden)
    one = time.process_time() - start
    counted.calls, start = 0, time.process_time()
    card = SourceCard.build(counted, hidden, val, seed=seed, budget=budget, progress=False)
    built, calls = time.process_time() - start, counted.calls
    thinner = {family: card.without(family) for family in families()}
    labels = graph.labels
    assert labels is not None
    errors: dict[str, list[float]] = {"known": [], "unknown": [], "oracle": []}
    covered: dict[str, list[bool]] = {"known": [], "unknown": []}
    seconds, asked = [], []
    for shift, target, draw in shifted(graph, seed):
        logits = predict(counted, target)[test]
        accuracy = float((logits.argmax(axis=1) == labels[test]).mean())
        best = temperature.solve(logits, labels[test]).temperature
        errors["oracle"].append(metrics.ece(temperature.apply(logits, best), labels[test]))
        for kind in ("known", "unknown"):
            used = card if kind == "known" or shift is None else thinner[shift.family]
            counted.calls, start = 0, time.process_time()
            result = recalibrate(counted, target.replace(labels=None), used, test, seed=draw)
            seconds.append(time.process_time() - start)
            asked.append(counted.calls)
            scaled = temperature.apply(logits, result.temperature)
            errors[kind].append(metrics.ece(scaled, labels[test]))
            covered[kind].append(result.accuracy.low <= accuracy <= result.accuracy.high)
    oracle = float(np.mean(errors["oracle"]))
    return {
        "budget": budget,
        "pass_seconds": one,
        "card_calls": calls,
        "card_seconds": built,
        "card_ratio": built / one,
        "recalibrate_calls": max(asked),
        "recalibrate_seconds": float(np.median(seconds)),
        "oracle_ece": oracle,
        **{kind: float(np.mean(errors[kind])) / oracle for kind in covered},
        **{f"{kind}_coverage": float(np.mean(covered[kind])) for kind in covered},
    }


def main(arguments: list[str]) -> None:
    """Print one line of JSON per budget: the default, and thorough."""
    name, model, seed = arguments[0], arguments[1], int((arguments[2:] or ["1"])[0])
    budgets: tuple[Budget, ...] = (None, "thorough")
    for budget in budgets if len(arguments) < 4 else budgets[:1]:
        row = measure(graph_names.load(name), model, seed, budget)
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
        print(json.dumps({"graph": name, "model": model, "seed": seed} | rounded), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
