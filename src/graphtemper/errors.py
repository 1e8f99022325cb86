"""The errors and warnings that graphtemper raises: one small family, one clear sentence each."""

from __future__ import annotations


class GraphTemperError(Exception):
    """Anything the user can fix; its message says what was wrong, where, and what to do."""


class InputError(GraphTemperError, ValueError):
    """An argument outside the domain of the function that received it."""


class FileError(GraphTemperError, OSError):
    """A file that is missing, damaged, or not in the documented format."""


class WriteError(FileError):
    """A file that cannot be written, as where the disk is full; what was read is not to blame."""


class NotIdentifiableError(GraphTemperError, ValueError):
    """The data do not determine the requested quantity, so no number is given."""


class ModelError(GraphTemperError, RuntimeError):
    """The user's model raised an error; the message repeats it and it is the cause of this one."""


class ClusterError(GraphTemperError, RuntimeError):
    """A cluster that cannot be reached, or that has lost the workers it needs."""


class MissingExtraError(GraphTemperError, ImportError):
    """An optional dependency is not installed; the message names the extra and the pip command."""


class GraphTemperWarning(UserWarning):
    """The answer is defined but deserves a second look."""


class IllConditionedWarning(GraphTemperWarning):
    """A small error in the inputs moves the answer by a large factor."""
