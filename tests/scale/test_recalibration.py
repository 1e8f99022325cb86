"""A run that was killed goes on from its finished stages, to the same bytes."""

import os
import re
import signal
from dataclasses import replace

import pytest

from graphtemper._core.files import atomic_write_in_place
from graphtemper.errors import ClusterError, FileError, WriteError
from graphtemper.scale import Serial, convert_graph, recalibrate_shards, recalibration
from graphtemper.scale.recalibration import identity
from graphtemper.scale.storage import output_directory as drafts
from graphtemper.scale.storage.workspace import workspace

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked to be killed")


class Counting(Serial):
    """Counts lists of tasks, and does something before the last task of one of them."""

    def __init__(self, at=0, act=lambda: None):
        self.count, self.at, self.act = 0, at, act

    def map(self, function, items):
        self.count += 1
        if self.count != self.at:
            return super().map(function, items)
        found = super().map(function, items[:-1])
        self.act()
        return found + super().map(function, items[-1:])


def run(problem, out, engine, **other):
    return recalibrate_shards(
        problem.model, problem.sharded, problem.card, out, engine=engine, **other
    )


def killed(problem, out, at, **other):
    """Run in a fork that kills itself before the last task of its list number ``at``."""
    process = os.fork()
    if not process:
        run(problem, out, Counting(at, lambda: os.kill(os.getpid(), signal.SIGKILL)), **other)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(process, 0)[1])


@pytest.fixture(scope="module")
def lists(problem, tmp_path_factory):
    """How many lists of tasks an undisturbed run has."""
    engine = Counting()
    run(problem, tmp_path_factory.mktemp("whole") / "out", engine)
    return engine.count


SLOW = [pytest.param(share, marks=pytest.mark.slow) for share in (0.01, 0.3, 0.7, 0.85)]


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0, *SLOW])
def test_a_killed_run_goes_on_to_the_same_bytes(problem, serial, lists, tmp_path, share):
    at = max(round(share * lists), 1)
    killed(problem, tmp_path / "out", at)
    assert [path.name for path in tmp_path.iterdir()] == [".out.graphtemper"]
    engine = Counting()
    run(problem, tmp_path / "out", engine)
    assert serial.read(tmp_path / "out") == serial.written
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # The rest, at most one stage from its start (six lists), and the statistics of the logits.
    assert engine.count <= lists - at + 6 + 1
    if share == 1.0:
        assert engine.count == 3  # statistics of the logits, their ends, and the parts


@pytest.mark.slow
def test_killed_again_and_again(problem, serial, tmp_path):
    for _ in range(3):
        killed(problem, tmp_path / "out", 9)
    run(problem, tmp_path / "out", Serial())
    assert serial.read(tmp_path / "out") == serial.written


def test_stages_that_were_damaged_are_done_again(problem, serial, lists, tmp_path):
    killed(problem, tmp_path / "out", lists)
    for path in (tmp_path / ".out.graphtemper").rglob("*.*"):
        os.truncate(path, path.stat().st_size // 2)
    engine = Counting()
    run(problem, tmp_path / "out", engine)
    assert engine.count == lists
    assert serial.read(tmp_path / "out") == serial.written


def test_a_workspace_elsewhere(problem, serial, lists, tmp_path):
    room, engine = tmp_path / "room", Counting()
    killed(problem, tmp_path / "out", lists, room=room)
    run(problem, tmp_path / "out", engine, room=room)
    assert engine.count == 3
    assert serial.read(tmp_path / "out") == serial.written
    assert not list(room.iterdir())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_stages_of_other_inputs_are_removed(problem, lists, tmp_path, elsewhere):
    told = {"room": tmp_path / "room"} if elsewhere else {}
    killed(problem, tmp_path / "out", lists // 2, seed=7, **told)
    home = tmp_path / "room" if elsewhere else tmp_path / ".out.graphtemper"
    stale = [path.name for path in home.iterdir() if path.is_dir()]
    killed(problem, tmp_path / "out", 1, **told)
    assert not {path.name for path in home.iterdir()} & {n for n in stale if "draft" not in n}
    engine = Counting()
    run(problem, tmp_path / "out", engine, **told)
    assert engine.count == lists


def test_every_input_is_a_part_of_the_name(problem, tmp_path):
    model, graph, card = problem.model, problem.sharded, problem.card
    linear = model.fast_passes()
    other = type(model)(hops=2, operator="mean")
    other.weights_, other.intercept_ = model.weights_, model.intercept_
    moved = type(model)(hops=2)
    moved.weights_, moved.intercept_ = model.weights_ + 1e-9, model.intercept_
    cut = convert_graph(problem.target, tmp_path / "g", rows_per_shard=600)
    names = {
        identity(linear, graph, card, 0),
        identity(linear, graph, card, 1),
        identity(other.fast_passes(), graph, card, 0),
        identity(moved.fast_passes(), graph, card, 0),
        identity(linear, cut, card, 0),
        identity(linear, graph, replace(card, probe=replace(card.probe, passes=3)), 0),
    }
    assert len(names) == 6
    assert identity(linear, graph, card, 0) in names


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ClusterError("no worker")])
def test_an_interruption_and_a_lost_cluster_keep_stages(problem, lists, tmp_path, error):
    def stop():
        raise error

    with pytest.raises(type(error)):
        run(problem, tmp_path / "out", Counting(lists, stop))
    assert not list(tmp_path.glob(".out.graphtemper/*/scratch-*"))
    engine = Counting()
    run(problem, tmp_path / "out", engine)
    assert engine.count == 3


@pytest.mark.parametrize("error", [OSError(28, "No space left"), MemoryError()])
def test_a_full_disk_or_memory_keeps_stages(problem, serial, tmp_path, monkeypatch, error):
    def full(*arguments):
        with atomic_write_in_place(tmp_path / "anything"):
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(recalibration, "write_answer", full)
        with pytest.raises((WriteError, MemoryError)) as told:
            run(problem, tmp_path / "out", Serial())
    kept = next((tmp_path / ".out.graphtemper").glob("stages-*"))
    wanted = rf".*(No space left|memory); .* are kept in {kept}, and the same run .*\."
    assert re.fullmatch(wanted, str(told.value))
    engine = Counting()
    run(problem, tmp_path / "out", engine)
    assert engine.count == 3
    assert serial.read(tmp_path / "out") == serial.written
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_before_the_first_stage_leaves_nothing(problem, tmp_path):
    def full():
        raise WriteError("cannot write x: No space left.")

    with pytest.raises(WriteError, match=r"No space left\.$"):
        run(problem, tmp_path / "out", Counting(1, full))
    assert not list(tmp_path.iterdir())


def test_a_second_process_is_refused(problem, tmp_path):
    told = []

    def second():
        with pytest.raises(FileError, match=r"another process is writing .*out; wait for it") as e:
            run(problem, tmp_path / "out", Serial())
        told.append(str(e.value))

    run(problem, tmp_path / "out", Counting(5, second))
    assert told
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_killed_after_the_last_step(problem, tmp_path):
    """The result is there and what it was made of too: refused, and cleared."""
    (tmp_path / "out").mkdir()
    (tmp_path / ".out.graphtemper" / "stages-x").mkdir(parents=True)
    with pytest.raises(FileError, match="already there"):
        run(problem, tmp_path / "out", Serial())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "after",
    [
        "the same",
        "another room",
        pytest.param("no room", marks=pytest.mark.slow),
        pytest.param("a conversion", marks=pytest.mark.slow),
    ],
)
def test_a_room_is_cleared_by_whoever_comes_next(problem, lists, tmp_path, after):
    killed(problem, tmp_path / "out", lists // 2, room=tmp_path / "room")
    assert len(list((tmp_path / "room").iterdir())) == 1
    if after == "the same":  # killed between the rename and the cleaning
        (tmp_path / "out").mkdir()
        with pytest.raises(FileError, match="already there"):
            run(problem, tmp_path / "out", Serial(), room=tmp_path / "room")
    elif after == "a conversion":
        convert_graph(problem.target, tmp_path / "out")
    else:
        other = {"room": tmp_path / "other"} if after == "another room" else {}
        run(problem, tmp_path / "out", Serial(), **other)
    assert not list((tmp_path / "room").iterdir())
    assert not list(tmp_path.glob("other/*"))
    assert not list(tmp_path.glob(".out*"))


def test_what_a_killed_conversion_left_is_removed(problem, tmp_path):
    left = tmp_path / ".g.graphtemper" / "draft-x"
    left.mkdir(parents=True)
    (left / "indptr.npy").write_bytes(b"half")
    convert_graph(problem.target, tmp_path / "g")
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


def test_half_a_file_of_a_dead_worker_is_not_in_the_result(tmp_path):
    with drafts.atomic_directory(tmp_path / "out") as folder:
        (folder / "part.parquet").write_bytes(b"whole")
        (folder / ".part.parquet.x1").write_bytes(b"ha")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part.parquet"]


def test_a_stage_without_its_columns_is_not_finished(tmp_path):
    calls = []
    with workspace(tmp_path / "room", 4) as room:
        columns = room.lasting("x", 2, "float32")

        def work():
            calls.append(1)
            columns.write(0, [[1.0, 2.0]] * 4)
            return 0.1 + 0.2

        assert room.stage("x", work, columns) == 0.1 + 0.2
        assert room.stage("x", work, columns) == 0.1 + 0.2
        assert len(calls) == 1
        columns.remove()
        room.stage("x", work, columns)
        assert len(calls) == 2
        assert columns.open().sum() == 12.0
