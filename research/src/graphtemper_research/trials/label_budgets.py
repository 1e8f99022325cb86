"""A few labels under natural shifts: what fifty or two hundred of them add to the atlas.

Half of the source's labelled nodes train a model and half make the card; `pairs` says which nodes
of a target are scored. On every target `suggest_labels` picks nodes, their labels are given to
`recalibrate`, and the answer is scored on all of the target's labelled nodes; the same labels also
fit a temperature alone. Every pick is drawn several times: fifty labels are a matter of luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphtemper import Graph, recalibrate, suggest_labels, temperature
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_most, between
from graphtemper_research.harness.runner import Bench, per, usual_settings
from graphtemper_research.trials.pairs import PAIRS, Pair, pair_cases, short_name
from graphtemper_research.trials.trial import (
    ATLAS,
    ORACLE,
    SOURCE,
    UNCALIBRATED,
    Answer,
    Indices,
    Source,
)

SCHEMA = "graphtemper.labels_cell/2"
# How far above the oracle the mean ECE may be, by the number of labels.
EXCESS = {50: 0.02, 200: 0.01}
COVERAGE = (0.85, 0.97)
DRAWS = 5


def _names(count: int, draw: int) -> tuple[str, str]:
    return f"{count} labels, draw {draw}", f"{count} labels alone, draw {draw}"


def answers_with_labels(
    source: Source, target: Graph, nodes: Indices, seed: int
) -> dict[str, Answer]:
    """Return the source temperature, the atlas, and both uses of every draw of labels.

    Of a target with few nodes at most half is labelled.
    """
    assert target.labels is not None
    hidden = target.replace(labels=None)
    logits = source.logits(target, nodes)
    plain = recalibrate(source.predictor, hidden, source.card, nodes, seed=seed)
    answers = {SOURCE: Answer(source.peers.source_temperature), UNCALIBRATED: Answer(1.0)}
    answers[ATLAS] = Answer.of(plain)
    position = {int(node): row for row, node in enumerate(nodes)}
    for count in EXCESS:
        for draw in range(1, DRAWS + 1):
            chosen = suggest_labels(plain, min(count, nodes.size // 2), seed=draw)
            labels = {int(node): int(target.labels[node]) for node in chosen}
            result = recalibrate(
                source.predictor, hidden, source.card, nodes, seed=seed, labels=labels
            )
            rows = np.array([position[node] for node in labels])
            alone = temperature.solve(logits[rows], np.array(list(labels.values())))
            both, only = _names(count, draw)
            answers[both], answers[only] = Answer.of(result), Answer(alone.temperature)
    return answers


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair, model and seed: means over the draws of the labels."""
    keys = ("group", "model", "seed", "source", "target")
    rows = []
    for values, answers in frame.grouped(frame.flat(cells, *keys[:-1]), *keys).items():
        row = dict(zip(keys, values, strict=True)) | frame.pick(answers[0], "nodes", "accuracy")
        row |= {
            f"ece {name}": frame.average(frame.select(answers, method=name), "ece")
            for name in (UNCALIBRATED, SOURCE, ATLAS, ORACLE)
        }
        for count in EXCESS:
            both, alone = (
                [answer for answer in answers if answer["method"].startswith(start)]
                for start in (f"{count} labels,", f"{count} labels alone,")
            )
            row |= {
                f"ece {count}": frame.average(both, "ece"),
                f"ece {count} alone": frame.average(alone, "ece"),
                f"covered {count}": frame.mean(
                    [float(a["low"] <= a["accuracy"] <= a["high"]) for a in both]
                ),
                f"error {count}": frame.mean([abs(a["estimate"] - a["accuracy"]) for a in both]),
            }
        rows.append(row)
    return rows


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars of every number of labels over the pairs of one model."""
    return [bar for count in EXCESS for bar in _compare(count, rows)]


def _compare(count: int, rows: Sequence[Row]) -> list[Comparison]:
    ece = frame.average(rows, f"ece {count}")
    limits = {
        f"oracle-T + {EXCESS[count]}": frame.average(rows, f"ece {ORACLE}") + EXCESS[count],
        "source-T": frame.average(rows, f"ece {SOURCE}"),
        "a temperature fitted on the same labels alone": frame.average(rows, f"ece {count} alone"),
    }
    against = [
        at_most(f"mean ECE with {count} labels, against {name}", ece, limit, bar=f"<= {limit:.4f}")
        for name, limit in limits.items()
    ]
    if count != min(EXCESS):
        # Many labels need no atlas: only the oracle is a bar for them.
        against[1:] = [replace(bar, met=None) for bar in against[1:]]
    return [
        *against,
        between(
            f"coverage of the 90 % interval with {count} labels",
            frame.average(rows, f"covered {count}"),
            COVERAGE,
            f"mean error of the accuracy {frame.average(rows, f'error {count}'):.4f}",
        ),
    ]


def group_means(rows: Sequence[Row]) -> Rows:
    """Return the averages of every group of one model's pairs, and of all of them."""
    keys = [key for key in rows[0] if key.startswith(("ece ", "covered "))]
    means = []
    for group in (*frame.distinct(rows, "group"), "all"):
        own = rows if group == "all" else frame.select(rows, group=group)
        averages = {key: frame.average(own, key) for key in keys}
        means.append({"model": rows[0].get("model"), "group": group, "pairs": len(own), **averages})
    return means


_PLAIN = f"ece {UNCALIBRATED}"
_VALUES = (
    Column(lambda row: row.get(_PLAIN), "plain", ".3f", missing="-"),
    Column(f"ece {SOURCE}", "source", ".3f"),
    Column(f"ece {ATLAS}", "atlas", ".3f"),
    Column("ece 50", "50", ".3f"),
    Column("ece 50 alone", "50 alone", ".3f"),
    Column("ece 200", "200", ".3f"),
    Column("ece 200 alone", "200 alone", ".3f"),
    Column(f"ece {ORACLE}", "oracle", ".3f"),
    Column("covered 50", "held 50", ".0%"),
    Column("covered 200", "held 200", ".0%"),
)
_AVERAGES = Table(
    "{model}: averages",
    (
        Column("group", "from"),
        Column(lambda row: f"{row['pairs']} pairs", "to"),
        *_VALUES,
    ),
    lambda rows: group_means(rows),
)
_INTRODUCTION = """\
ECE of the uncalibrated model (*plain*: T = 1), the source temperature, the atlas without labels,
the atlas with 50 and with 200 labels, a temperature fitted to the same labels alone, and the
oracle; means over five draws of the labelled nodes, which are scored with all others. *held* is how
often the 90 % interval contains the true accuracy. On a small target at most half of the nodes are
labelled."""


def bench(pairs: Sequence[Pair] = PAIRS) -> Bench:
    """Return the bench of some pairs."""
    return Bench(
        name="labels",
        title="A few labels under natural shifts",
        command="bench labels",
        introduction=_INTRODUCTION,
        cases=pair_cases(answers_with_labels, SCHEMA, pairs),
        rows=summarise,
        bars=per("model", compare),
        tables=(
            Table("{model}: {group}", (Column("source", "from"), Column("target", "to"), *_VALUES)),
            _AVERAGES,
        ),
        terminal=(Table("{model}: {group}", (Column(short_name, "graph"), *_VALUES)), _AVERAGES),
        settings=lambda cells, rows: usual_settings(cells, rows) | {"pairs": len(rows)},
    )


BENCH = bench()
