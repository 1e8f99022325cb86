r"""Views: what a model shows on a graph when a part of its input is changed or taken away.

This is the one measurement of a model, in as few passes as its precision needs. With S splits of
the columns (`Probe.splits`) it takes a clean pass, one without neighbours, two per split, and
S / 2 with noise and S - 1 without some edges, at least one of each: 6 passes for one split, 11 for
three.

- Of a split, one pass reads half of the columns, the others being set to their means, and one reads
  the same columns of every node without its neighbours. The second view is what the other columns
  add, :math:`v = z - u` for clean logits z and the first view u. For a linear model that averages
  over neighbours it is the view of the other half up to a constant; in general, noise of the first
  half cancels from it to first order.
- Predictions under feature noise are compared with the clean ones. The change of the logits is also
  subtracted, which to first order is a pass with the opposite noise: a prediction rarely changes in
  both, so the mean of the two agreements is more than twice as precise. The agreement under noise
  of the source's size, which may differ from the graph's own by a factor r, is that of the clean
  logits plus r times their change.
- Passes without a random share of the edges give the held-out edges of `covariances`. Noise would
  hide what they show, so they have none.

Own views, without neighbours, depend on the features alone, so shifts of edges leave them as they
are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.models.passes import Columns, Noise
from graphtemper.signals.covariances import (
    Covariance,
    HeldOutProducts,
    column_halves,
    edges_and_wedges,
    ratio_of_sums,
    split_nodes,
)
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Probe, kept_links


@dataclass(frozen=True, eq=False)
class Views:
    """What the passes show, in units of the source temperature.

    Attributes
    ----------
    feature, own_feature
        Covariance between the views of a split, and between its own views.
    edge, wedge, held
        Neighbour covariances, see `graphtemper.signals.covariances`.
    noise_agreement, source_noise_agreement
        How often a noisy prediction is the clean one, with noise of the graph's own size and of
        the source's.
    edge_agreement
        Cohen's kappa across held-out edges. Predictions at the ends of an edge in use agree because
        the ends exchange messages; across a held-out edge only if the classes do and the
        predictions are right.
    own, own_square : (N, K) and (N,) arrays
        Own views, and the squared difference of those of a split.
    square, lead, agree : (n,) arrays
        Squared difference of the views of a split, the smaller lead of the prediction in them, and
        how often they agree with it.
    """

    feature: Covariance
    own_feature: Covariance
    edge: Covariance
    wedge: Covariance
    held: Covariance
    noise_agreement: float
    source_noise_agreement: float
    edge_agreement: float
    own: FloatArray
    own_square: FloatArray
    square: FloatArray
    lead: FloatArray
    agree: FloatArray


def num_passes(splits: int, own_known: bool = False) -> int:
    """Return the passes over one graph, with its clean one; fewer if own views are known.

    Examples
    --------
    >>> num_passes(1), num_passes(1, own_known=True), num_passes(3)
    (6, 4, 11)
    """
    return 1 + splits + sum(_repeats(splits)) + (0 if own_known else 1 + splits)


def _repeats(splits: int) -> tuple[int, int]:
    """Return the number of passes with noise, and of those without some edges."""
    return max(splits // 2, 1), max(splits - 1, 1)


def measure(observation: Observation, probe: Probe) -> Views:
    """Measure an observation. Passes are taken once, also for measurements on fewer splits.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=8, homophily=0.8, snr=1.0, num_features=10, seed=1)
    >>> probe = Probe(1.0, 0.5, g.features.std(axis=0), 0.9, 0.1, seed=0, splits=2)
    >>> views = measure(Observation(SIGN().fit(g), g), probe)
    >>> views.edge.value > 5 * views.edge.error, views.edge_agreement > 0.2
    (True, True)
    """
    sizes = probe.column_std.tobytes()
    key = ("views", probe.splits, probe.temperature, probe.noise_level, probe.seed, sizes)

    def measured() -> Views:
        graph, nodes, own = observation.graph, observation.nodes, own_view(observation)
        scaled = own / probe.temperature
        edge, wedge = edges_and_wedges(scaled, graph, nodes, observation.centre)
        return Views(
            edge=edge,
            wedge=wedge,
            own=scaled,
            **_split_views(observation, probe, own),
            **_noise_agreements(observation, probe),
            **_held_out(observation, probe, own),
        )

    with np.errstate(over="ignore", invalid="ignore"):
        return observation.once(key, measured)


def own_view(observation: Observation) -> FloatArray:
    """Return the logits of every node without its neighbours, (N, K)."""
    run = partial(observation.passes.run, observation.graph, alone=True)
    return observation.once(("own",), run)


def share_own_views(source: Observation, target: Observation) -> None:
    """Give an observation the own views of another one, whose features are the same."""
    known = ((key, value) for key, value in source.memo.items() if key[0] in ("own", "own half"))
    target.memo.update(known)


def _split_views(observation: Observation, probe: Probe, own: FloatArray) -> dict[str, Any]:
    """Return what halves of the columns show; see `Views`."""
    graph, nodes, predicted = observation.graph, observation.nodes, observation.predictions
    clean, passes, centre = observation.all_logits, observation.passes, observation.centre
    splits, unit = probe.splits, probe.temperature
    whole, square, lead, agree = (np.zeros(nodes.size) for _ in range(4))
    alone, own_square = (np.zeros(graph.num_nodes) for _ in range(2))
    everywhere = observation.all_predictions
    for number, half in enumerate(column_halves(graph.num_features, splits, probe.seed)):
        columns = Columns(half, observation.column_moments[0])
        run = partial(passes.run, graph, columns=columns)
        first = observation.once(("half", number, probe.seed), run)
        shown = split_nodes(first, clean, predicted, centre, observation.some_nodes)
        own_first = observation.once(("own half", number, probe.seed), partial(run, alone=True))
        own_shown = split_nodes(own_first, own, everywhere, centre)
        for total, values in zip((whole, square, lead, agree), shown, strict=True):
            total += values
        alone += own_shown.product
        own_square += own_shown.square
    # Averages over splits come first: the splits of one node are dependent, nodes nearly are not.
    ones = np.full(nodes.size, splits * unit**2)
    return {
        "feature": ratio_of_sums(whole, ones),
        "own_feature": ratio_of_sums(alone[nodes], ones),
        "own_square": own_square / (splits * unit**2),
        "square": square / (splits * unit**2),
        "lead": lead / (splits * unit),
        "agree": agree / splits,
    }


def noisy_logits(observation: Observation, level: float, number: int) -> FloatArray:
    """Return the logits of every node under noise of ``level`` times the graph's own deviations.

    The same number gives the same draws at every level.
    """
    rng = stream(observation.seed, "feature noise", number)
    noise = Noise(level * observation.column_moments[1], rng)
    return observation.passes.run(observation.graph, noise=noise)


def _noise_agreements(observation: Observation, probe: Probe) -> dict[str, Any]:
    """Return how often noise of the graph's size, and of the source's, changes no prediction."""
    nodes, predicted = observation.nodes, observation.predictions
    clean = observation.logits
    factor = _noise_ratio(probe.column_std, observation.column_moments[1])
    near: list[float] = []
    far: list[float] = []
    for number in range(_repeats(probe.splits)[0]):
        run = partial(noisy_logits, observation, probe.noise_level, number)
        noisy = observation.once(("noise", number, probe.noise_level), run)
        change = noisy[nodes] - clean
        for found, size in ((near, 1.0), (far, factor)):
            both = (clean + sign * size * change for sign in (1.0, -1.0))
            found += [float((logits.argmax(axis=1) == predicted).mean()) for logits in both]
    return {"noise_agreement": float(np.mean(near)), "source_noise_agreement": float(np.mean(far))}


def _held_out(observation: Observation, probe: Probe, own: FloatArray) -> dict[str, Any]:
    """Return the covariance across held-out edges, and the agreement across them."""
    graph, unit = observation.graph, probe.temperature
    products = HeldOutProducts(own / unit, graph, observation.nodes, observation.centre)
    kappas = []
    for number in range(_repeats(probe.splits)[1] if len(graph.links) else 0):
        rng = stream(observation.seed, "held-out edges", number)
        keep = kept_links(observation.link_keys, probe.edge_share, rng)
        if observation.part is not None:
            keep[observation.part.links] = False
        run = partial(observation.passes.run, graph, keep=keep)
        logits = observation.once(("held out", number, probe.edge_share), run)
        held_out = graph.links[~keep]
        products.add(logits / unit, held_out)
        kappas.append(observation.agreement(logits, held_out))
    agreement = float(np.mean(kappas)) if kappas else 0.0
    return {"held": products.covariance, "edge_agreement": agreement}


def _noise_ratio(source: FloatArray, own: FloatArray) -> float:
    """Return the size of the source's columns over that of the graph's own: a geometric mean."""
    both = (source > 0.0) & (own > 0.0)
    return float(np.exp(np.log(source[both] / own[both]).mean())) if both.any() else 1.0
