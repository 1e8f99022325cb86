"""Attributes that are computed when they are first read, without a lock."""

from __future__ import annotations

import functools
from typing import Any, TypeVar, overload

Value = TypeVar("Value", covariant=True)


class cached_property(functools.cached_property[Value]):  # noqa: N801 - as the one it replaces
    """`functools.cached_property` without the lock that it has in Python 3.11.

    A fork copies locks as they are, but only the thread that forks: one that another thread holds
    stays locked in the child for ever. Two threads may compute a value at once; both get the first.

    Examples
    --------
    >>> class Circle:
    ...     @cached_property
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.0
    >>> circle = Circle()
    >>> circle.area + circle.area
    computed
    6.0
    """

    @overload
    def __get__(
        self, instance: None, owner: type[Any] | None = None
    ) -> functools.cached_property[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Value: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        """Return the value, computed if it is not in the instance yet."""
        if instance is None:
            return self
        known = instance.__dict__
        if self.attrname not in known:
            known.setdefault(self.attrname, self.func(instance))
        return known[self.attrname]
