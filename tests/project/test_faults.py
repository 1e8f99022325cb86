"""Commands that are killed, stopped, doubled or out of disk lose nothing.

A few of the trials of `scripts/faults.py` and `scripts/hardship.py`, which state the rules.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import needs

from graphtemper import csbm

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the trials need fork"),
]
SCRIPTS = Path(__file__).parents[2] / "scripts"
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def run(*command, **other):
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=ENVIRONMENT, **other
    )


@pytest.fixture(scope="module")
def outcomes():
    """How a few commands ended in each condition, by (job, condition)."""
    command = [sys.executable, SCRIPTS / "hardship.py"]
    if os.getuid() == 0 and shutil.which("setpriv"):
        # Root may write to read-only folders unless it drops that capability.
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    done = run(*command, "--jobs-of", "card", "recalibrate", "bench", "monitor")
    assert done.stdout, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(line["job"], line["condition"]): line for line in lines}


JOBS = ("card", "recalibrate", "bench", "monitor")


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_full_disk_is_one_sentence_and_nothing_is_lost(outcomes, job):
    line = outcomes[job, "full"]
    assert "fault" not in line, line
    assert len(line["output"]) == 2
    for sentence in line["output"]:
        assert any(word in sentence for word in ("No space left", "too large", "disk", "full"))


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_read_only_folder_is_one_sentence(outcomes, job):
    line = outcomes[job, "read-only"]
    assert "fault" not in line, line
    if "skipped" in line:
        pytest.skip(line["skipped"])
    assert "cannot" in line["output"][0]


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_two_at_once_are_both_right_or_one_is_refused(outcomes, job):
    line = outcomes[job, "twice"]
    assert "fault" not in line, line
    assert line["ends"] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("job", ["bench"])
def test_ctrl_c_says_how_to_resume(outcomes, job):
    line = outcomes[job, "stopped"]
    assert "fault" not in line, line
    if "skipped" in line:
        pytest.skip(line["skipped"])
    assert "are kept in" in line["output"][0]
    assert "run the same command again" in line["output"][0]


KILLED = (
    *("card", "recalibrate", "bench", "paper", "monitor"),
    *("scale", "fetch"),
)


@pytest.mark.parametrize(
    "jobs", [("card", "paper", "scale"), pytest.param(KILLED, marks=pytest.mark.slow)], ids=len
)
def test_killed_commands_end_with_the_same_bytes(jobs):
    needs("graphtemper_research", "matplotlib", "pyarrow", "vl_convert")
    """One trial per command."""
    options = ("--trials", len(jobs), "--jobs-of", *jobs)
    done = run(sys.executable, SCRIPTS / "faults.py", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    *each, total = done.stdout.splitlines()
    counts = {line.split(":")[0]: [int(word) for word in line.split()[1:4:2]] for line in each}
    assert sorted(counts) == sorted(jobs)
    assert all(trials == 1 and 1 <= kills <= 3 for trials, kills in counts.values()), counts
    assert total.endswith(" 0 faults")


SLOW = """
import time

calls = []

def predict(graph):
    calls.append(graph)
    if len(calls) > 40:  # beyond the checks and the passes over the source itself
        open("started", "w").close()
        time.sleep(60)
        open("ended", "w").close()
    return graph.features[:, 1::-1]  # right on four of five nodes
"""


def test_ctrl_c_does_not_wait_for_an_environment_to_end(tmp_path):
    csbm.sample(100, 4, 0.8, 1.0, num_features=4, seed=1).save(tmp_path / "source.npz")
    (tmp_path / "slow_model.py").write_text(SLOW)
    (tmp_path / "nodes.txt").write_text("\n".join(map(str, np.arange(100))))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "graphtemper", "card", "build", "source.npz"),
            *("--predict", "slow_model:predict", "--nodes", "nodes.txt"),
        ],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert not (tmp_path / "ended").exists()
    assert process.returncode == 130
    assert "run the same command again" in errors
