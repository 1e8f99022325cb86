"""`graphtemper scale`: graphs larger than memory or than one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from graphtemper.cli.answers import print_answer
from graphtemper.cli.options import CardPath, Json, PassSeed, Predict, Scheduler
from graphtemper.cli.output import print_json, print_line, print_rows, progress, working
from graphtemper.errors import ConflictError, MissingError

if TYPE_CHECKING:
    from graphtemper.scale import ShardedGraph, ShardedRecalibration

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
    """Write a graph as a directory of shards, which are memory-mapped and never loaded whole.

    Parameters
    ----------
    source
        The path of an .npz; or, with --features, a table of edges: text
        with two node numbers per line, or Parquet.
    out
        The new directory.
    features
        The features that belong to a table of edges: .npy (N, F), or Parquet. Row i belongs to
        node i.
    rows_per_shard
        Nodes per shard. Default: 250,000.
    """
    from graphtemper.graph.graph import Graph
    from graphtemper.scale import convert_graph, convert_tables
    from graphtemper.scale.storage.shard_writer import ROWS_PER_SHARD

    rows = ROWS_PER_SHARD if rows_per_shard is None else rows_per_shard
    suffix = Path(source).suffix
    if features is None and suffix in (".csv", ".tsv", ".txt", ".parquet"):
        raise MissingError(f"{source} is a table of edges; give its features with --features.")
    if features is not None and suffix == ".npz":
        raise ConflictError(f"{source} contains features; omit --features.")
    with _starting_over(out), working("converting", as_json):
        if features is None:
            graph = convert_graph(Graph.load(source), out, rows_per_shard=rows)
        else:
            graph = convert_tables(source, features, out, rows_per_shard=rows)
    _describe(graph, as_json)


@scale.command
def check(graph: Path, *, as_json: Json = False) -> None:
    """Read every shard of a graph and compare it with its stored checksum.

    Parameters
    ----------
    graph
        The directory.
    """
    from graphtemper.scale import ShardedGraph

    shards = ShardedGraph.open(graph)
    with working("reading", as_json):
        shards.verify()
    _describe(shards, as_json)
    if not as_json:
        print_line("All checksums match.")


@scale.command
def recalibrate(
    graph: Path,
    *,
    card: CardPath,
    predict: Predict,
    out: Path,
    scheduler: Scheduler = None,
    seed: PassSeed = 0,
    hops: int | None = None,
    logits: Path | None = None,
    as_json: Json = False,
) -> None:
    """Correct a model's probabilities on a sharded graph, within bounded memory.

    The model runs on the exact neighbourhoods of blocks of nodes, and its evidence is measured at a
    sample of them; a graph of up to 400,000 nodes is loaded. After an interruption nothing is kept.

    Parameters
    ----------
    graph
        The target: a directory written by `scale convert`.
    out
        A new directory: Parquet with one row per node, and _answer.json.
    hops
        Number of edges over which the model reads: its layers. Default: found.
    logits
        Logits of the model, if they were already made: Parquet, .npy, .npz, .csv or .safetensors,
        rows in the order of the nodes. The model then runs on a sample only.
    """
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import resolve
    from graphtemper.scale import ShardedGraph, connected, recalibrate_shards

    source, target, model = SourceCard.load(card), ShardedGraph.open(graph), resolve(predict)
    with (
        _starting_over(out),
        connected(scheduler) as engine,
        progress(as_json, one_bar=True) as show,
    ):
        result = recalibrate_shards(
            model,
            target,
            source,
            out,
            engine=engine,
            seed=seed,
            progress=show,
            hops=hops,
            logits=logits,
        )
    _print_answer(result, as_json)


@scale.command
def recalibrate_logits(
    logits: Path, *, card: CardPath, out: Path, scheduler: Scheduler = None, as_json: Json = False
) -> None:
    """Recalibrate logits that another job wrote, without graph and model.

    Parameters
    ----------
    logits
        A Parquet file or a directory of them: columns logit_0, logit_1, ... or one list column
        logits, and optionally node. Or one .npy, .npz, .csv or .safetensors.
    out
        A new directory: files of the same names with probabilities, and _answer.json.
    """
    from graphtemper import SourceCard
    from graphtemper.scale import connected
    from graphtemper.scale import recalibrate_logits as job

    source = SourceCard.load(card)
    with _starting_over(out), connected(scheduler) as engine, working("measuring", as_json):
        result = job(logits, source, out, engine=engine)
    _print_answer(result, as_json)


@contextmanager
def _starting_over(out: Path) -> Iterator[None]:
    """Say after an interruption that nothing was kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the temporary folders next to {out} were removed: the same command "
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
    print_line(f"Graph: {graph.path}")


def _print_answer(result: ShardedRecalibration, as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict() | {"out": str(result.out)})
        return
    print_answer(result)
    print_line(f"Written: {result.out} ({result.num_nodes:,} nodes)")
