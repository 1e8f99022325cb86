"""A full disk gives one sentence, leaves no result that looks complete, and loses no stage."""

import os
import subprocess
import sys

import pytest

from graphtemper.scale import recalibrate_shards

JOB = """
import resource, sys
from graphtemper import SourceCard
from graphtemper.errors import FileError
from graphtemper.models import load
from graphtemper.scale import ShardedGraph, recalibrate_shards
import pyarrow.parquet

model, card = load(sys.argv[1] + "/model.npz"), SourceCard.load(sys.argv[1] + "/card.json")
graph, limit = ShardedGraph.open(sys.argv[2]), int(sys.argv[3])
# Files beyond this size fail as they do on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    recalibrate_shards(model, graph, card, sys.argv[1] + "/out")
except FileError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [10_000, 20_000, 150_000], ids=["at once", "early", "late"])
def test_a_full_disk_keeps_finished_stages(problem, serial, tmp_path, limit):
    problem.model.save(tmp_path / "model.npz")
    problem.card.save(tmp_path / "card.json")
    arguments = [tmp_path, problem.sharded.path, limit]
    result = subprocess.run(
        [sys.executable, "-c", JOB, *map(str, arguments)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    assert "cannot reserve" in result.stdout
    assert "free disk space" in result.stdout
    stages = {path.stem for path in tmp_path.glob(".out.graphtemper/stages-*/*.stage")}
    assert ("finished stages are kept in" in result.stdout) == bool(stages)
    # The first three stages write 8, 48 and 20 bytes per node.
    assert stages >= {10_000: set(), 20_000: {"scale"}, 150_000: {"scale", "terms"}}[limit]
    assert not list(tmp_path.rglob("scratch-*")) + list(tmp_path.rglob("draft-*"))
    assert sorted(set(os.listdir(tmp_path)) - {".out.graphtemper"}) == ["card.json", "model.npz"]
    assert bool(stages) == (tmp_path / ".out.graphtemper").exists()
    # With enough space the same run succeeds.
    recalibrate_shards(problem.model, problem.sharded, problem.card, tmp_path / "out")
    assert serial.read(tmp_path / "out") == serial.written
    assert sorted(os.listdir(tmp_path)) == ["card.json", "model.npz", "out"]
