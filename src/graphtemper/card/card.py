"""The source card: the small file that travels from training to deployment.

It holds aggregates only: the source temperature, how to measure (`Probe`), class moments of the
logits, the source's own evidence, and the atlas. No row belongs to a node. JSON, versioned,
validated on load, never a pickle.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.arrays import FloatArray
from graphtemper._core.files import atomic_write
from graphtemper._core.safe_reading import read_bytes
from graphtemper.card import atlas, notebook, response
from graphtemper.card import build as building
from graphtemper.card.atlas import Shifts, Workers
from graphtemper.card.budget import Budget
from graphtemper.card.class_profile import CardData, relative_log_odds, sampling_variance
from graphtemper.card.format import from_json, to_json
from graphtemper.card.graph_types import NO_TYPES, unread_fields
from graphtemper.card.learning import LabelledGraph, learn
from graphtemper.card.progress import Progress
from graphtemper.card.reading import Reading
from graphtemper.card.response import Response
from graphtemper.card.size import MAX_BYTES, check_size
from graphtemper.errors import FileError, GraphTemperError, InputError, ModelError
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import Predictor, as_graph, predict, probe_graph
from graphtemper.signals import evidence
from graphtemper.signals.evidence import LEAD, SIGNALS, Evidence
from graphtemper.signals.observation import Observation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch_geometric.data import Data


class HasFeatures(Protocol):
    """A graph in memory or on disk, or a card."""

    @property
    def num_features(self) -> int:
        """Number of feature columns."""


class SourceCard(CardData):
    """What deployment needs to know about a model and its source graph.

    Build a card with `build`, read and write it with `load` and `save`. `read` compares a target
    with the source. The content is described in `graphtemper.card.class_profile.CardData`.
    """

    @classmethod
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
        progress: Progress | bool | None = None,
        workers: Workers | None = None,
        environments: Sequence[LabelledGraph] = (),
        budget: Budget = None,
        privacy: float | None = None,
    ) -> SourceCard:
        """Run a frozen model on its labelled source graph under known shifts.

        A model of your own takes at most 500 passes, which is the default budget; how many is in
        ``card.passes``, and `graphtemper.card.build.count_passes` says it in advance. SIGN, SGC,
        GCN and models that declare fast passes (`graphtemper.models.Passes`) need a small part of
        that work, and are measured thoroughly unless a budget is given.

        Parameters
        ----------
        predictor, graph
            The frozen model and the labelled graph it was trained on. For a PyG ``Data``, it is
            checked that the model reads nothing that a `Graph` does not hold.
        nodes
            Labelled nodes that were not used for training (default: all labelled ones).
        seed
            Seed of the shifts, together with the labels; not part of the card (see SECURITY.md).
        exclude
            Families of shifts to leave out, also from compositions, for honest evaluation.
        compositions
            Number of random compositions to add to the single shifts.
        shifts
            The shifts of the atlas: strengths by family, as ``{"noise": (0.5, 1.0), ...}``, or a
            list of `graphtemper.shifts.Shift`. At least three families; by default all of
            `graphtemper.card.atlas.LEVELS`. Fewer shifts make a cheaper card with wider intervals.
        resume
            A file that stores finished environments, so that an interrupted build can resume. It
            also holds logits of some nodes, so keep it as you keep the graph.
        progress
            A function that is called with (environments finished, environments in all). By default
            a bar is shown if standard error is a terminal, or in a notebook; False shows nothing.
        workers
            Where environments run in place of this process, such as
            `graphtemper.scale.OnDask(client)`.
        environments
            Other labelled environments that the model was not trained on, each a graph or a pair
            (graph, nodes). Each is measured and summarised as by `learn`.
        budget
            The most forward passes to take (see `graphtemper.card.budget`). ``"thorough"`` measures
            every environment as precisely as the source: 110 passes there and 53 per environment,
            7,106 with the default atlas.
        privacy
            An epsilon, such as 3: the card is then differentially private in each label of the
            graph (`graphtemper.card.private_labels`). Features, edges, the list of nodes and the
            model are not covered. The randomness is fresh in every build, whatever the seed;
            budgets of several cards add up. `learn` randomises labels with the same epsilon.

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
        return building.build(
            cls,
            predictor,
            as_graph(graph, predictor),
            nodes,
            seed=seed,
            exclude=exclude,
            compositions=compositions,
            shifts=shifts,
            resume=resume,
            progress=progress,
            workers=workers,
            environments=environments,
            budget=budget,
            privacy=privacy,
        )

    def learn(
        self,
        predictor: Predictor,
        graph: Graph | Data,
        nodes: Nodes = None,
        *,
        name: str | None = None,
        when: object = None,
    ) -> SourceCard:
        """Return a card that has learned from one more labelled environment.

        An environment is another place or period: last month, another country, an earlier release.
        What the model got wrong there says how far the world moves, which no unlabelled number
        does. The card keeps aggregates only. Take labelled nodes from environments that the model
        was not trained on. A private card randomises the labels with its own epsilon, once per
        environment; the budgets of a node that is in several, or in the source as well, add up.

        Parameters
        ----------
        predictor, graph
            The model of the card and the labelled environment.
        nodes
            Its labelled nodes (default all); at least ten, and none that the model was trained on.
        name
            What people call it (default: the name of the graph).
        when
            Its place in time: a date, a number, or a string that sorts by time such as
            ``"2026-05"``. If environments have times, the later ones count for more.

        Examples
        --------
        >>> from graphtemper import csbm
        >>> from graphtemper.models import SIGN
        >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
        >>> model = SIGN(hops=1).fit(g, range(200))
        >>> few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
        >>> card = SourceCard.build(model, g, range(200, 400), compositions=0, shifts=few)
        >>> may = csbm.sample(400, degree=6, homophily=0.6, snr=1.0, num_features=6, seed=1)
        >>> wiser = card.learn(model, may, name="May", when="2026-05")
        >>> [(item.name, item.num_nodes, item.gap < 0) for item in wiser.natural]
        [('May', 400, True)]
        """
        accept = partial(self.check_graph, predictor)
        converted = as_graph(graph, predictor, accept, self.types.target_name)
        self.check_model(predictor)
        return learn(self, predictor, converted, nodes, name=name, when=when)

    def without(self, family: str) -> SourceCard:
        """Return the card without a family of shifts, for honest evaluation.

        The result is that of building with ``exclude=(family,)``, except for which compositions
        are drawn, at the cost of a fit. A card from a file holds no nodes to fit node responses
        to, so it loses them.
        """
        return building.without(self, family)

    def check(self, predictor: Predictor | ArrayLike, graph: HasFeatures) -> None:
        """Raise `InputError` if the card was made for another model or another kind of graph."""
        self.check_graph(predictor, graph)
        self.check_model(predictor)

    def check_graph(self, predictor: Predictor | ArrayLike, graph: HasFeatures) -> None:
        """Raise `InputError` for a graph with other columns or types, or without what was read.

        A graph with more than the source had, as weights, gives a warning. Of a graph on disk only
        the number of feature columns is read. The model is not run.
        """
        if graph.num_features != self.num_features:
            raise InputError(
                f"the card is for graphs with {self.num_features} feature columns but this one has "
                f"{graph.num_features}; use the card of this feature space."
            )
        if self.types != NO_TYPES or not getattr(graph, "is_plain", True):
            self.types.check(graph, unread_fields(predictor))

    def check_model(self, predictor: Predictor | ArrayLike) -> None:
        """Raise `InputError` if the card was made for another model."""
        if not callable(predictor) or self.fingerprint is None:
            return
        try:
            logits = predict(predictor, probe_graph(self.num_features))
        except GraphTemperError as error:
            given = f"on a test graph with the card's {self.num_features} feature columns"
            raise type(error)(f"{given}: {error}") from error
        except Exception as error:  # the model may raise anything
            raise ModelError(
                "the model failed on a test graph of six nodes, which it could run when the card "
                f"was built: {type(error).__name__}: {error}"
            ) from error
        if logits.shape != self.fingerprint.shape:
            raise InputError("the card was made for another model; build a card for this one.")
        size = float(np.abs(self.fingerprint).max()) + 1e-6
        if not np.allclose(logits, self.fingerprint, atol=1e-3 * size, rtol=1e-3):
            raise InputError(
                "the model answers a test graph differently from the model the card was made for; "
                "build a card for this one."
            )

    def read(self, observation: Observation) -> Reading:
        """Measure an observation, made at the source temperature, and compare it with the source.

        Examples
        --------
        >>> from graphtemper import csbm
        >>> from graphtemper.models import SIGN
        >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
        >>> model = SIGN(hops=1).fit(g, range(200))
        >>> few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
        >>> card = SourceCard.build(model, g, range(200, 400), compositions=0, shifts=few)
        >>> observation = Observation(model, g, range(200, 400)).at(card.temperature)
        >>> bool(card.read(observation).novelty < 0.5)  # the source itself
        True
        """
        if observation.num_classes != self.num_classes:
            raise InputError(
                f"the card is for {self.num_classes} classes but the model gives "
                f"{observation.num_classes}."
            )
        if observation.temperature != self.temperature:
            raise InputError(
                f"the observation is at temperature {observation.temperature:g} but the card needs "
                f"{self.temperature:g}; pass observation.at(card.temperature)."
            )
        return self.read_evidence(
            evidence.measure(observation, self.probe),
            observation.num_nodes,
            observation.own_moments,
            flat=bool((observation.logits == observation.logits[:, :1]).all()),
        )

    def read_evidence(
        self,
        measured: Evidence,
        num_nodes: int,
        moments: tuple[FloatArray, FloatArray] | None,
        flat: bool,
    ) -> Reading:
        """Compare evidence, measured as `probe` says, with the source's.

        Parameters
        ----------
        measured
            The evidence of the target.
        num_nodes
            Number of measured nodes.
        moments
            Mean and standard deviation of their feature columns; None if features are unknown.
        flat
            Whether every node's logits are all equal.
        """
        return Reading(
            card=self,
            evidence=measured,
            signals=evidence.read(measured, self.reference),
            response=self.response(measured.held is not None),
            gains=evidence.gains(measured, self.reference.evidence),
            num_nodes=num_nodes,
            moments=moments,
            flat=flat,
        )

    def response(self, has_model: bool) -> Response:
        """Return the response surface for targets with a model, or with logits alone."""
        return self._responses["model" if has_model else "logits"]

    @cached_property
    def _responses(self) -> dict[str, Response]:
        """The source's half of every comparison, computed once per card."""
        origin = self.reference.signals
        return {kind: self._response(kind, origin) for kind in self.names}

    def _response(self, kind: str, origin: dict[str, float]) -> Response:
        names = self.names[kind]
        points, start, scale = response.standardise(
            names, [item.signals for item in self.environments], origin
        )
        return Response(
            names=tuple(names),
            points=points,
            values=relative_log_odds(self.environments, self.reference.accuracy),
            noise=sampling_variance(self.environments, self.num_nodes),
            origin=start,
            scale=scale,
            prior=response.prior_weights(names, scale, LEAD),
            kernel=self.kernels[kind],
            widening=self.widening[kind],
            reach=response.reach(points, [item.families for item in self.environments]),
        )

    def to_json(self) -> str:
        """Return the text of the card's file."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> SourceCard:
        """Read the text of a card's file; raise `InputError` with the name of a damaged field."""
        return from_json(text, cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the card as JSON, atomically."""
        text = self.to_json()
        check_size(self.num_classes, self.num_features, len(self.environments), len(text))
        with atomic_write(path) as stream:
            stream.write(text.encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SourceCard:
        """Read a card; raise `FileError` if the file is damaged or from a newer version."""
        try:
            return cls.from_json(read_bytes(path, 4 * MAX_BYTES, "the source card").decode())
        except UnicodeDecodeError as error:
            raise FileError(f"{path} is not JSON, so it is not a source card.") from error
        except InputError as error:
            raise FileError(f"{path}: {error}") from error

    def __repr__(self) -> str:
        excluded = f", without {', '.join(self.excluded[:8])}" if self.excluded else ""
        return (
            f"SourceCard({self.predictor[:60]!r}, classes={self.num_classes}, "
            f"features={self.num_features}, accuracy={self.reference.accuracy:.3f} on "
            f"{self.num_nodes} nodes, temperature={self.temperature:.4g}, "
            f"environments={len(self.environments)} of {len(self.families)} families{excluded})"
        )

    def _repr_html_(self) -> str:
        rows = {
            "Classes, feature columns": f"{self.num_classes}, {self.num_features}",
            "Accuracy at the source": f"{self.reference.accuracy:.1%} on {self.num_nodes} nodes",
            "Temperature": f"{self.temperature:.4g}",
            "Environments": f"{len(self.environments)}: {', '.join(self.families)}",
        }
        image = notebook.picture(self._draw, "accuracy in the environments of the atlas")
        return notebook.table(f"Source card of {self.predictor}", rows) + image

    def _draw(self, ax: Axes) -> None:
        """Draw the accuracy of every environment by family."""
        for row, family in enumerate(self.families):
            values = [item.accuracy for item in self.environments if family in item.families]
            ax.plot(values, [row] * len(values), "|", color="C0")
        ax.axvline(self.reference.accuracy, color="0.5", linestyle=":")
        ax.set_yticks(range(len(self.families)), self.families, fontsize="xx-small")
        ax.set(xlabel="accuracy", title="environments; the line is the source")

    def summary(self) -> str:
        """Return a description of the card for people, in a few lines."""
        low = min(item.accuracy for item in self.environments)
        high = max(item.accuracy for item in self.environments)
        lines = [
            f"{self.predictor}: {self.num_classes} classes, {self.num_features} feature columns",
            f"accuracy {self.reference.accuracy:.3f} on {self.num_nodes} source nodes, "
            f"temperature {self.temperature:.3f}",
            f"{len(self.environments)} environments, accuracy {low:.3f} to {high:.3f}",
            f"families: {', '.join(self.families)}",
            f"signals: {', '.join(self.names['model'])}",
            f"intervals are {self.widening['model']:.2f} times as wide as the fit's own, so that "
            "they hold on families left out",
        ]
        readable = self.reference.readable
        unreadable = [name for name in SIGNALS if name not in readable]
        if unreadable:
            lines.append(f"not readable at this source: {', '.join(unreadable)}")
        if self.natural:
            lines.append(f"labelled environments: {', '.join(item.name for item in self.natural)}")
        if self.node_responses is not None:
            lines.append(f"one temperature per node: {self.node_responses['model'].in_words}")
        if self.privacy is not None:
            lines.append(f"differentially private in each label, epsilon {self.privacy:g}")
            lines[-1] += ", each time that it is learned from" * bool(self.natural)
        if self.passes is not None:
            lines.append(f"built with {self.passes:,} forward passes of the model")
        if self.excluded:
            lines.append(f"left out: {', '.join(self.excluded)}")
        return "\n".join(lines)
