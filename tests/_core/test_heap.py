"""Memory that is reused while a model runs many times."""

import os
import subprocess
import sys

import pytest

from graphtemper._core import heap

resource = pytest.importorskip("resource")
needs_glibc = pytest.mark.skipif(heap._glibc() is None, reason="another C library, or settings")

_FAULTS = """
import resource
from graphtemper._core.heap import reused_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        len(b"x" * 40_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
with reused_memory():
    faults()  # the first array is new
    with reused_memory(), reused_memory(False):
        pass
    inside = faults()
after = faults()
with reused_memory(False):
    unwanted = faults()
print(before, inside, after, unwanted)
"""


def run(**environment):
    # Dask sets how memory is allocated in the process that starts its workers.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    found = subprocess.run(
        [sys.executable, "-c", _FAULTS],
        capture_output=True,
        text=True,
        check=True,
        env=plain | environment,
    )
    return [int(word) for word in found.stdout.split()]


@needs_glibc
def test_large_arrays_use_the_same_pages_within_the_block_and_new_ones_after_it():
    before, inside, after, unwanted = run()
    assert min(before, after, unwanted) > 100
    assert inside < 0.1 * min(before, after, unwanted)


@needs_glibc
def test_settings_of_the_environment_are_left_alone():
    before, inside, after, _ = run(MALLOC_TRIM_THRESHOLD_="0")
    assert min(before, inside, after) > 100
