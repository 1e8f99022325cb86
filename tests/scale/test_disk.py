"""A disk that is full: one sentence, and nothing that looks complete."""

import os
import subprocess
import sys

import pytest

JOB = """
import resource, sys
from graphtemper import SourceCard
from graphtemper.errors import FileError
from graphtemper.models import load
from graphtemper.scale import ShardedGraph, recalibrate_shards
import pyarrow.parquet

model, card = load(sys.argv[1] + "/model.npz"), SourceCard.load(sys.argv[1] + "/card.json")
graph, most = ShardedGraph.open(sys.argv[2]), int(sys.argv[3])
# Files beyond this size fail as they do on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    recalibrate_shards(model, graph, card, sys.argv[1] + "/out")
except FileError as error:
    print(error)
"""


@pytest.mark.parametrize("most", [20_000, 150_000], ids=["at the start", "in the middle"])
def test_a_full_disk_leaves_nothing_behind(problem, tmp_path, most):
    problem.model.save(tmp_path / "model.npz")
    problem.card.save(tmp_path / "card.json")
    arguments = [tmp_path, problem.sharded.path, most]
    found = subprocess.run(
        [sys.executable, "-c", JOB, *map(str, arguments)], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("\n") == 1
    assert "cannot reserve" in found.stdout
    assert "free some disk" in found.stdout
    assert sorted(os.listdir(tmp_path)) == ["card.json", "model.npz"]
