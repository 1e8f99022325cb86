from dataclasses import replace
from types import SimpleNamespace

import pytest

from graphtemper import SourceCard, csbm, shifts
from graphtemper.models import SIGN
from graphtemper.scale import convert_graph, recalibrate_shards


def sample(num_nodes, homophily, seed):
    return csbm.sample(num_nodes, 8, homophily, snr=1.0, num_classes=4, num_features=12, seed=seed)


@pytest.fixture(scope="session")
def problem(tmp_path_factory):
    """A model, its card, and a shifted target in memory and in three shards."""
    source = sample(1500, 0.7, 1)
    model = SIGN(hops=2).fit(source, range(700))
    card = SourceCard.build(model, source, range(700, 1500), compositions=0)
    # Two passes of each kind instead of six, to save time; every stage still runs.
    card = replace(card, probe=replace(card.probe, splits=2))
    target = shifts.noise(0.5)(sample(2000, 0.6, 2), 3).replace(name="target")
    folder = tmp_path_factory.mktemp("shards") / "target"
    sharded = convert_graph(target, folder, rows_per_shard=700)
    return SimpleNamespace(model=model, card=card, target=target, sharded=sharded)


@pytest.fixture(scope="session")
def serial(problem, tmp_path_factory):
    """The answer of one process, the bytes it wrote, and a function that reads such bytes."""
    out = tmp_path_factory.mktemp("serial") / "answer"
    answer = recalibrate_shards(problem.model, problem.sharded, problem.card, out)
    return SimpleNamespace(answer=answer, written=written(out), read=written)


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
