"""Commands that are killed, stopped, doubled or out of disk lose nothing.

A few of the trials of `scripts/faults.py`, which states the rules.
"""

import json
import os
import re
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
    """Return a function: how commands ended in some conditions, by (job, condition)."""
    needs("graphtemper_research", "matplotlib", "pyarrow", "vl_convert")

    def outcomes_of(jobs, *conditions):
        command = [sys.executable, SCRIPTS / "faults.py", "--trials", "1"]
        if os.getuid() == 0 and shutil.which("setpriv"):
            # Root may write to read-only folders unless it drops that capability.
            command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
        done = run(*command, "--jobs-of", *jobs, "--conditions", *conditions)
        assert done.stdout, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line for line in lines if "fault" in line] == []
        return {(line["job"], line["condition"]): line for line in lines}

    return outcomes_of


def test_killed_commands_end_with_the_same_bytes(outcomes):
    found = outcomes(["card", "paper", "scale"], "killed")
    assert all(1 <= line["kills"] <= 3 for line in found.values())


@pytest.mark.slow
def test_obstructed_commands_say_so_in_one_sentence_and_lose_nothing(outcomes):
    jobs = ["card", "recalibrate", "bench", "monitor"]
    found = outcomes(jobs, "killed", "full", "read-only", "twice", "stopped")
    for job in jobs:
        full = found[job, "full"]["output"]
        assert all(re.search("No space left|too large|disk|full", line) for line in full)
        assert "cannot" in found[job, "read-only"].get("output", ["it cannot"])[0]
        assert found[job, "twice"]["ends"] == [0, 0]
    output = found["bench", "stopped"].get("output", ["are kept in"])
    assert "are kept in" in output[0]


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
