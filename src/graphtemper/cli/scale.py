"""`graphtemper scale`: graphs larger than memory, and larger than one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from graphtemper.cli.output import (
    STYLES,
    Json,
    print_json,
    print_reasons,
    print_rows,
    progress,
    say,
    tell,
    working,
)
from graphtemper.errors import InputError

if TYPE_CHECKING:
    from graphtemper.scale import ShardedGraph, ShardedRecalibration

Scheduler = Annotated[
    str | None,
    Parameter(
        help="Address of a Dask scheduler, as in tcp://host:8786; this process unless given."
    ),
]

scale = App(
    name="scale", help="Graphs larger than memory or one machine: convert, check, recalibrate."
)


@scale.command
def convert(
    source: str,
    *,
    out: Path,
    features: Path | None = None,
    rows_per_shard: int | None = None,
    as_json: Json = False,
) -> None:
    """Write a graph as a directory of shards that are mapped into memory, never loaded whole.

    Parameters
    ----------
    source
        A name from `data list` or the path of an .npz; or, with --features, a table of edges: text
        with two node numbers a line, or Parquet.
    out
        The new directory.
    features
        A table of features that goes with a table of edges: .npy (N, F), or Parquet. Row i belongs
        to node i.
    rows_per_shard
        Nodes a shard; 250,000 unless given.
    as_json
        Print JSON for machines.
    """
    from graphtemper.cli.arguments import load_graph
    from graphtemper.scale import convert_graph, convert_tables
    from graphtemper.scale.storage.shard_writer import ROWS_PER_SHARD

    rows = ROWS_PER_SHARD if rows_per_shard is None else rows_per_shard
    suffix = Path(source).suffix
    if features is None and suffix in (".csv", ".tsv", ".txt", ".parquet"):
        raise InputError(f"{source} is a table of edges; name its features with --features.")
    if features is not None and suffix == ".npz":
        raise InputError(f"{source} brings its own features; leave --features out.")
    with _starting_over(out), working("converting", as_json):
        if features is None:
            made = convert_graph(load_graph(source), out, rows_per_shard=rows)
        else:
            made = convert_tables(source, features, out, rows_per_shard=rows)
    _describe(made, as_json)


@scale.command
def check(graph: Path, *, as_json: Json = False) -> None:
    """Read every shard of a graph and compare it with the checksums that were written with it.

    Parameters
    ----------
    graph
        The directory.
    as_json
        Print JSON for machines.
    """
    from graphtemper.scale import ShardedGraph

    found = ShardedGraph.open(graph)
    with working("reading", as_json):
        found.verify()
    _describe(found, as_json)
    if not as_json:
        say("Every file has the checksum that was written with it.")


@scale.command
def recalibrate(
    graph: Path,
    *,
    card: Path,
    predict: str,
    out: Path,
    scheduler: Scheduler = None,
    seed: int = 0,
    workspace: Path | None = None,
    as_json: Json = False,
) -> None:
    """Make a linear model's probabilities on a sharded graph honest, within bounded memory.

    After an interruption, a kill or a full disk, the same command goes on from the stages that were
    finished.

    Parameters
    ----------
    graph
        The target: a directory that `scale convert` made.
    card
        The model's source card.
    predict
        The model: a saved SIGN or SGC (.npz), or package.module:model.
    out
        A new directory: Parquet with one row a node, and _answer.json.
    seed
        Seed of the perturbed passes.
    workspace
        Directory for finished stages and intermediate columns, which every worker must see; beside
        OUT unless given.
    as_json
        Print JSON for machines.
    """
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import resolve
    from graphtemper.scale import ShardedGraph, connected, recalibrate_shards

    source, target, model = SourceCard.load(card), ShardedGraph.open(graph), resolve(predict)
    try:
        with connected(scheduler) as engine, progress(as_json) as show:
            found = recalibrate_shards(
                model,
                target,
                source,
                out,
                engine=engine,
                seed=seed,
                workspace=workspace,
                progress=show,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished stages are kept in {workspace or out.absolute().parent}: run "
            "the same command again to go on."
        ) from None
    _print_answer(found, source.probe.temperature, as_json)


@scale.command
def recalibrate_logits(
    logits: Path, *, card: Path, out: Path, scheduler: Scheduler = None, as_json: Json = False
) -> None:
    """Recalibrate logits that another job left as Parquet, without graph and model.

    Parameters
    ----------
    logits
        A Parquet file or a directory of them: columns logit_0, logit_1, ... or one list column
        logits, and node if nodes have names.
    card
        The model's source card.
    out
        A new directory: files of the same names with probabilities, and _answer.json.
    as_json
        Print JSON for machines.
    """
    from graphtemper import SourceCard
    from graphtemper.scale import connected
    from graphtemper.scale import recalibrate_logits as job

    source = SourceCard.load(card)
    with _starting_over(out), connected(scheduler) as engine, working("measuring", as_json):
        found = job(logits, source, out, engine=engine)
    _print_answer(found, source.probe.temperature, as_json)


@contextmanager
def _starting_over(out: Path) -> Iterator[None]:
    """Say after an interruption that nothing was kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the temporary folders beside {out} were removed: the same command "
            "starts over."
        ) from None


def _describe(graph: ShardedGraph, as_json: bool) -> None:
    facts = {
        "graph": str(graph.path),
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "feature columns": graph.num_features,
        "features": "sparse" if graph.sparse else "dense",
        "shards": len(graph.shards),
        "bytes": sum(size for shard in graph.shards for size, _ in shard.files.values()),
    }
    if as_json:
        print_json({name.replace(" ", "_"): value for name, value in facts.items()})
        return
    print_rows(
        {k: f"{v:,}" if isinstance(v, int) else str(v) for k, v in facts.items() if k != "graph"}
    )
    say(f"Graph: {graph.path}")


def _print_answer(found: ShardedRecalibration, source: float, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict() | {"out": str(found.out)})
        return
    accuracy, (before, after) = found.accuracy, found.mean_confidence
    tell(f"Verdict: {found.verdict}", STYLES[found.verdict])
    print_rows(
        {
            "Accuracy": f"{accuracy.value:.1%} (90 % interval {accuracy.low:.1%} to "
            f"{accuracy.high:.1%})",
            "Confidence": f"{before:.1%} at the source temperature, {after:.1%} now",
            "Temperature": f"{found.temperature:.3g} (source {source:.3g})",
        }
    )
    print_reasons(found.reasons)
    say(f"Written: {found.out} ({found.num_nodes} nodes)")
