"""The nodes of an atlas: what single nodes show while it is surveyed, kept in memory alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper.card import node_response
from graphtemper.card.atlas import Environment
from graphtemper.card.node_format import KINDS
from graphtemper.card.node_response import NodeResponse, NodeRows
from graphtemper.shifts import Shift
from graphtemper.signals.evidence import Probe
from graphtemper.signals.observation import Observation


class AtlasNodes:
    """Collects some labelled nodes of every environment and learns node responses from them.

    Parameters
    ----------
    source
        The source itself, seen through the card's labelled nodes.
    labels
        Their classes.
    probe
        How to measure.
    """

    def __init__(self, source: Observation, labels: NDArray[np.int64], probe: Probe) -> None:
        self._labels, self._probe = labels, probe
        self._source = NodeRows.draw(source, labels, probe, count=source.num_nodes)
        self._rows: dict[str, NodeRows] = {}

    @property
    def watch(self) -> Callable[[Observation], NodeRows]:
        """What draws nodes of one environment; it may run elsewhere."""
        return partial(NodeRows.draw, labels=self._labels, probe=self._probe)

    def keep(self, shift: Shift, rows: NodeRows) -> None:
        """Keep the nodes of one environment."""
        self._rows[repr(shift)] = rows

    def fit(self, environments: Sequence[Environment], accuracy: float) -> dict[str, NodeResponse]:
        """Return the node responses to some environments, for models and for logits alone."""
        return {kind: self.fit_to(environments, accuracy, names) for kind, names in KINDS.items()}

    def fit_to(
        self, environments: Sequence[Environment], accuracy: float, names: Sequence[str]
    ) -> NodeResponse:
        """Return the node response that reads only the named signals."""
        return node_response.fit(
            self._source,
            [self._rows[item.shift] for item in environments],
            [item.families for item in environments],
            [item.accuracy for item in environments],
            accuracy,
            names,
        )
