"""The errors and warnings that graphtemper raises: one clear sentence and one code each.

Programs catch the classes, or compare codes, which `--json` prints too; docs/formats/errors.md
lists them. Messages are for people and may change at any time.
"""

from __future__ import annotations

import re
from typing import ClassVar


class GraphTemperError(Exception):
    """Anything the user can fix; its message says what was wrong, where, and what to do."""

    code: ClassVar[str] = "error"

    def __init_subclass__(cls) -> None:
        """Set the code: the name of the class in lower case, as in ``not-finite``."""
        words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))
        cls.code = "-".join(words).lower()


class InputError(GraphTemperError, ValueError):
    """An argument outside the domain of the function that received it."""


class RangeError(InputError):
    """A number, a level or a size that the function does not allow."""


class NotFiniteError(InputError):
    """An array or a number with NaN or an infinity."""


class WrongTypeError(InputError):
    """An argument of another type, or an array of other numbers, than documented."""


class ShapeError(InputError):
    """An array whose shape is wrong or does not fit the other arguments."""


class ChoiceError(InputError):
    """A name that is not one of those listed in the message."""


class EmptyError(InputError):
    """An argument without entries, or a graph without what is needed."""


class RepeatedError(InputError):
    """A node or a name that occurs twice."""


class MissingError(InputError):
    """An argument that this call needs and that has no default."""


class ConflictError(InputError):
    """Arguments, options or fields that contradict each other."""


class NotFittedError(InputError):
    """An object that has to be fitted or trained first."""


class NoLabelsError(InputError):
    """Labels are missing where they are needed."""


class TooFewError(InputError):
    """Fewer nodes, classes, shifts or passes than the computation needs."""


class ForeignError(InputError):
    """Nodes that do not belong to the graph, the plan or the target type."""


class OtherModelError(InputError):
    """A model, or its logits, that is not the one that was measured before."""


class OtherClassesError(InputError):
    """Another number of classes than before."""


class OtherFeaturesError(InputError):
    """Another feature space than before."""


class OtherTypesError(InputError):
    """Types or attributes of nodes and edges that were not there before or are not supported."""


class OtherLogError(InputError):
    """A log that belongs to another watch, or that has changed meanwhile."""


class NotLogitsError(InputError):
    """The output of a model is not one row of logits per node."""


class PredictorError(InputError):
    """A model that cannot be found, called, wrapped or sampled as it is."""


class EdgesError(InputError):
    """Edges with loops, repetitions or ends that are no nodes."""


class ContentError(InputError):
    """The content of a file or record is not as documented."""


class FileError(GraphTemperError, OSError):
    """A file that is missing, damaged, or not in the documented format."""


class WriteError(FileError):
    """A file that cannot be written, as where the disk is full; what was read is not to blame."""


class NoFileError(FileError):
    """A file or a folder that is not there."""


class UnreadableError(FileError):
    """A path that is no regular file, or that the system does not let us read."""


class OversizeError(FileError):
    """A file that claims more than it may hold."""


class DamagedError(FileError):
    """A file whose content is not as documented: damaged, truncated, or of another kind."""


class TableError(FileError):
    """A table with a line or a column that cannot be used."""


class VersionError(FileError):
    """A file that another version of graphtemper wrote."""


class DownloadError(FileError):
    """A download that failed, or that is not what was published."""


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
