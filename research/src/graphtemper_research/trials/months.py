"""The months of the README: a GCN trained on US counties in July 2020, and every later month.

    python -m graphtemper_research.trials.months README.md docs/results    # needs torch and graphs

It runs the README's own lines and keeps what they print in ``months.json``, beside the picture.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from graphtemper_research.harness import provenance
from graphtemper_research.harness.outcome import write_text

MONTHS = (
    *(f"2020-{month:02}" for month in (8, 9, 10, 11, 12)),
    *(f"2021-{month:02}" for month in (1, 3, 4, 5)),
)


def main(readme: Path, folder: Path) -> None:
    """Measure, and write the result and its picture."""
    from graphtemper_research.harness.style import draw

    found = measure(readme.read_text("utf-8"))
    command = "python -m graphtemper_research.trials.months README.md docs/results"
    content = {"measured": provenance.stamp(command)} | found
    write_text(folder / "months.json", provenance.text(content))
    draw(folder / "months.png", lambda f: chart(f, found["months"]), width=7.2, height=2.9)


def trained() -> tuple[Any, Any, Any, Any]:
    """Return July as a graph and for PyG, a GCN trained on half of it, and that half."""
    import numpy as np
    import torch
    from torch_geometric.nn import GCN

    from graphtemper_research.graphs import datasets

    july = datasets.load("covid_us_2020_07")
    train, rest = np.array_split(np.random.default_rng(0).permutation(july.labelled), 2)
    data = july.to_pyg()
    data.val_mask = torch.zeros(july.num_nodes, dtype=torch.bool)
    data.val_mask[rest] = True
    torch.manual_seed(0)
    net = GCN(july.num_features, hidden_channels=32, num_layers=2, out_channels=july.num_classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    rows = torch.as_tensor(train)
    for _ in range(200):
        optimizer.zero_grad()
        logits = net(data.x, data.edge_index)
        loss: Any = torch.nn.functional.cross_entropy(logits[rows], data.y[rows])
        loss.backward()
        optimizer.step()
    return july, data, net, train


def block(text: str) -> str:
    """Return the README's lines of Python."""
    return text.partition("```python\n")[2].partition("```")[0]


def measure(text: str) -> dict[str, Any]:
    """Run the README's lines on July and August, and follow all later months."""
    import numpy as np

    from graphtemper import metrics, recalibrate, suggest_labels, temperature
    from graphtemper_research.graphs import datasets

    _, data, net, train = trained()
    graphs = {month: datasets.load(f"covid_us_{month.replace('-', '_')}") for month in MONTHS}
    new = graphs[MONTHS[0]]
    names = {"net": net, "data": data, "new_data": new.replace(labels=None).to_pyg()}
    here = tempfile.TemporaryDirectory()
    with here, contextlib.chdir(here.name), contextlib.redirect_stdout(io.StringIO()) as stream:
        exec(compile(block(text), "README.md", "exec"), names)
    model, card = names["model"], names["card"]
    seen = new.labelled
    assert new.labels is not None
    right = model(new)[seen].argmax(axis=1) == new.labels[seen]
    months, wiser = [], card
    for month, graph in graphs.items():
        assert graph.labels is not None
        nodes = np.setdiff1d(graph.labelled, train)
        target, truth, logits = graph.replace(labels=None), graph.labels[nodes], model(graph)[nodes]
        answer = recalibrate(model, target, card, nodes=nodes)
        learned = recalibrate(model, target, wiser, nodes=nodes)
        wiser = wiser.learn(model, graph, nodes, name=month, when=month)
        asked = {node: int(graph.labels[node]) for node in suggest_labels(answer, 50)}
        probabilities = {
            "nothing": temperature.apply(logits, 1.0),
            "source": temperature.apply(logits, card.temperature),
            "card": answer.probabilities,
            "learned": learned.probabilities,
            "labels": recalibrate(model, target, card, nodes=nodes, labels=asked).probabilities,
        }
        months.append(
            {
                "month": month,
                "card": stated(answer),
                "learned": stated(learned),
                "true": round(float((logits.argmax(axis=1) == truth).mean()), 4),
                "ece": {
                    name: round(float(metrics.ece(p, truth)), 4)
                    for name, p in probabilities.items()
                },
            }
        )
    printed = "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())
    accuracy = round(float(right.mean()), 4)
    return {"printed": printed, "true_accuracy": accuracy, "months": months}


def stated(answer: Any) -> dict[str, Any]:
    """Return the verdict of an answer and its accuracy with the ends of the interval."""
    accuracy = answer.accuracy
    numbers = {"estimate": accuracy.value, "low": accuracy.low, "high": accuracy.high}
    return {"verdict": answer.verdict} | {name: round(x, 4) for name, x in numbers.items()}


def chart(figure: Any, months: list[dict[str, Any]]) -> None:
    """Draw estimates with intervals, and the truth."""
    from graphtemper_research.harness import style

    axes = figure.subplots()
    places = range(len(months))
    kinds = {
        "card": (-0.12, style.ORANGE, "estimated without any label"),
        "learned": (0.12, style.BLUE, "with labels of the months before"),
    }
    for kind, (offset, colour, label) in kinds.items():
        found = [row[kind] for row in months]
        value = [answer["estimate"] for answer in found]
        spread = [
            [answer["estimate"] - answer["low"] for answer in found],
            [answer["high"] - answer["estimate"] for answer in found],
        ]
        where = [place + offset for place in places]
        axes.errorbar(where, value, yerr=spread, fmt="o", capsize=3, color=colour, label=label)
    axes.plot(places, [row["true"] for row in months], "kD--", label="true", linewidth=0.8)
    axes.set_xticks(places, [row["month"] for row in months])
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1.02)
    axes.legend(loc="lower left", ncols=3, fontsize=8)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
