"""Constructor arguments as parameters, in the protocol of scikit-learn's estimators.

`HasParameters` does what ``sklearn.base.BaseEstimator`` does for ``get_params``, ``set_params`` and
``sklearn.base.clone``, without importing scikit-learn, which takes longer than this package.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from graphtemper import errors


class HasParameters:
    """A class whose constructor stores each argument as the attribute of the same name.

    What is learned later is stored in attributes that end in an underscore.

    Examples
    --------
    >>> class Ridge(HasParameters):
    ...     def __init__(self, penalty=1.0):
    ...         self.penalty = penalty
    >>> Ridge().set_params(penalty=3.0)
    Ridge(penalty=3.0)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name; scikit-learn passes ``deep``."""
        return {name: getattr(self, name) for name in _argument_names(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments; whatever was fitted before is discarded."""
        own = self.get_params()
        for name in params.keys() - own.keys():
            raise errors.choice(f"{type(self).__name__} has no parameter {name!r}.")
        # A bad value is refused by the constructor before anything has changed.
        fresh = type(self)(**own | params)
        vars(self).clear()
        vars(self).update(vars(fresh))
        return self

    def __repr__(self) -> str:
        arguments = (f"{key}={value!r}" for key, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({', '.join(arguments)})"


def _argument_names(owner: type) -> list[str]:
    # A class without a constructor inherits object's, whose signature would be (*args, **kwargs).
    constructor = inspect.getattr_static(owner, "__init__")
    if constructor is object.__init__:
        return []
    return list(inspect.signature(constructor).parameters)[1:]
