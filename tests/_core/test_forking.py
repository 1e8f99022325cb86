"""A child that is forked while other threads work answers as the parent does."""

import os
import subprocess
import sys

import pytest

# A thread recalibrates again and again while the main one forks; a child that waits for a lock
# which nobody holds is ended by its alarm.
SCRIPT = """
import os, signal, sys, threading
from threadpoolctl import threadpool_info
from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN

def threads():
    return [item["num_threads"] for item in threadpool_info()]

g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
model = SIGN(hops=1).fit(g, range(300))
few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
card = SourceCard.build(model, g, range(300, 600), compositions=0, shifts=few)
expected, free, over = recalibrate(model, g, card).temperature, threads(), threading.Event()

def work():
    while not over.is_set():
        recalibrate(model, g, card)

worker = threading.Thread(target=work)
worker.start()
bad = 0
for _ in range(FORKS):
    over.wait(0.013)
    child = os.fork()
    if not child:
        signal.alarm(20)
        same = recalibrate(model, g, card).temperature == expected
        os._exit(0 if same and threads() == free else 1)
    bad += os.waitpid(child, 0)[1] != 0
over.set()
worker.join()
sys.exit(bad)
"""


@pytest.mark.cpu(10)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_children_do_not_wait_for_threads_they_do_not_have():
    script = SCRIPT.replace("FORKS", "6")
    ended = subprocess.run([sys.executable, "-c", script], timeout=300, check=False)
    assert ended.returncode == 0
