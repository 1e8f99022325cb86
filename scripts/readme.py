"""Fill the parts of the README that are measured: its example, its picture and its table.

    python scripts/readme.py --measure   # follow the months again; needs torch and graphs
    python scripts/readme.py             # write what the result files say into README.md

The example and the picture are one story: a GCN that was trained on the counties of the United
States in July 2020, and every later month of that family of graphs. `--measure` runs the README's
own lines and keeps what they print in docs/results/months.json, next to the picture.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, RESULTS = ROOT / "README.md", ROOT / "docs" / "results"
FILE, PICTURE = RESULTS / "months.json", RESULTS / "months.png"
MONTHS = [
    "2020-08",
    "2020-09",
    "2020-10",
    "2020-11",
    "2020-12",
    "2021-01",
    "2021-03",
    "2021-04",
    "2021-05",
]


def main(arguments: list[str]) -> None:
    """Measure if asked to, then fill the README."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    from graphtemper_research.harness import provenance

    if "--measure" in arguments:
        found = measure(README.read_text("utf-8"))
        measured = provenance.stamp("python scripts/readme.py --measure")
        FILE.write_text(json.dumps({"measured": measured} | found, indent=1) + "\n", "utf-8")
    from graphtemper.recalibration.report.style import draw

    found = json.loads(FILE.read_text("utf-8"))
    if "--measure" in arguments:
        draw(PICTURE, lambda figure: chart(figure, found["months"]), width=7.2, height=2.9)
    README.write_text(filled(README.read_text("utf-8")), "utf-8")


def filled(text: str) -> str:
    """Return the README with its measured parts as the result files have them."""
    import evidence

    found = json.loads(FILE.read_text("utf-8"))
    results = evidence.Results(RESULTS)
    table = evidence.table(evidence.SUMMARY_HEAD, evidence.summary(results))
    parts = {
        "caption": caption(found["months"]),
        "printed": f"```text\n{found['printed']}\n```",
        "truth": f"The true accuracy of that month, which nothing above has seen: "
        f"{found['true_accuracy']:.1%}.",
        "table": table.strip(),
        "labels": evidence.labels_words(results),
    }
    for name, part in parts.items():
        text, count = re.subn(
            f"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda match, part=part: f"{match[1]}{part}\n{match[2]}",
            text,
            flags=re.S,
        )
        if count != 1:
            raise ValueError(f"README.md needs the comments <!-- {name} --> and <!-- /{name} -->.")
    return text


def caption(months: list[dict[str, Any]]) -> str:
    """Say in a sentence what the picture shows."""
    count = len(months)
    held = {
        kind: sum(row[kind]["low"] <= row["true"] <= row[kind]["high"] for row in months)
        for kind in ("card", "learned")
    }
    names = {
        "nothing": "doing nothing",
        "source": "at the source temperature (calibrated once, in July)",
        "card": "by graphtemper without labels",
        "learned": "with those of the months before",
        "labels": "with 50 labels of the month itself",
    }
    errors = {key: sum(row["ece"][key] for row in months) / count for key in names}
    listed = [f"{errors[key]:.3f} {name}" for key, name in names.items()]
    return (
        f"A GCN trained on US counties in July 2020, and {count} later months of the data. Black: "
        "the true accuracy, known a month later. Orange: estimated without any label; the 90 % "
        f"interval holds the truth in {held['card']} of {count} months. Blue: with the labels of "
        f"the months before; it does in {held['learned']} of {count}. Mean calibration error (ECE: "
        "the gap between confidence and accuracy): "
        f"{', '.join(listed[:-1])}, and {listed[-1]}."
    )


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
        torch.nn.functional.cross_entropy(logits[rows], data.y[rows]).backward()
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
    right = model(new)[seen].argmax(axis=1) == new.labels[seen]
    months, wiser = [], card
    for month, graph in graphs.items():
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
    from graphtemper.recalibration.report import style

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
    main(sys.argv[1:])
