"""Options about decisions: which class, threshold and costs, and conditions that fail a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from graphtemper import errors
from graphtemper._core.lazy import cached_property
from graphtemper.cli.options import FailOn

if TYPE_CHECKING:
    from graphtemper.recalibration import Recalibration
    from graphtemper.recalibration.decisions import Metrics
    from graphtemper.recalibration.gates import Gate


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which decisions to judge.

    Parameters
    ----------
    positive
        The class of interest, by name or number: precision, recall, F1 and more are estimated for
        it against all others.
    threshold
        Flag nodes whose probability of that class reaches it. Default: those predicted as it.
    review
        Number of nodes with the highest probability that people will look at.
    costs
        CSV with the cost of a node by true class (rows) and decision (columns): two rows, the
        others and the positive class; without --positive one row per class.
    """

    positive: str | None = None
    threshold: float | None = None
    review: int | None = None
    costs: Path | None = None

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What `Recalibration.metrics` is called with, but for segments; empty for nothing."""
        if self.positive is None and (self.threshold is not None or self.review is not None):
            raise errors.missing("--threshold and --review are about a class; give --positive.")
        costs = None if self.costs is None else read_costs(self.costs)
        named = {"positive": self.positive, "threshold": self.threshold}
        given = named | {"k": self.review, "costs": costs}
        return {name: value for name, value in given.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Decisions(Asked):
    """Which decisions to judge, and which gates a run has to pass.

    Parameters
    ----------
    segments
        A text file with the name of each node's segment, one line per node of the graph, or the
        word environment for the field of the graph.
    fail_on
        A gate: a condition that ends the run with code 3, such as "precision<0.6", or
        "low(precision)<0.6" for the lower end of its interval; may be repeated. One that cannot be
        checked is closed as well: a metric that was not asked for or is not defined, or a number of
        an abstention.
    """

    segments: str | None = None
    fail_on: FailOn = None

    def metrics(self, result: Recalibration) -> Metrics | None:
        """Return the metrics that options ask for, or None."""
        if not (self.asked or self.segments):
            return None
        segments = None if self.segments is None else self._read_segments(result)
        return result.metrics(**self.asked, segments=segments)

    def _read_segments(self, result: Recalibration) -> Any:
        from graphtemper._core.safe_reading import read_lines

        graph = result.graph
        assert graph is not None
        names: Any = graph.environment
        if self.segments != "environment":
            lines = read_lines(Path(str(self.segments)), "the list of segments")
            names = [line.strip() for line in lines]
        if names is None or len(names) != graph.num_nodes:
            found = "no environments" if names is None else f"{len(names)} lines"
            raise errors.shape(
                f"--segments {self.segments}: the graph has {graph.num_nodes} nodes but there are "
                f"{found}; name one segment for each node."
            )
        return [names[node] for node in result.nodes]

    @cached_property
    def gates(self) -> list[Gate]:
        """The gates; one that cannot be read, or that only a watch can check, is refused."""
        from graphtemper.recalibration.gates import ALARMS, Gate

        gates = [Gate.parse(text) for text in self.fail_on or ()]
        for gate in gates:
            if gate.field in ALARMS:
                raise errors.choice(
                    f"the gate {gate.text!r} needs a watch; use graphtemper monitor."
                )
        return gates


def read_costs(path: Path) -> list[list[float]]:
    """Read a table of numbers, separated by commas."""
    from graphtemper._core.safe_reading import read_lines

    lines = [line for line in read_lines(path, "the table of costs") if line.strip()]
    try:
        return [[float(cell) for cell in line.split(",")] for line in lines]
    except ValueError as error:
        raise errors.table(f"{path} is not a table of numbers: {error}.") from error
