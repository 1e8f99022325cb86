"""Rules for every test: a missing extra skips it, and its processor time is limited.

A test may use LIMIT seconds of processor time in its own body, children included; fixtures are not
counted, as the first test that needs one would pay for all. Above that there is a warning, and
above twice that it fails, since shared machines inflate processor time. `@pytest.mark.cpu(10)` sets
another limit, a page of the documentation, which is one test, has PAGE_LIMIT, and tests marked
`slow` or `nightly` have none.
"""

import doctest
import os
import time
import warnings

import pytest
from tests.helpers import skip_if_missing

LIMIT, PAGE_LIMIT = 2.0, 6.0


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from _skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before, limit = _processor_time(), _limit(item)
    result = yield from _skipping()
    spent = _processor_time() - before
    message = f"{spent:.1f} s of processor time, of {limit:g} s allowed; make it cheaper or mark it"
    if spent > 2 * limit:
        pytest.fail(message, pytrace=False)
    if spent > limit:
        warnings.warn(pytest.PytestWarning(f"{item.nodeid}: {message}"), stacklevel=1)
    return result


def _processor_time():
    """Return the seconds of this process and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


def _limit(item):
    if any(item.get_closest_marker(name) for name in ("slow", "nightly")):
        return float("inf")
    marker = item.get_closest_marker("cpu")
    if marker:
        return marker.args[0]
    return PAGE_LIMIT if item.path.suffix == ".md" else LIMIT


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
