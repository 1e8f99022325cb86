"""Parameters that several commands share, with their help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

if TYPE_CHECKING:
    from graphtemper.card.budget import Budget

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]
Flag = Annotated[bool, Parameter(negative="")]
Repeated = Annotated[list[str], Parameter(negative="")]
# --fail-if is what `recalibrate` called it in 0.2.0.
FailOn = Annotated[list[str] | None, Parameter(name=("--fail-on", "--fail-if"), negative="")]

CardPath = Annotated[Path, Parameter(help="The model's source card.")]
GraphPath = Annotated[str, Parameter(help="The graph: the path of an .npz file.")]
Target = Annotated[
    str, Parameter(help="The target: the path of an .npz file. Its labels are not read.")
]
Predict = Annotated[
    str,
    Parameter(
        help="The model: package.module:callable (the predictor itself, graph -> logits), or the "
        "path of a saved model (.npz)."
    ),
]
Labels = Annotated[
    Path | None,
    Parameter(
        help="A few labels of the target: CSV with the columns node and class, as written by "
        "`label`. Nodes without a class, or with a question mark, are left out."
    ),
]
Earlier = Annotated[
    Path | None,
    Parameter(
        help="Labels of the same nodes from earlier periods: CSV with the columns node, class and, "
        "if there are several, period."
    ),
]
NodesFile = Annotated[
    Path | None, Parameter(help="File with one node index per line. Default: all nodes.")
]
Split = Annotated[
    str | None, Parameter(help="A split stored in the graph instead, such as test:0.")
]
PassSeed = Annotated[int, Parameter(help="Seed of the perturbed passes.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A model with its card, and the nodes to evaluate it on.

    Parameters
    ----------
    logits
        The model's logits: .npy, .npz with the key `logits`, .csv or .parquet. Without --predict
        fewer signals are available, so the interval is wider; with it, a large graph is run at a
        sample of its nodes only.
    """

    card: CardPath
    predict: Predict | None = None
    logits: Path | None = None
    nodes: NodesFile = None
    split: Split = None
    seed: PassSeed = 0
    as_json: Json = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Stored:
    """A graph of any size in Parquet files, which is streamed.

    Parameters
    ----------
    features
        The nodes in Parquet: a column per feature. GRAPH is then Parquet with the columns source
        and target, LOGITS Parquet, and OUT a new directory.
    directed
        The edges in Parquet are ordered pairs.
    sample
        Nodes to run the model on: 2,000 of a large graph, unless given.
    scheduler
        Address of a Dask scheduler, such as tcp://host:8786. Default: run in this process.
    """

    features: str | None = None
    directed: Flag = False
    sample: int | None = None
    scheduler: str | None = None


def read_budget(text: str | None) -> Budget:
    """Read a number of passes or a word; the library refuses any word but ``thorough``.

    Examples
    --------
    >>> read_budget("300"), read_budget("thorough"), read_budget(None)
    (300, 'thorough', None)
    """
    return int(text) if text is not None and text.isdecimal() else cast("Budget", text)
