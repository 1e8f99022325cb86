"""`graphtemper recalibrate` on a graph in Parquet files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

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
    hops
        Layers of the model, if it does not declare them.
    directed
        The edges in Parquet are ordered pairs.
    sample
        Nodes to run the model on.
    scheduler
        Address of a Dask scheduler, such as tcp://host:8786. Default: run in this process.
    """

    features: str | None = None
    hops: int | None = None
    directed: Flag = False
    sample: int = 2_000
    scheduler: str | None = None


def recalibrate_stored(graph: str, stored: Stored, out: Path, deployed: Deployed) -> None:
    """Recalibrate logits in files; print the answer and where the probabilities are."""
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import resolve
    from graphtemper.scale import connected, recalibrate

    if deployed.logits is None:
        raise errors.missing("a graph in Parquet needs the logits of its nodes; give --logits.")
    source = SourceCard.load(deployed.card)
    model = None if deployed.predict is None else resolve(deployed.predict)
    options = asdict(stored) | {"graph": graph, "model": model, "seed": deployed.seed}
    address = options.pop("scheduler")
    try:
        with connected(address) as engine, progress(deployed.as_json, one_bar=True) as show:
            given = {"client": engine, "progress": show} | options
            result = recalibrate(str(deployed.logits), source, out, **given)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the temporary folder next to {out} was removed: the same command starts "
            "over."
        ) from None
    if deployed.as_json:
        print_json(result.to_dict() | {"out": str(result.out)})
        return
    print_answer(result)
    print_line(f"Written: {result.out} ({result.num_nodes:,} nodes)")
