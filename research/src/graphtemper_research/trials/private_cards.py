"""What a privacy budget costs: known shifts with cards that are private in the labels.

Run ``python -m graphtemper_research.trials.private_cards [FOLDER]``. The splits, shifts and scores
are those of `known_shifts`, with SIGN. A private card draws its answers from the operating system,
so no seed repeats the numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphtemper import Graph, SourceCard, metrics, recalibrate, temperature
from graphtemper_research.harness.frame import Rows
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.harness.provenance import stamp, text
from graphtemper_research.harness.runner import COMPOSITIONS
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.shifted_targets import families, shifted
from graphtemper_research.trials.trial import MODELS, hide_labels, split

GRAPHS = ("airport_usa", "county_2012")
EPSILONS = (1.0, 3.0, 10.0, None)
SEEDS = (0, 1)
_KINDS = ("known", "unknown")


def measure(
    graph: Graph, seed: int, epsilon: float | None, compositions: int = COMPOSITIONS
) -> dict[str, float]:
    """Return ECE, error of the accuracy and coverage, with known and unknown families."""
    train, val, test = split(graph, seed)
    hidden = hide_labels(graph, test)
    model = MODELS["SIGN"](seed).fit(hidden, train)
    card = SourceCard.build(
        model, hidden, val, seed=seed, compositions=compositions, privacy=epsilon, progress=False
    )
    thinner = {family: card.without(family) for family in families()}
    assert graph.labels is not None
    labels = graph.labels[test]
    found: dict[str, list[float]] = {"nothing": [], "source": [], "oracle": []}
    for shift, target, draw in shifted(graph, seed):
        logits = np.asarray(model(target), dtype=np.float64)[test]
        right = float((logits.argmax(axis=1) == labels).mean())
        best = temperature.solve(logits, labels).temperature
        for name, value in (("nothing", 1.0), ("source", card.temperature), ("oracle", best)):
            found[name].append(metrics.ece(temperature.apply(logits, value), labels))
        for kind in _KINDS:
            used = card if kind == "known" or shift is None else thinner[shift.family]
            result = recalibrate(model, target.replace(labels=None), used, test, seed=draw)
            ece = metrics.ece(temperature.apply(logits, result.temperature), labels)
            found.setdefault(kind, []).append(ece)
            found.setdefault(f"{kind} error", []).append(abs(result.accuracy.value - right))
            covered = result.accuracy.low <= right <= result.accuracy.high
            found.setdefault(f"{kind} coverage", []).append(float(covered))
    return {"nodes": float(val.size)} | {k: float(np.mean(v)) for k, v in found.items()}


def main(arguments: Sequence[str]) -> None:
    """Measure every graph with every budget; write the result."""
    folder = Path((list(arguments) or ["docs/results"])[0])
    rows: Rows = []
    for name in GRAPHS:
        graph = graph_names.load(name)
        for epsilon in EPSILONS:
            found = [measure(graph, seed, epsilon) for seed in SEEDS]
            mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            rows.append({"graph": name, "epsilon": epsilon} | mean)
            print(rows[-1], flush=True)
    measured = stamp("python -m graphtemper_research.trials.private_cards")
    write_text(folder / "private_cards.json", text({"measured": measured, "rows": rows}))


if __name__ == "__main__":
    main(sys.argv[1:])
