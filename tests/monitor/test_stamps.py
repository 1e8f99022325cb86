"""Files that are the same, and those that are not."""

import os

import pytest

from graphtemper.errors import FileError
from graphtemper.monitor import Log, find_snapshots, follow
from graphtemper.monitor import stamps as room
from graphtemper.monitor.stamps import digest, stamp
from graphtemper.monitor.watch import fingerprint


def rewritten(path):
    path.write_bytes(b"2")


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(b"2")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    os.replace(other, path)


def back_dated(path):
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(b"2")
    os.utime(path, ns=times)


@pytest.mark.parametrize("change", [rewritten, replaced, back_dated])
def test_a_stamp_tells_every_way_to_change_a_file(tmp_path, change):
    path = tmp_path / "x"
    path.write_bytes(b"1")
    before = stamp([path])
    assert stamp([path]) == before
    # Clocks of file systems tick every few milliseconds.
    while stamp([tmp_path]).newest <= before.newest:
        (tmp_path / "tick").touch()
        (tmp_path / "tick").unlink()
    change(path)
    assert stamp([path]) != before


def test_a_folder_is_its_files(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    a, b = tmp_path / "a", tmp_path / "b"
    assert len({digest([a]), digest([b]), digest([a, b]), digest([b, a])}) == 4
    assert stamp([a]) != stamp([a, b])


def test_files_that_are_gone(tmp_path):
    for look in (stamp, digest):
        with pytest.raises(FileError, match="cannot be read: No such file"):
            look([tmp_path / "no"])


@pytest.fixture
def hashed(monkeypatch):
    """The names of files that were read for their checksum."""
    names = []
    plain = room._digest

    def counted(path):
        names.append(path.name)
        return plain(path)

    monkeypatch.setattr(room, "_digest", counted)
    return names


@pytest.fixture
def watch(watched, day, tmp_path):
    (tmp_path / "days").mkdir()
    for number in (1, 2):
        day(number).save(tmp_path / "days" / f"day{number}.npz")
    model, card = watched

    def run():
        log = Log(tmp_path / "watch.sqlite", fingerprint(card))
        return [e.name for e in follow(model, card, find_snapshots([tmp_path / "days"]), log)]

    return run


def test_files_that_did_not_change_are_not_read_again(watch, tmp_path, hashed, monkeypatch):
    monkeypatch.setattr(room, "_GRAIN", 0)  # as if the files were older than two seconds
    watch()
    assert hashed == ["day1.npz", "day2.npz"]
    assert watch() == []
    assert len(hashed) == 2
    os.utime(tmp_path / "days" / "day1.npz")  # touched: read once more, then known again
    watch()
    watch()
    assert hashed[2:] == ["day1.npz"]


def test_files_that_are_too_young_are_read_again(watch, hashed):
    watch()
    watch()
    assert len(hashed) == 4


def test_a_changed_file_is_refused_whatever_its_times_say(watch, day, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_GRAIN", 0)
    watch()
    path = tmp_path / "days" / "day1.npz"
    seen = path.stat()
    spoilt = bytearray(path.read_bytes())
    spoilt[200] ^= 1
    path.write_bytes(spoilt)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (seen.st_size, seen.st_mtime_ns)
    with pytest.raises(ValueError, match=r"day1\.npz is in the log with another content"):
        watch()
