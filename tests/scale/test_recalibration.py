"""A run that was killed resumes from its finished stages, to the same bytes."""

import os
import re
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from graphtemper._core.files import atomic_write_in_place
from graphtemper.errors import ClusterError, FileError, WriteError
from graphtemper.scale import Serial, convert_graph, recalibrate_shards, recalibration
from graphtemper.scale.evidence.measure import STAGES
from graphtemper.scale.recalibration import linear_numbers, run_identity

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked to be killed")


class Counting(Serial):
    """Counts task lists, and calls a function before the last task of one of them."""

    def __init__(self, at=0, act=lambda: None):
        self.count, self.at, self.act = 0, at, act

    def map(self, function, items):
        self.count += 1
        if self.count != self.at:
            return super().map(function, items)
        results = super().map(function, items[:-1])
        self.act()
        return results + super().map(function, items[-1:])


def run(problem, out, engine, **other):
    return recalibrate_shards(
        problem.model, problem.sharded, problem.card, out, engine=engine, **other
    )


def killed(problem, out, at, **other):
    """Run in a fork that kills itself before the last task of list number ``at``."""
    process = os.fork()
    if not process:
        run(problem, out, Counting(at, lambda: os.kill(os.getpid(), signal.SIGKILL)), **other)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(process, 0)[1])


@pytest.fixture(scope="module")
def lists(problem, tmp_path_factory):
    """The number of task lists of an undisturbed run."""
    engine = Counting()
    run(problem, tmp_path_factory.mktemp("whole") / "out", engine)
    return engine.count


SLOW = [pytest.param(share, marks=pytest.mark.slow) for share in (0.01, 0.3, 0.7, 0.85)]


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0, *SLOW])
def test_a_killed_run_resumes_to_the_same_bytes(problem, serial, lists, tmp_path, share):
    at = max(round(share * lists), 1)
    killed(problem, tmp_path / "out", at)
    assert [path.name for path in tmp_path.iterdir()] == [".out.graphtemper"]
    engine = Counting()
    run(problem, tmp_path / "out", engine)
    assert serial.read(tmp_path / "out") == serial.written
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # The rest, at most one stage from its start (six lists), and the logit statistics.
    assert engine.count <= lists - at + 6 + 1
    if share == 1.0:
        assert engine.count == 3  # logit statistics, their range, and the probabilities


@pytest.mark.slow
def test_a_run_killed_repeatedly(problem, serial, tmp_path):
    for _ in range(3):
        killed(problem, tmp_path / "out", 9)
    run(problem, tmp_path / "out", Serial())
    assert serial.read(tmp_path / "out") == serial.written


def test_damaged_stages_are_repeated(problem, serial, lists, tmp_path):
    killed(problem, tmp_path / "out", lists)
    for path in (tmp_path / ".out.graphtemper").rglob("*.*"):
        os.truncate(path, path.stat().st_size // 2)
    engine = Counting()
    run(problem, tmp_path / "out", engine)
    assert engine.count == lists
    assert serial.read(tmp_path / "out") == serial.written


def test_columns_of_stages_with_another_byte_are_repeated(problem, serial, lists, tmp_path):
    killed(problem, tmp_path / "out", lists)
    columns = list((tmp_path / ".out.graphtemper").glob("stages-*/*.npy"))
    assert columns
    for path in columns:
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
    run(problem, tmp_path / "out", Serial())
    assert serial.read(tmp_path / "out") == serial.written


def test_shards_that_changed_in_place_are_not_mixed(problem, lists, tmp_path):
    """Sizes, headers and the manifest stay the same; only a feature is another one."""
    folder = tmp_path / "graph"
    sharded = convert_graph(problem.sharded.to_graph(), folder, rows_per_shard=400)
    changed = SimpleNamespace(model=problem.model, card=problem.card, sharded=sharded)
    killed(changed, tmp_path / "out", lists // 2)
    path = folder / "shard-00000" / "features.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x80  # the sign of the last feature
    path.write_bytes(content)
    resumed, fresh = Counting(), Counting()
    run(changed, tmp_path / "out", resumed)
    run(changed, tmp_path / "fresh", fresh)
    assert resumed.count == fresh.count
    with pytest.raises(FileError, match=r"features\.npy has changed since it was written"):
        sharded.verify()


def test_another_workspace(problem, serial, lists, tmp_path):
    workspace, engine = tmp_path / "workspace", Counting()
    killed(problem, tmp_path / "out", lists, workspace=workspace)
    run(problem, tmp_path / "out", engine, workspace=workspace)
    assert engine.count == 3
    assert serial.read(tmp_path / "out") == serial.written
    assert not list(workspace.iterdir())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_stages_of_other_inputs_are_removed(problem, lists, tmp_path, elsewhere):
    options = {"workspace": tmp_path / "workspace"} if elsewhere else {}
    killed(problem, tmp_path / "out", lists // 2, seed=7, **options)
    home = tmp_path / "workspace" if elsewhere else tmp_path / ".out.graphtemper"
    stale = [path.name for path in home.iterdir() if path.is_dir()]
    killed(problem, tmp_path / "out", 1, **options)
    assert not {path.name for path in home.iterdir()} & {n for n in stale if "draft" not in n}
    engine = Counting()
    run(problem, tmp_path / "out", engine, **options)
    assert engine.count == lists


def test_every_input_is_part_of_the_identity(problem, tmp_path):
    model, graph, card = problem.model, problem.sharded, problem.card
    linear = linear_numbers(model.fast_passes())
    averaging = type(model)(hops=2, operator="mean")
    averaging.weights_, averaging.intercept_ = model.weights_, model.intercept_
    changed = type(model)(hops=2)
    changed.weights_, changed.intercept_ = model.weights_ + 1e-9, model.intercept_
    cut = convert_graph(problem.target, tmp_path / "g", rows_per_shard=600)
    names = {
        run_identity(linear, graph, card, 0),
        run_identity(linear, graph, card, 1),
        run_identity(linear_numbers(averaging.fast_passes()), graph, card, 0),
        run_identity(linear_numbers(changed.fast_passes()), graph, card, 0),
        run_identity(linear, cut, card, 0),
        run_identity(linear, graph, replace(card, probe=replace(card.probe, passes=3)), 0),
    }
    assert len(names) == 6
    assert run_identity(linear, graph, card, 0) in names


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
        with pytest.raises((WriteError, MemoryError)) as caught:
            run(problem, tmp_path / "out", Serial())
    stages = next((tmp_path / ".out.graphtemper").glob("stages-*"))
    message = rf".*(No space left|memory); .* are kept in {stages}, and the same run .*\."
    assert re.fullmatch(message, str(caught.value))
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
    messages = []

    def second():
        with pytest.raises(FileError, match=r"another process is writing .*out; wait for it") as e:
            run(problem, tmp_path / "out", Serial())
        messages.append(str(e.value))

    run(problem, tmp_path / "out", Counting(5, second))
    assert messages
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_killed_after_the_last_step(problem, tmp_path):
    """The result exists next to its working directory: refused, and the latter is cleared."""
    (tmp_path / "out").mkdir()
    (tmp_path / ".out.graphtemper" / "stages-x").mkdir(parents=True)
    with pytest.raises(FileError, match="exists already"):
        run(problem, tmp_path / "out", Serial())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "after",
    [
        "the same",
        "another workspace",
        pytest.param("no workspace", marks=pytest.mark.slow),
        pytest.param("a conversion", marks=pytest.mark.slow),
    ],
)
def test_a_workspace_is_cleared_by_the_next_process(problem, lists, tmp_path, after):
    killed(problem, tmp_path / "out", lists // 2, workspace=tmp_path / "workspace")
    assert len(list((tmp_path / "workspace").iterdir())) == 1
    if after == "the same":  # killed between the rename and the cleaning
        (tmp_path / "out").mkdir()
        with pytest.raises(FileError, match="exists already"):
            run(problem, tmp_path / "out", Serial(), workspace=tmp_path / "workspace")
    elif after == "a conversion":
        convert_graph(problem.target, tmp_path / "out")
    else:
        other = {"workspace": tmp_path / "other"} if after == "another workspace" else {}
        run(problem, tmp_path / "out", Serial(), **other)
    assert not list((tmp_path / "workspace").iterdir())
    assert not list(tmp_path.glob("other/*"))
    assert not list(tmp_path.glob(".out*"))


def test_progress_names_what_is_done_and_only_grows(problem, tmp_path):
    seen = []
    recalibrate_shards(
        problem.model,
        problem.sharded,
        problem.card,
        tmp_path / "out",
        progress=lambda *state: seen.append(state),
    )
    names, done, totals = zip(*seen, strict=True)
    assert names == (*STAGES, "finished")
    assert list(done) == sorted(set(done))
    assert (done[0], done[-1], set(totals)) == (0, 100, {100})
