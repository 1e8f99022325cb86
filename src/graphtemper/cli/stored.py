"""`graphtemper recalibrate` on a graph in Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from graphtemper import errors
from graphtemper.cli.answers import print_answer
from graphtemper.cli.options import Deployed, Flag
from graphtemper.cli.output import print_json, print_line, progress


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


def recalibrate_stored(graph: str, stored: Stored, out: Path, deployed: Deployed) -> None:
    """Recalibrate logits in files; print the answer and where the probabilities are."""
    from graphtemper import SourceCard, recalibrate
    from graphtemper.cli.arguments import resolve
    from graphtemper.scale import StoredGraph, connected

    if deployed.logits is None:
        raise errors.missing("a graph in Parquet needs the logits of its nodes; give --logits.")
    source = SourceCard.load(deployed.card)
    model = None if deployed.predict is None else resolve(deployed.predict)
    nodes, logits = stored.features, str(deployed.logits)
    target = None if nodes is None else StoredGraph.open(nodes, graph, stored.directed)
    options: dict[str, Any] = {"seed": deployed.seed, "sample": stored.sample, "out": out}
    if model is not None:
        options["logits"] = logits
    try:
        with (
            connected(stored.scheduler) as engine,
            progress(deployed.as_json, one_bar=True) as show,
        ):
            result = recalibrate(
                logits if model is None else model,
                target,
                source,
                client=engine,
                progress=show,
                **options,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the temporary folder next to {out} was removed: the same command starts "
            "over."
        ) from None
    if deployed.as_json:
        print_json(result.to_dict() | {"out": str(out.absolute())})
        return
    print_answer(result)
    print_line(f"Written: {out} ({result.num_nodes:,} nodes)")
