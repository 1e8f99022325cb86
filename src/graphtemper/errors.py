"""The errors and warnings that graphtemper raises: one clear sentence and one code each.

Programs catch the classes, or compare codes, which `--json` prints too; docs/formats/errors.md
lists them. Messages are for people and may change at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Self, TypeVar


class GraphTemperError(Exception):
    """Anything the user can fix; its message says what was wrong, where, and what to do."""

    code = "error"

    def at(self, place: str) -> Self:
        """Return the same error with a message that begins with where it happened."""
        error = type(self)(f"{place}: {self}")
        error.code = self.code
        return error


class InputError(GraphTemperError, ValueError):
    """An argument outside the domain of the function that received it."""

    code = "input"


class FileError(GraphTemperError, OSError):
    """A file that is missing, damaged, or not in the documented format."""

    code = "file"


class VersionError(FileError):
    """A file that another version of graphtemper wrote."""

    code = "version"


class NotIdentifiableError(GraphTemperError, ValueError):
    """The data do not determine the requested quantity, so no number is given."""

    code = "not-identifiable"


class ModelError(GraphTemperError, RuntimeError):
    """The user's model raised an error; the message repeats it and it is the cause of this one."""

    code = "model"


class ClusterError(GraphTemperError, RuntimeError):
    """A cluster that cannot be reached, or that has lost the workers it needs."""

    code = "cluster"


class MissingExtraError(GraphTemperError, ImportError):
    """An optional dependency is not installed; the message names the extra and the pip command."""

    code = "missing-extra"


_Error = TypeVar("_Error", bound=GraphTemperError)


@dataclass(frozen=True)
class Kind(Generic[_Error]):
    """What makes errors of a class with a code of their own: ``raise errors.too_few(text)``.

    Examples
    --------
    >>> error = too_few("2 nodes are needed.")
    >>> type(error).__name__, error.code
    ('InputError', 'too-few')
    """

    owner: type[_Error]
    code: str

    def __call__(self, text: str) -> _Error:
        """Return an error with this message."""
        error = self.owner(text)
        error.code = self.code
        return error


range = Kind(InputError, "range")
"""A number, a level or a size that the function does not allow."""
not_finite = Kind(InputError, "not-finite")
"""An array or a number with NaN or an infinity."""
wrong_type = Kind(InputError, "wrong-type")
"""An argument of another type, or an array of other numbers, than documented."""
shape = Kind(InputError, "shape")
"""An array whose shape is wrong or does not fit the other arguments."""
choice = Kind(InputError, "choice")
"""A name that is not one of those listed in the message."""
empty = Kind(InputError, "empty")
"""An argument without entries, or a graph without what is needed."""
repeated = Kind(InputError, "repeated")
"""A node or a name that occurs twice."""
missing = Kind(InputError, "missing")
"""An argument that this call needs and that has no default."""
conflict = Kind(InputError, "conflict")
"""Arguments, options or fields that contradict each other."""
not_fitted = Kind(InputError, "not-fitted")
"""An object that has to be fitted or trained first."""
no_labels = Kind(InputError, "no-labels")
"""Labels are missing where they are needed."""
too_few = Kind(InputError, "too-few")
"""Fewer nodes, classes, shifts or passes than the computation needs."""
foreign = Kind(InputError, "foreign")
"""Nodes that do not belong to the graph or the target type."""
other_model = Kind(InputError, "other-model")
"""A model, or its logits, that is not the one that was measured before."""
other_classes = Kind(InputError, "other-classes")
"""Another number of classes than before."""
other_features = Kind(InputError, "other-features")
"""Another feature space than before."""
other_types = Kind(InputError, "other-types")
"""Types or attributes of nodes and edges that are new or not supported."""
other_log = Kind(InputError, "other-log")
"""A log that belongs to another watch, or that has changed meanwhile."""
not_logits = Kind(InputError, "not-logits")
"""The output of a model is not one row of logits per node."""
changed_graph = Kind(InputError, "changed-graph")
"""A model that writes to the graph that it was given."""
predictor = Kind(InputError, "predictor")
"""A model that cannot be found, called, wrapped or sampled as it is."""
edges = Kind(InputError, "edges")
"""Edges with loops, repetitions or ends that are no nodes."""
content = Kind(InputError, "content")
"""The content of a file or record is not as documented."""
write = Kind(FileError, "write")
"""A file that cannot be written, as where the disk is full; none was damaged."""
no_file = Kind(FileError, "no-file")
"""A file or a folder that is not there."""
unreadable = Kind(FileError, "unreadable")
"""A path that is no regular file, or that the system does not let us read."""
oversize = Kind(FileError, "oversize")
"""A file that claims more than it may hold."""
damaged = Kind(FileError, "damaged")
"""A file whose content is damaged, truncated, or of another kind."""
table = Kind(FileError, "table")
"""A table with a line or a column that cannot be used."""
download = Kind(FileError, "download")
"""A download that failed, or that is not what was published."""


class GraphTemperWarning(UserWarning):
    """The answer is defined but deserves a second look."""


class IllConditionedWarning(GraphTemperWarning):
    """A small error in the inputs moves the answer by a large factor."""


def require(extra: str, what: str, *modules: str) -> Any:
    """Import modules and return the first of them; an empty ``extra`` installs none of them.

    Raises
    ------
    MissingExtraError
        If one is missing; the message says what needs them and which command installs them.

    Examples
    --------
    >>> require("pyg", "this example", "json").dumps([1])
    '[1]'
    """
    packages = list(dict.fromkeys(name.partition(".")[0] for name in modules))
    try:
        first, *_ = [import_module(name) for name in (*packages, *modules)][len(packages) :]
    except ImportError as error:
        command = f"'graphtemper[{extra}]'" if extra else " ".join(packages)
        text = f"{what} needs {' and '.join(packages)}; run pip install {command}."
        raise MissingExtraError(text) from error
    return first
