"""How often class shares count as moved between graphs that are drawn alike.

Sources and targets of a block model come from one generator, so that no class shares have moved and
every alarm is false; in the last settings the target's classes are drawn with other shares. Random
parts of a real graph are a source and a target without and with new shares. *Advised* counts the
targets for which a correction is supported, before other signals may object to it.

Run ``python -m graphtemper_research.trials.share_alarms [FOLDER]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper import Graph, temperature
from graphtemper.card.class_profile import ClassProfile
from graphtemper.card.privacy import coarse_profile, with_dependence
from graphtemper.models.predictor import Predictor, predict
from graphtemper.pyg import predictor
from graphtemper.recalibration.class_shares.support import MOVED_LEVEL, weigh
from graphtemper.signals import dependence
from graphtemper.signals.observation import Observation
from graphtemper.theory.csbm import simplex_means
from graphtemper_research.harness.code_digest import code_digest
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.attributed_graphs import Weighted, train
from graphtemper_research.trials.share_targets import resampled
from graphtemper_research.trials.trial import MODELS, split

EQUAL = (0.25, 0.25, 0.25, 0.25)
UNEQUAL = (0.5, 0.25, 0.15, 0.1)
GRAPHS = ("cora", "citeseer", "pubmed", "minesweeper", "airport_usa", "county_2012", "imdb_years")
SOURCES, TARGETS = 4, 10
_NODES, _DEGREE, _COLUMNS = 1500, 6, 16


@dataclass(frozen=True)
class Setting:
    """A generator of graphs, a model, and the class shares of source and target."""

    model: str
    homophily: float
    directed: bool = False
    shares: tuple[float, ...] = EQUAL
    target: tuple[float, ...] | None = None
    trained: float = 0.1

    @property
    def name(self) -> str:
        """The name of its row."""
        kind = "directed, weighted" if self.directed else "undirected"
        classes = "" if self.shares == EQUAL else ", unequal classes"
        moved = "" if self.target is None else ", **moved**"
        half = f", {self.trained:.0%} trained" if self.trained != 0.1 else ""
        return f"{self.model}, {kind}, homophily {self.homophily:g}{half}{classes}{moved}"


SETTINGS = (
    Setting("weighted GCN", 0.5, directed=True),
    Setting("weighted GCN", 0.5, directed=True, trained=0.5),
    Setting("weighted GCN", 0.5, directed=True, shares=UNEQUAL),
    Setting("weighted GCN", 0.8, directed=True),
    Setting("GCN", 0.5),
    Setting("GCN", 0.9),
    Setting("SIGN", 0.5),
    Setting("SIGN", 0.9),
    Setting("weighted GCN", 0.5, directed=True, target=UNEQUAL),
    Setting("SIGN", 0.9, target=UNEQUAL),
)


@dataclass(frozen=True)
class Alarm:
    """What is said about one target: of independent nodes, and of nodes as they are."""

    moved: tuple[bool, bool]
    advised: tuple[bool, bool]
    gain: float


def drawn(setting: Setting, shares: Sequence[float], seed: int, num_nodes: int = _NODES) -> Graph:
    """Draw a graph; edges within a class are heavier if there are weights."""
    rng = np.random.default_rng(seed)
    classes = len(shares)
    labels = rng.choice(classes, num_nodes, p=shares)
    senders = rng.integers(num_nodes, size=num_nodes * _DEGREE // (1 if setting.directed else 2))
    wanted = labels[senders]
    other = (wanted + rng.integers(1, classes, size=wanted.size)) % classes
    wanted = np.where(rng.random(wanted.size) < setting.homophily, wanted, other)
    receivers = np.empty_like(senders)
    for label in range(classes):
        chosen = wanted == label
        receivers[chosen] = rng.choice(np.flatnonzero(labels == label), int(chosen.sum()))
    edges = np.column_stack([senders, receivers])[senders != receivers]
    edges = np.unique(edges if setting.directed else np.sort(edges, axis=1), axis=0)
    same = labels[edges[:, 0]] == labels[edges[:, 1]]
    weight = rng.gamma(np.where(same, 4.0, 2.0), 0.25).astype(np.float32)
    means = simplex_means(classes, _COLUMNS, radius=1.0)
    noise = rng.standard_normal((num_nodes, _COLUMNS))
    return Graph(
        features=(means[labels] + noise).astype(np.float32),
        edges=edges,
        labels=labels,
        directed=setting.directed,
        edge_weight=weight if setting.directed else None,
    )


def fitted(model: str, graph: Graph, nodes: NDArray[np.int64], seed: int) -> Predictor:
    """Train a model on some nodes."""
    if model != "weighted GCN":
        return MODELS[model](seed).fit(graph, nodes)
    torch.manual_seed(seed)
    return predictor(train(Weighted(graph), graph, nodes))


def profile_of(
    model: Predictor, graph: Graph, nodes: NDArray[np.int64], seed: int
) -> tuple[ClassProfile | None, float]:
    """Return the class profile that a card would hold, and the source temperature."""
    assert graph.labels is not None
    labels = graph.labels[nodes]
    scale = temperature.solve(predict(model, graph)[nodes], labels).temperature
    observation = Observation(model, graph, nodes, seed=seed).at(scale)
    profile = coarse_profile(observation.logits, labels, seed)
    return with_dependence(profile, observation, labels), scale


def alarm(
    profile: ClassProfile, model: Predictor, scale: float, graph: Graph, nodes: NDArray[np.int64]
) -> Alarm:
    """Return what is said about some nodes of a graph; its labels only score the advice."""
    assert graph.labels is not None
    assert profile.dependence is not None
    logits, labels = predict(model, graph)[nodes] / scale, graph.labels[nodes]
    effect = dependence.design_effect(graph, nodes, profile.dependence)
    naive = weigh(replace(profile, design_effect=1.0), logits, 1.0)
    honest = weigh(profile, logits, 1.0, lambda: effect)
    right = [float((z.argmax(axis=1) == labels).mean()) for z in (logits, logits + honest.offsets)]
    return Alarm(
        moved=(naive.moved.p_value < MOVED_LEVEL, honest.moved.p_value < MOVED_LEVEL),
        advised=(naive.supported, honest.supported),
        gain=right[1] - right[0],
    )


def generated(
    setting: Setting, sources: int = SOURCES, targets: int = TARGETS, num_nodes: int = _NODES
) -> Iterator[Alarm]:
    """Yield what is said about graphs of one generator."""
    for seed in range(sources):
        graph = drawn(setting, setting.shares, 100 + seed, num_nodes)
        order = np.random.default_rng(seed).permutation(num_nodes)
        nodes, rest = np.split(order, [round(setting.trained * num_nodes)])
        model = fitted(setting.model, graph, nodes, seed)
        profile, scale = profile_of(model, graph, np.sort(rest), seed)
        for number in range(targets if profile is not None else 0):
            assert profile is not None
            shares = setting.shares if setting.target is None else setting.target
            target = drawn(setting, shares, 1000 * (seed + 1) + number, num_nodes)
            yield alarm(profile, model, scale, target, np.arange(num_nodes))


def parts(names: Sequence[str], strength: float, draws: int) -> Iterator[Alarm]:
    """Yield what is said about random parts of real graphs, with new shares if there is a strength.

    The splits are those of `trial.split`, the shares those of `share_targets.resampled`.
    """
    for name in names:
        graph = graph_names.load(name)
        assert graph.labels is not None
        for seed in (1, 2):
            nodes, val, test = split(graph, seed)
            model = MODELS["SIGN"](seed).fit(graph, nodes)
            profile, scale = profile_of(model, graph, np.sort(val), seed)
            for number in range(draws if profile is not None else 0):
                assert profile is not None
                chosen = np.sort(resampled(graph.labels, test, strength, 1000 * seed + number))
                yield alarm(profile, model, scale, graph, chosen)


def line(name: str, found: Sequence[Alarm]) -> str:
    """Return a row of the table.

    Examples
    --------
    >>> line("a", [Alarm((True, False), (True, False), -0.1), Alarm((True, True), (False,) * 2, 0)])
    '| a | 2 | 2 | 1 | 1 | 0 | -0.100 to -0.100 |  |'
    """
    cells = [name, str(len(found))]
    for field in ("moved", "advised"):
        cells += [str(sum(getattr(item, field)[way] for item in found)) for way in (0, 1)]
    for way in (0, 1):
        gains = [item.gain for item in found if item.advised[way]]
        cells.append(f"{min(gains):+.3f} to {max(gains):+.3f}" if gains else "")
    return "| " + " | ".join(cells) + " |"


def page(lines: Sequence[str], code: str) -> str:
    """Return the page, with the digest of the code that made it."""
    head = [
        "# False alarms about class shares",
        "",
        f"Made by `python -m graphtemper_research.trials.share_alarms`, code `{code}`. Pairs of",
        f"graphs from one block model ({_NODES:,} nodes, {SOURCES} sources with {TARGETS} targets "
        "each), and random",
        f"quarters of real graphs with SIGN ({', '.join(GRAPHS)}).",
        "Where it does not say **moved**, no class shares have moved and every alarm is false; the "
        "level is 1 %. *Independent*",
        "takes nodes to be independent, *as it is* allows for neighbours that err alike. *Advised* "
        "counts supported",
        "corrections, before other signals may object; *gain* is what they do to the accuracy, "
        "from the worst to the best.",
        "",
        "| setting | pairs | moved: independent | as it is | advised: independent | as it is "
        "| gain: independent | as it is |",
        "| --- |" + " ---: |" * 7,
    ]
    return "\n".join([*head, *lines]) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Measure every setting and write the page."""
    torch.set_num_threads(1)
    folder = Path((list(arguments) or ["docs/results"])[0])
    code = code_digest()  # files may change during a long run
    work: list[tuple[str, Callable[[], Iterator[Alarm]]]] = [
        (setting.name, partial(generated, setting)) for setting in SETTINGS
    ]
    for strength in (0.0, 1.0, 2.0):
        moved = f", **moved** by {strength:g}" if strength else ""
        work.append((f"parts of real graphs{moved}", partial(parts, GRAPHS, strength, 3)))
    lines: list[str] = []
    for name, measure in work:
        lines.append(line(name, list(measure())))
        print(lines[-1], flush=True)
        write_text(folder / "share_alarms.md", page(lines, code))


if __name__ == "__main__":
    main(sys.argv[1:])
