"""The source card: the small file that travels from training to deployment.

It holds aggregates only: the source temperature, how to measure (`Probe`), class moments of the
logits, the source's own evidence, and the atlas. No row belongs to a node. JSON, versioned,
validated on load, never a pickle.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_integer
from graphtemper._core.files import atomic_write
from graphtemper._core.lazy import cached_property
from graphtemper._core.reproducible import one_blas_thread
from graphtemper._core.safe_reading import read_bytes
from graphtemper.card import atlas as atlases
from graphtemper.card import build as building
from graphtemper.card import environments as labelled
from graphtemper.card.atlas import (
    COMPOSITIONS,
    UNKNOWN_ENDS,
    AtlasNodes,
    AtlasPoint,
    Ends,
    Progress,
    Shifts,
)
from graphtemper.card.budget import Budget
from graphtemper.card.class_profile import ClassProfile
from graphtemper.card.environments import Environment, LabelledGraph
from graphtemper.card.format import MAX_BYTES, check_size, checked, from_json, to_json
from graphtemper.card.graph_types import GraphTypes, unread_fields
from graphtemper.card.node_response import NodeResponse
from graphtemper.card.privacy import check_epsilon, effective_nodes
from graphtemper.card.response import Fitted, Response
from graphtemper.errors import GraphTemperError, InputError, ModelError, VersionError
from graphtemper.graph.graph import Graph, Nodes, select_labelled
from graphtemper.models.predictor import (
    Predictor,
    as_graph,
    compared,
    predict,
    probe_graph,
)
from graphtemper.signals.changes import Baseline
from graphtemper.signals.drift import DriftBaseline
from graphtemper.signals.evidence import Probe, Reference

if TYPE_CHECKING:
    from torch_geometric.data import Data


class HasFeatures(Protocol):
    """A graph in memory or on disk, or a card."""

    @property
    def num_features(self) -> int:
        """Number of feature columns."""


@dataclass(frozen=True, eq=False, repr=False)
class SourceCard:
    """What deployment needs to know about a model and its source graph: aggregates only.

    A card is checked when it is made, and has the digits of its file, so that it answers before it
    was saved as after loading. Build a card with `build`, read and write it with `load` and `save`,
    and let it `learn` from other labelled graphs. `graphtemper.card.reading.read` compares a target
    with the source.

    Attributes
    ----------
    predictor
        Name of the model.
    num_classes, num_features, num_nodes
        Size of the problem; ``num_nodes`` counts the labelled nodes that the card was built from.
    fingerprint : (6, K) array or None
        Logits on a small fixed graph, by which the model is recognised.
    types
        What the source graph holds next to features and edges; empty if it is plain.
    probe
        How to measure: source temperature, noise level, thresholds.
    reference
        The source's own evidence, class moments and accuracy.
    population
        Sketch of the feature means, and how the classes differ.
    class_profile
        For class shares; None if the model does not separate the classes.
    atlas
        The source under known shifts.
    responses, node_responses
        What was learned from the atlas, for targets with a model and for targets with logits alone.
        A card from a file that has lost a family of shifts has no node responses.
    environments
        Labelled environments: other graphs that the card has learned from.
    excluded
        Families of shifts that were left out.
    passes
        Forward passes of the model that the build took; None for a model with fast passes.
    privacy
        Epsilon of the differential privacy of the labels, if there is one
        (`graphtemper.card.privacy`).
    columns
        Moments of the feature columns and counts of edges, for what has changed; no privacy of
        labels covers them. None in a card of an earlier version.
    ends
        Accuracies of the source where links carry no signal.
    elsewhere
        Accuracy at the labelled nodes of the source that the card was not built from, which the
        model may know by heart; None if there are few, or in a private or an older card.
    atlas_nodes
        In memory only: what `without` fits node responses to.
    """

    predictor: str
    num_classes: int
    num_features: int
    num_nodes: int
    fingerprint: FloatArray | None
    types: GraphTypes
    probe: Probe
    reference: Reference
    population: DriftBaseline
    class_profile: ClassProfile | None
    atlas: tuple[AtlasPoint, ...]
    responses: dict[str, Fitted]
    node_responses: dict[str, NodeResponse] | None
    environments: tuple[Environment, ...] = ()
    excluded: tuple[str, ...] = ()
    passes: int | None = None
    privacy: float | None = None
    columns: Baseline | None = None
    ends: Ends = UNKNOWN_ENDS
    elsewhere: float | None = None
    atlas_nodes: AtlasNodes | None = None

    def __post_init__(self) -> None:
        for name, value in checked(self).items():
            object.__setattr__(self, name, value)

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
        compositions: int = COMPOSITIONS,
        shifts: Shifts | None = None,
        progress: Progress | bool | None = None,
        environments: Sequence[LabelledGraph] = (),
        budget: Budget = None,
        privacy: float | None = None,
    ) -> SourceCard:
        """Run a frozen model on its labelled source graph under known shifts.

        A model of your own takes at most 500 passes, which is the default budget; how many is in
        ``card.passes``. SIGN, SGC and models that declare fast passes
        (`graphtemper.models.Passes`) need a small part of that work, and are measured thoroughly
        unless a budget is given.

        Parameters
        ----------
        predictor, graph
            The frozen model and the labelled graph it was trained on. For a PyG ``Data``, it is
            checked that the model reads nothing that a `Graph` does not hold.
        nodes
            Labelled nodes that were not used for training. By default those outside the training
            mask of the graph if it has one, and else all labelled ones, with a warning.
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
        progress
            A function that is called with (shifts finished, shifts in all). By default a bar is
            shown if standard error is a terminal, or in a notebook; False shows nothing.
        environments
            Other labelled environments that the model was not trained on, each a graph or a pair
            (graph, nodes). Each is measured and summarised as by `learn`.
        budget
            The most forward passes to take (see `graphtemper.card.budget`). ``"thorough"`` measures
            every shift as precisely as the source, on four splits of the columns: some 1,900 passes
            with the default atlas.
        privacy
            An epsilon, such as 3: the card is then differentially private in each label of the
            graph (`graphtemper.card.privacy`). Features, edges, the list of nodes and the
            model are not covered. The randomness is fresh in every build, whatever the seed;
            budgets of several cards add up. `learn` randomises labels with the same epsilon.

        Examples
        --------
        >>> from graphtemper import csbm
        >>> from graphtemper.models import SIGN
        >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
        >>> model = SIGN(hops=1).fit(g, range(200))
        >>> card = SourceCard.build(model, g, range(200, 400), compositions=0)
        >>> card.num_classes, len(card.atlas)
        (2, 62)
        """
        privacy = None if privacy is None else check_epsilon(privacy)
        drawn = atlases.plan(check_integer(seed, "seed", 0, 2**62), exclude, compositions, shifts)
        checked_graph, logits = compared(graph, predictor, as_graph(graph, predictor))
        plan = building.plan(
            predictor,
            checked_graph,
            logits,
            nodes,
            drawn,
            atlases.ends_of(checked_graph, exclude),
            seed=seed,
            environments=environments,
            budget=budget,
            privacy=privacy,
        )
        with plan.running(progress) as report:
            source = building.measure(plan)
            atlas, atlas_nodes = building.survey(plan, source, report)
            ends = source.source.ends(plan.ends)
        fitted = building.fit(atlas, source.reference, plan.labels.size, atlas_nodes)
        size, classes = plan.labels.size, source.observation.num_classes
        counted = effective_nodes(size, source.reference.accuracy, classes, privacy)
        card = cls(
            predictor=getattr(predictor, "__name__", type(predictor).__name__)[:200],
            num_classes=classes,
            num_features=plan.graph.num_features,
            num_nodes=size,
            fingerprint=plan.fingerprint,
            types=GraphTypes.of(plan.graph),
            probe=source.probe,
            reference=source.reference,
            population=source.population,
            class_profile=ClassProfile.of_source(source.logits, plan.labels, counted / size),
            atlas=atlas,
            responses=fitted.responses,
            node_responses=fitted.node_responses,
            excluded=tuple(sorted(set(exclude))),
            passes=plan.budget.passes if plan.counted else None,
            privacy=privacy,
            columns=source.columns,
            ends=ends,
            elsewhere=building.elsewhere(plan) if privacy is None else None,
            atlas_nodes=atlas_nodes,
        )
        card = card._shortened()
        for number, (other, chosen) in enumerate(plan.environments, start=1):
            name = labelled.free_name(other.name or f"environment {number}", card.environments)
            card = card._learn(predictor, other, chosen, name)
        return card

    def learn(
        self,
        predictor: Predictor,
        graph: Graph | Data,
        nodes: Nodes = None,
        *,
        name: str | None = None,
        when: object = None,
        earlier: ArrayLike | None = None,
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
        earlier
            Labels of the same nodes from the period before: one class per node of the graph, -1
            where unknown. The card keeps a few moments that say what such labels are worth to
            ``recalibrate(..., earlier=...)``.

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
        >>> [(item.name, item.num_nodes, item.gap < 0) for item in wiser.environments]
        [('May', 400, True)]
        """
        converted = as_graph(graph, predictor, self.types.target_name)
        self.check_graph(predictor, converted)
        self.check_model(predictor)
        known = self.environments
        free = labelled.free_name(converted.name or f"environment {len(known) + 1}", known)
        return self._learn(predictor, converted, nodes, name or free, when, earlier)

    def _learn(
        self,
        predictor: Predictor,
        graph: Graph,
        nodes: Nodes,
        name: str,
        when: object = None,
        earlier: ArrayLike | None = None,
    ) -> SourceCard:
        moment = labelled.checked_when(when)
        given = self.probe, self.reference, predictor, graph, nodes, str(name)[:200], moment
        new = labelled.measure(*given, privacy=self.privacy, old=earlier)
        grown = labelled.added(self.environments, new)
        columns = self.columns
        if columns is not None:
            rows = select_labelled(graph, nodes)[0]
            columns = columns.learned(columns.profile(graph, rows))
        kept = grown[-labelled.MOST_ENVIRONMENTS :]
        card = replace(self, environments=kept, columns=columns)
        return card._shortened()

    def _shortened(self) -> SourceCard:
        """Return the card without columns, and then environments, for which there is no room."""
        card = self
        while len(card.to_json()) > MAX_BYTES:
            columns = card.columns
            if columns is not None:
                card = replace(card, columns=columns.largest(columns.columns.size // 2))
            elif len(card.environments) > 2:
                card = replace(card, environments=card.environments[1:])
            else:
                break
        return card

    def without(self, family: str) -> SourceCard:
        """Return the card without a family of shifts, for honest evaluation.

        The result is that of building with ``exclude=(family,)``, except for which compositions
        are drawn, at the cost of a fit. A card from a file holds no nodes to fit node responses
        to, so it loses them.
        """
        if family not in {*self.families, *self.excluded}:
            present = ", ".join(self.families)
            raise errors.choice(f"unknown family {family!r}; the atlas has {present}.")
        atlas = tuple(item for item in self.atlas if family not in item.families)
        fitted = building.fit(atlas, self.reference, self.num_nodes, self.atlas_nodes)
        excluded = tuple(sorted({*self.excluded, family}))
        ends = self.ends.without(family)
        return replace(self, atlas=atlas, excluded=excluded, ends=ends, **fitted._asdict())

    @property
    def temperature(self) -> float:
        """The source temperature, which divides all logits before anything is measured."""
        return self.probe.temperature

    @property
    def effective_nodes(self) -> int:
        """Number of exact labels with the sampling error of the source's accuracy."""
        right = self.reference.accuracy
        return effective_nodes(self.num_nodes, right, self.num_classes, self.privacy)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of shifts in the atlas, sorted."""
        return tuple(sorted(frozenset().union(*(item.families for item in self.atlas))))

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
            raise errors.other_features(
                f"the card is for graphs with {self.num_features} feature columns but this one has "
                f"{graph.num_features}; use the card of this feature space."
            )
        if self.types != GraphTypes() or not getattr(graph, "is_plain", True):
            self.types.check(graph, unread_fields(predictor))

    def check_model(self, predictor: Predictor | ArrayLike) -> None:
        """Raise `InputError` if the card was made for another model."""
        if not callable(predictor) or self.fingerprint is None:
            return
        try:
            logits = predict(predictor, probe_graph(self.num_features))
        except GraphTemperError as error:
            given = f"on a test graph with the card's {self.num_features} feature columns"
            raise error.at(given) from error
        except Exception as error:  # the model may raise anything
            raise ModelError(
                "the model failed on a test graph of six nodes, which it could run when the card "
                f"was built: {type(error).__name__}: {error}"
            ) from error
        if logits.shape != self.fingerprint.shape:
            raise errors.other_model(
                "the card was made for another model; build a card for this one."
            )
        size = float(np.abs(self.fingerprint).max()) + 1e-6
        if not np.allclose(logits, self.fingerprint, atol=1e-3 * size, rtol=1e-3):
            raise errors.other_model(
                "the model answers a test graph differently from the model the card was made for; "
                "build a card for this one."
            )

    def response(self, has_model: bool) -> Response:
        """Return the response surface for targets with a model, or with logits alone."""
        return self._responses["model" if has_model else "logits"]

    @cached_property
    def _responses(self) -> dict[str, Response]:
        """The source's half of every comparison, computed once per card."""
        given = self.atlas, self.reference, self.num_nodes
        return {kind: item.over(*given) for kind, item in self.responses.items()}

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
        check_size(self.num_classes, self.num_features, len(self.atlas), len(text))
        with atomic_write(path) as stream:
            stream.write(text.encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SourceCard:
        """Read a card; raise `FileError` if the file is damaged or from another version."""
        try:
            return cls.from_json(read_bytes(path, 4 * MAX_BYTES, "the source card").decode())
        except UnicodeDecodeError as error:
            raise errors.damaged(f"{path} is not JSON, so it is not a source card.") from error
        except VersionError as error:
            raise VersionError(f"{path}: {error}") from error
        except InputError as error:
            raise errors.damaged(f"{path}: {error}") from error

    def __repr__(self) -> str:
        excluded = f", without {', '.join(self.excluded[:8])}" if self.excluded else ""
        return (
            f"SourceCard({self.predictor[:60]!r}, classes={self.num_classes}, "
            f"features={self.num_features}, accuracy={self.reference.accuracy:.3f} on "
            f"{self.num_nodes} nodes, temperature={self.temperature:.4g}, "
            f"atlas={len(self.atlas)} shifts of {len(self.families)} families{excluded})"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"

    def summary(self) -> str:
        """Return a description of the card for people, in a few lines."""
        low = min(item.accuracy for item in self.atlas)
        high = max(item.accuracy for item in self.atlas)
        lines = [
            f"{self.predictor}: {self.num_classes} classes, {self.num_features} feature columns",
            f"accuracy {self.reference.accuracy:.3f} on {self.num_nodes} source nodes, "
            f"temperature {self.temperature:.3f}",
            f"{len(self.atlas)} known shifts, accuracy {low:.3f} to {high:.3f}",
            f"kinds of shift: {', '.join(self.families)}",
        ]
        if self.environments:
            names = ", ".join(item.name for item in self.environments)
            lines.append(f"labelled environments: {names}")
        if self.node_responses is not None:
            word = "helps" if self.node_responses["model"].helps else "does not help"
            lines.append(f"one temperature per node {word} under kinds of shift that were left out")
        if self.privacy is not None:
            lines.append(f"differentially private in each label, epsilon {self.privacy:g}")
            lines[-1] += ", each time that it is learned from" * bool(self.environments)
        if self.passes is not None:
            lines.append(f"built with {self.passes:,} forward passes of the model")
        if self.excluded:
            lines.append(f"left out: {', '.join(self.excluded)}")
        return "\n".join(lines)
