"""`graphtemper recalibrate` on a graph in Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from graphtemper.cli.answers import print_answer
from graphtemper.cli.options import Flag, Scheduler
from graphtemper.cli.output import print_json, print_line, progress
from graphtemper.errors import MissingError


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Stored:
    """A graph of any size in Parquet files, which is streamed."""

    features: Annotated[
        str | None,
        Parameter(
            help="The nodes in Parquet: a column per feature. GRAPH is then Parquet with the "
            "columns source and target, LOGITS Parquet, and OUT a new directory."
        ),
    ] = None
    hops: Annotated[
        int | None, Parameter(help="Layers of the model, if it does not declare them.")
    ] = None
    directed: Annotated[Flag, Parameter(help="The edges in Parquet are ordered pairs.")] = False
    sample: Annotated[int, Parameter(help="Nodes to run the model on.")] = 2_000
    scheduler: Scheduler = None


def recalibrate_stored(
    graph: str,
    stored: Stored,
    out: Path,
    *,
    card: Path,
    logits: Path | None,
    predict: str | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Recalibrate logits in files; print the answer and where the probabilities are."""
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import resolve
    from graphtemper.scale import connected, recalibrate

    if logits is None:
        raise MissingError("a graph in Parquet needs the logits of its nodes; give --logits.")
    source = SourceCard.load(card)
    model = None if predict is None else resolve(predict)
    try:
        with (
            connected(stored.scheduler) as engine,
            progress(as_json, one_bar=True) as show,
        ):
            result = recalibrate(
                str(logits),
                source,
                out,
                graph=graph,
                features=stored.features,
                model=model,
                hops=stored.hops,
                directed=stored.directed,
                sample=stored.sample,
                client=engine,
                seed=seed,
                progress=show,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the temporary folder next to {out} was removed: the same command starts "
            "over."
        ) from None
    if as_json:
        print_json(result.to_dict() | {"out": str(result.out)})
        return
    print_answer(result)
    print_line(f"Written: {result.out} ({result.num_nodes:,} nodes)")
