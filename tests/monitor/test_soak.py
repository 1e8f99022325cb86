"""A long watch with hostile snapshots: none stops it, and neither time nor memory grows."""

import os
import resource
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphtemper import csbm
from graphtemper.monitor import Log, find_snapshots, fingerprint, follow
from graphtemper.monitor.standing import read_log

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")


def graph(number):
    return csbm.sample(60, 4, 0.85, 1.5, num_features=4, seed=number)


def saved(path, **changes):
    """Write a valid archive with some arrays replaced."""
    graph(0).save(path)
    with np.load(path) as stored:
        arrays = dict(stored) | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def cut(path):
    graph(0).save(path)
    path.write_bytes(path.read_bytes()[:300])


def flipped(path):
    graph(0).save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :: 7] = b"\xff" * len(content[len(content) // 2 :: 7])
    path.write_bytes(content)


def odd_header(path):
    header = b"\x93NUMPY\x01\x00v\x00{'descr': ('<f8',), 'fortran_order': False, 'shape': (3, 3), }"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", header.ljust(127) + b"\n" + b"\0" * 72)


def bad_lzma(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("features.npy", b"\0" * 500)
    content = bytearray(path.read_bytes())
    content[60] ^= 255
    path.write_bytes(content)


HOSTILE = [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"not an archive"),
    cut,
    flipped,
    odd_header,
    bad_lzma,
    os.mkfifo,
    Path.mkdir,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/no/such/file"),
    lambda path: saved(path, features=np.full((60, 4), np.nan)),
    lambda path: saved(path, features=np.zeros((60, 7))),
    lambda path: saved(path, features=np.zeros((0, 4)), edges=np.zeros((0, 2), int), labels=None),
    lambda path: saved(path, edges=np.array([[0, 10**9]])),
    lambda path: saved(path, features=np.array([["text"]])),
    lambda path: saved(path, features=np.full((60, 4), 66.0)),  # the model fails on these
]


class Fragile:
    """A model that raises an error of its own on some graphs."""

    def __init__(self, model):
        self.model = model

    def __call__(self, target):
        if (np.asarray(target.features) == 66.0).all():
            raise KeyError("no such account")
        return self.model(target)


def fill(folder, first, last, every):
    """Write snapshots, one in ``every`` of them hostile; return the names of those."""
    odd = []
    for number in range(first, last):
        path = folder / f"day{number}.npz"
        if number % every == every // 2:
            HOSTILE[number // every % len(HOSTILE)](path)
            odd.append(path.name)
        else:
            graph(number).save(path)
    return odd


def soak(watched, folder, runs, size, every):
    """Follow ``runs`` times ``size`` new snapshots; return what was missed, times and memory."""
    model, card = watched
    fragile = Fragile(model)
    log = Log(folder / "soak.sqlite", fingerprint(card))
    days = folder / "days"
    days.mkdir()
    expected, missed, seconds, memory = [], [], [], []
    for run in range(runs):
        expected += fill(days, run * size, (run + 1) * size, every)
        start = time.process_time()
        list(follow(fragile, find_snapshots([days]), card, log, missed=missed.append))
        seconds.append(time.process_time() - start)
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return log, expected, missed, seconds, memory


def check(log, expected, missed, total, every):
    assert sorted({item.name for item in missed}) == sorted(expected)
    assert all(item.reason for item in missed)
    recorded = {item.name: item.reason for item in log.missed()}
    names = [entry.name for entry in log.entries()]
    assert len(names) + len(expected) == total
    # The last ones are recorded when a later snapshot has been measured.
    later = {name for name in expected if int(name[3:-4]) < int(names[-1][3:-4])}
    assert later == recorded.keys()
    assert names == sorted(names, key=lambda name: int(name[3:-4]))


def test_a_short_soak(watched, tmp_path):
    """Every kind of hostile snapshot, one in three, over two runs."""
    log, expected, missed, _, _ = soak(watched, tmp_path, runs=2, size=24, every=3)
    assert len(expected) == len(HOSTILE)
    check(log, expected, missed, 48, 3)


@pytest.mark.slow
def test_a_soak_of_5000_snapshots(watched, tmp_path, capsys):
    log, expected, missed, seconds, memory = soak(watched, tmp_path, runs=10, size=500, every=50)
    assert len(expected) == 100
    check(log, expected, missed, 5000, 50)
    start = time.process_time()
    standing = read_log(log, watched[1])
    reading = time.process_time() - start
    with capsys.disabled():
        print(f"\nCPU seconds per 500: {[round(value, 1) for value in seconds]}")
        print(f"peak memory, MB: {[round(value) for value in memory]}; reading {reading:.1f} s")
    assert seconds[-1] < 1.5 * seconds[1]  # per 500 snapshots, with ten times as many in the log
    assert memory[-1] - memory[1] < 50
    assert reading < 0.1 * sum(seconds)
    assert len(standing.answers) == 4900
