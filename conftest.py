"""Tests and examples that need a missing extra are skipped, with the reason."""

import doctest

import pytest
from tests.helpers import skip_if_missing


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
def pytest_runtest_setup():
    return (yield from _skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from _skipping())


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
