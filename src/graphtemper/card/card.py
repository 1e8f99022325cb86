"""The source card: the small file that travels from training to deployment.

It holds aggregates only: the source temperature, how to measure (`Probe`), class moments of the
logits, the source's own evidence, and the atlas. No row belongs to a node. JSON, versioned,
validated on load, never a pickle.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature
from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import check_whole
from graphtemper._core.files import atomic_write
from graphtemper._core.log_odds import log_odds
from graphtemper._core.threads import one_blas_thread
from graphtemper.card import atlas, response
from graphtemper.card.atlas import Environment, Progress, Shifts, Workers
from graphtemper.card.class_profile import ClassProfile
from graphtemper.card.format import as_stored, from_json, to_json
from graphtemper.card.journal import Journal
from graphtemper.card.node_response import AtlasNodes, NodeResponse
from graphtemper.card.response import Kernel, Response
from graphtemper.errors import FileError, InputError
from graphtemper.graph.coercion import as_graph
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.graph.moments import column_moments
from graphtemper.models.predictor import Predictor, predict
from graphtemper.signals import evidence
from graphtemper.signals import pointwise as signals
from graphtemper.signals.class_model import ClassMoments
from graphtemper.signals.evidence import (
    FEW_SIGNALS,
    LEAD,
    LOGIT_SIGNALS,
    SIGNALS,
    Evidence,
    Probe,
    Reference,
)
from graphtemper.signals.observation import Observation
from graphtemper.signals.share_drift import DriftBaseline

if TYPE_CHECKING:
    from torch_geometric.data import Data

MAX_BYTES = 100_000
# Fewer labelled nodes than this measure an accuracy too poorly to learn from.
FEWEST_NODES = 50
_FINGERPRINT_NODES = 6


@dataclass(frozen=True, eq=False)
class SourceCard:
    """What deployment needs to know about a model's source graph.

    Build it with `build`; read and write it with `load` and `save`.
    """

    predictor: str
    num_classes: int
    num_features: int
    num_nodes: int
    fingerprint: FloatArray | None
    probe: Probe
    reference: Reference
    population: DriftBaseline
    environments: tuple[Environment, ...]
    names: dict[str, tuple[str, ...]]
    kernels: dict[str, Kernel]
    widening: dict[str, float]
    excluded: tuple[str, ...] = ()
    class_profile: ClassProfile | None = None
    node_responses: dict[str, NodeResponse] | None = None
    # In memory alone: what `without` learns from again. A card that has travelled has none.
    atlas_nodes: AtlasNodes | None = None

    @classmethod
    @one_blas_thread(also_openmp=False)
    def build(
        cls,
        predictor: Predictor,
        graph: Graph | Data,
        nodes: Nodes = None,
        *,
        seed: int = 0,
        exclude: Collection[str] = (),
        compositions: int = atlas.COMPOSITIONS,
        shifts: Shifts | None = None,
        resume: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        workers: Workers | None = None,
    ) -> SourceCard:
        """Watch a frozen model on its labelled source graph under known shifts.

        Parameters
        ----------
        predictor, graph
            The frozen model and the labelled graph it was trained on. Of a PyG ``Data`` it is
            checked that the model reads nothing that a `Graph` does not hold.
        nodes
            Labelled nodes that were not used for training (default: all labelled ones).
        seed
            Seed of the shifts; targets should not reuse it for shifts of their own.
        exclude
            Families of shifts to leave out, also from compositions, for honest evaluation.
        compositions
            How many random compositions to add to the single shifts.
        shifts
            What the atlas shows the model: strengths by family, as ``{"noise": (0.5, 1.0), ...}``,
            or a list of `graphtemper.shifts.Shift`. At least three families; by default all of
            `graphtemper.card.atlas.LEVELS`. Fewer shifts make a cheaper card with wider intervals.
        resume
            A file that keeps finished environments, so that an interrupted build goes on.
        progress
            Called with (environments done, environments in all).
        workers
            Where environments run in place of this process, as `graphtemper.scale.OnDask(client)`.

        Examples
        --------
        >>> from graphtemper import csbm
        >>> from graphtemper.models import SIGN
        >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
        >>> model = SIGN(hops=1).fit(g, range(200))
        >>> card = SourceCard.build(model, g, range(200, 400), compositions=0)
        >>> card.num_classes, len(card.environments)
        (2, 62)
        """
        graph = as_graph(graph, predictor)
        check_whole(seed, "seed", 0, 2**62)
        planned = atlas.plan(seed, exclude, compositions, shifts)
        rows, labels = select_labelled(graph, nodes)
        if rows.size < FEWEST_NODES:
            raise InputError(
                f"a source card needs at least {FEWEST_NODES} labelled nodes, but has {rows.size}."
            )
        probe = _probe(predictor, graph, rows, labels, seed)
        seen = Observation(predictor, graph, rows, temperature=probe.temperature, seed=seed)
        reference = Reference(
            evidence=evidence.measure(seen, probe),
            moments=ClassMoments.measure(seen.logits, labels),
            accuracy=float((seen.predictions == labels).mean()),
        )
        journal = Journal(resume, probe)
        watched = AtlasNodes(seen, labels, probe)
        found = atlas.survey(
            predictor,
            graph,
            rows,
            probe,
            reference,
            planned,
            seed=seed,
            known=journal.read(),
            done=journal.add,
            progress=progress,
            watch=watched.watch,
            keep=watched.keep,
            workers=workers,
        )
        fitted = _fit(found, reference, rows.size)
        card = cls(
            predictor=getattr(predictor, "__name__", type(predictor).__name__)[:200],
            num_classes=seen.num_classes,
            num_features=graph.num_features,
            num_nodes=int(rows.size),
            fingerprint=fingerprint(predictor, graph.num_features),
            probe=probe,
            reference=reference,
            population=DriftBaseline.measure(
                graph, rows, labels, seen.predictions, seen.num_classes, probe.column_std
            ),
            environments=tuple(found),
            names={kind: item.names for kind, item in fitted.items()},
            kernels={kind: item.kernel for kind, item in fitted.items()},
            widening={kind: item.widening for kind, item in fitted.items()},
            excluded=tuple(sorted(set(exclude))),
            class_profile=ClassProfile.measure(seen.logits, labels),
            node_responses=watched.fit(found, reference.accuracy),
        )
        # Rounded as in the file, so that a card answers alike before and after it has travelled.
        return replace(from_json(to_json(card)), atlas_nodes=watched)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of shifts in the atlas, sorted."""
        return tuple(sorted(frozenset().union(*(item.families for item in self.environments))))

    def response(self, has_model: bool) -> Response:
        """Return the response surface for targets with a model, or with logits alone."""
        kind = "model" if has_model else "logits"
        names = self.names[kind]
        origin = self.reference.signals
        points, start, scale = response.standardise(
            names, [item.signals for item in self.environments], origin
        )
        return Response(
            names=tuple(names),
            points=points,
            values=_relative_log_odds(self.environments, self.reference.accuracy),
            noise=_sampling_variance(self.environments, self.num_nodes),
            origin=start,
            scale=scale,
            prior=response.prior_weights(names, scale, LEAD),
            kernel=self.kernels[kind],
            widening=self.widening[kind],
            reach=response.reach(points, [item.families for item in self.environments]),
        )

    def without(self, family: str) -> SourceCard:
        """Return the card that has never seen a family of shifts, for honest evaluation.

        The same as building with ``exclude=(family,)`` but for which compositions are drawn, at
        the cost of a fit. A card that was loaded from a file holds no nodes to fit the node
        responses to, so it loses them.
        """
        if family not in {*self.families, *self.excluded}:
            present = ", ".join(self.families)
            raise InputError(f"unknown family {family!r}; the atlas has {present}.")
        kept = [item for item in self.environments if family not in item.families]
        fitted = _fit(kept, self.reference, self.num_nodes)
        return replace(
            self,
            environments=tuple(kept),
            names={kind: item.names for kind, item in fitted.items()},
            kernels={kind: item.kernel for kind, item in fitted.items()},
            widening={kind: item.widening for kind, item in fitted.items()},
            excluded=tuple(sorted({*self.excluded, family})),
            node_responses=None
            if self.atlas_nodes is None
            else self.atlas_nodes.fit(kept, self.reference.accuracy),
        )

    def check(self, predictor: Predictor | ArrayLike, graph: Graph) -> None:
        """Refuse a predictor or a graph that the card was not made for."""
        if graph.num_features != self.num_features:
            raise InputError(
                f"the card is for graphs with {self.num_features} feature columns but this one has "
                f"{graph.num_features}; use the card of this feature space."
            )
        if not callable(predictor) or self.fingerprint is None:
            return
        shown = fingerprint(predictor, graph.num_features)
        if shown is None or shown.shape != self.fingerprint.shape:
            raise InputError("the card was made for another model; build a card for this one.")
        size = float(np.abs(self.fingerprint).max()) + 1e-6
        if not np.allclose(shown, self.fingerprint, atol=1e-3 * size, rtol=1e-3):
            raise InputError(
                "the model answers a test graph differently from the model the card was made for; "
                "build a card for this one."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the card as JSON, atomically."""
        text = to_json(self)
        if len(text) > MAX_BYTES:
            raise InputError(
                f"the card would be {len(text)} bytes, over the {MAX_BYTES} it may have with "
                f"{self.num_classes} classes, {self.num_features} feature columns and "
                f"{len(self.environments)} environments; use fewer compositions."
            )
        with atomic_write(path) as stream:
            stream.write(text.encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SourceCard:
        """Read a card; a file that is damaged or from a newer version is refused by field."""
        source = Path(path)
        try:
            size = source.stat().st_size
            if size > 4 * MAX_BYTES:
                raise FileError(f"{source} is {size} bytes, too large for a source card.")
            return from_json(source.read_text("utf-8"))
        except FileError:
            raise
        except UnicodeDecodeError as error:
            raise FileError(f"{source} is not JSON, so it is not a source card.") from error
        except OSError as error:
            raise FileError(
                f"the source card {source} cannot be read: {error.strerror or error}."
            ) from error
        except InputError as error:
            raise FileError(f"{source}: {error}") from error

    def summary(self) -> str:
        """Return what a person wants to know about the card, in a few lines."""
        low = min(item.accuracy for item in self.environments)
        high = max(item.accuracy for item in self.environments)
        lines = [
            f"{self.predictor}: {self.num_classes} classes, {self.num_features} feature columns",
            f"accuracy {self.reference.accuracy:.3f} on {self.num_nodes} source nodes, "
            f"temperature {self.probe.temperature:.3f}",
            f"{len(self.environments)} environments, accuracy {low:.3f} to {high:.3f}",
            f"families: {', '.join(self.families)}",
            f"signals: {', '.join(self.names['model'])}",
            f"intervals are {self.widening['model']:.2f} times as wide as the fit's own, so that "
            "they hold on families left out",
        ]
        can_read = self.reference.readable
        unread = [name for name in SIGNALS if name not in can_read]
        if unread:
            lines.append(f"not readable at this source: {', '.join(unread)}")
        if self.node_responses is not None:
            lines.append(f"one temperature per node: {self.node_responses['model'].in_words}")
        if self.excluded:
            lines.append(f"left out: {', '.join(self.excluded)}")
        return "\n".join(lines)


def fingerprint(predictor: Predictor, num_features: int) -> FloatArray | None:
    """Return the logits on a small fixed graph, or None where the model cannot run on one.

    Deterministic features on a path of six nodes: enough to tell models apart, and nothing of the
    source's data. A model may refuse that graph in its own way, for instance because it looks up
    nodes that it knows.
    """
    rng = np.random.default_rng(12345)
    features = rng.standard_normal((_FINGERPRINT_NODES, num_features), dtype=np.float32)
    steps = np.arange(_FINGERPRINT_NODES - 1)
    path = Graph(features=features, edges=np.column_stack([steps, steps + 1]))
    try:
        return np.asarray(predict(predictor, path))
    except Exception:
        return None


def _probe(
    predictor: Predictor,
    graph: Graph,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    seed: int,
) -> Probe:
    raw = Observation(predictor, graph, rows)
    source = temperature.solve(raw.logits, labels)
    if source.status == "undetermined":
        raise InputError("every node's logits are equal, so there is nothing to calibrate.")
    seen = Observation(predictor, graph, rows, temperature=source.temperature, seed=seed)
    accuracy = float((seen.predictions == labels).mean())
    probabilities = seen.probabilities
    return Probe(
        temperature=source.temperature,
        noise_level=_matching_noise(seen, 1.0 - accuracy),
        column_std=as_stored(column_moments(graph.features)[1]),
        confidence_threshold=signals.atc_threshold(signals.confidence(probabilities), accuracy),
        entropy_threshold=signals.atc_threshold(-signals.entropy(probabilities), accuracy),
        seed=seed,
    )


def _matching_noise(seen: Observation, error: float) -> float:
    """Return the noise under which the source disagrees with itself as often as it is wrong."""
    low, high = 0.02, 3.0
    for _ in range(9):
        middle = float(np.sqrt(low * high))
        if 1.0 - evidence.noise_agreement(seen, middle, 6) < error:
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))


def _fit(found: Sequence[Environment], reference: Reference, num_nodes: int) -> dict[str, Response]:
    """Fit the response to each kind of target; which signals it reads is settled by the atlas.

    A short and a long list of signals are tried, and the one with the smaller error on families of
    shifts that are left out is kept: it is chosen to extrapolate, on source labels alone.
    """
    readable = reference.readable
    lists: dict[str, list[tuple[str, ...]]] = {
        "model": [readable, tuple(name for name in readable if name in FEW_SIGNALS)],
        "logits": [LOGIT_SIGNALS],
    }
    start = log_odds(reference.accuracy)
    truth = np.array([item.accuracy for item in found])
    fitted = {}
    for kind, choices in lists.items():
        errors, responses = [], []
        for names in dict.fromkeys(choices):
            with one_blas_thread():
                surface, left_out = response.fit(
                    names,
                    [item.signals for item in found],
                    _relative_log_odds(found, reference.accuracy),
                    _sampling_variance(found, num_nodes),
                    reference.signals,
                    [item.families for item in found],
                    lead=LEAD,
                )
            predicted = 1.0 / (1.0 + np.exp(-(start + left_out.predicted)))
            errors.append(float(np.abs(predicted - truth[left_out.rows]).mean()))
            responses.append(surface)
        fitted[kind] = responses[int(np.argmin(errors))]
    return fitted


def _relative_log_odds(found: Collection[Environment], accuracy: float) -> FloatArray:
    return np.array([log_odds(e.accuracy) for e in found]) - log_odds(accuracy)


def _sampling_variance(found: Collection[Environment], num_nodes: int) -> FloatArray:
    """Return the variance of each environment's log-odds, as of an accuracy on so many nodes."""
    accuracy = np.clip([item.accuracy for item in found], 0.02, 0.98)
    return np.asarray(1.0 / (num_nodes * accuracy * (1.0 - accuracy)))


__all__ = ["Evidence", "SourceCard", "fingerprint"]
