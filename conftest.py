"""Rules for every test: a missing extra skips it, processor time is limited, long files come first.

A test may use LIMIT seconds of processor time in its own body, children included; fixtures are not
counted, as the first test that needs one would pay for all. Tests marked `slow` or `nightly` have
no limit, `@pytest.mark.cpu(10)` sets another one, and a page of the documentation, which is one
test, may use PAGE_LIMIT seconds. Shared machines inflate processor time, so a test fails only above
four times its limit, and there is a warning before.

`make durations` writes DURATIONS, the processor seconds of each file. Files that take long are
started first, so that both workers end together.
"""

import doctest
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
from tests.helpers import skip_if_missing

LIMIT, PAGE_LIMIT = 2.0, 6.0
ROOT = Path(__file__).parent
DURATIONS = ROOT / "tests" / "durations.json"


class GuardedModule(pytest.Module):
    """A file of tests, skipped if it imports a module that only an extra installs."""

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            skip_if_missing(error)
            raise


def pytest_pycollect_makemodule(module_path, parent):
    return GuardedModule.from_parent(parent, path=module_path)


def pytest_addoption(parser):
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name}")


def pytest_configure(config):
    # Workers report to the process that has started them, which writes.
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(items):
    known = json.loads(DURATIONS.read_text("utf-8"))
    items.sort(key=lambda item: -known.get(_file(item.nodeid), 0.0))


def _file(nodeid):
    return nodeid.partition("::")[0]


class Durations:
    """Writes the processor seconds of each file, fixtures included."""

    def __init__(self):
        self.seconds = Counter()

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            spent = sum(value for name, value in report.user_properties if name == "cpu")
            self.seconds[_file(report.nodeid)] += spent

    def pytest_sessionfinish(self):
        # Half a second is too little to matter for the order.
        long = {name: round(spent, 1) for name, spent in self.seconds.items() if spent >= 0.5}
        DURATIONS.write_text(json.dumps(long, indent=1, sort_keys=True) + "\n", "utf-8")


def _processor_time():
    """Return the seconds of this process and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from _measured(item, _skipping()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    return (yield from _measured(item, _plain()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = _processor_time()
    result = yield from _measured(item, _skipping())
    spent, limit = _processor_time() - before, _limit(item)
    message = f"{spent:.1f} s of processor time, of {limit:g} s allowed; make it cheaper or mark it"
    if spent > 4 * limit:
        pytest.fail(message, pytrace=False)
    if spent > limit:
        warnings.warn(pytest.PytestWarning(f"{item.nodeid}: {message}"), stacklevel=1)
    return result


def _limit(item):
    if any(item.get_closest_marker(name) for name in ("slow", "nightly")):
        return float("inf")
    marker = item.get_closest_marker("cpu")
    if marker:
        return marker.args[0]
    return PAGE_LIMIT if item.path.suffix == ".md" else LIMIT


def _measured(item, steps):
    before = _processor_time()
    try:
        return (yield from steps)
    finally:
        item.user_properties.append(("cpu", _processor_time() - before))


def _plain():
    return (yield)


def _skipping():
    """Skip a test or an example that fails because a module is missing."""
    try:
        return (yield)
    except ImportError as error:
        skip_if_missing(error)
        raise
    except doctest.UnexpectedException as failure:
        skip_if_missing(failure.exc_info[1])
        raise
