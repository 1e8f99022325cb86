"""The child process for work that may crash."""

import os
from functools import partial

import pytest

from graphtemper.errors import FileError, InputError
from graphtemper.monitor.isolation import ChildProcess


def fail(kind, message):
    raise kind(message)


def test_results_errors_and_crashes():
    with ChildProcess() as child:
        process = child.run(os.getpid)
        assert process != os.getpid()
        assert child.run(os.getpid) == process
        with pytest.raises(InputError, match="odd"):
            child.run(partial(fail, InputError, "odd"))
        with pytest.raises(RuntimeError, match="KeyError: 'a'"):
            child.run(partial(fail, KeyError, "a"))
        assert child.run(os.getpid) == process
        with pytest.raises(FileError, match="crashed the process"):
            child.run(os.abort)
        assert child.run(os.getpid) != process
