"""Attributes that are computed when they are first read, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value", covariant=True)


class cached_property(Generic[Value]):  # noqa: N801 - as the one it stands for
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

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function, self.name = function, function.__name__
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> cached_property[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Value: ...
    def __get__(self, instance: object | None, owner: type[Any]) -> cached_property[Value] | Value:
        """Return the value, computed if it is not in the instance yet."""
        if instance is None:
            return self
        known: dict[str, Value] = instance.__dict__
        if self.name not in known:
            known.setdefault(self.name, self.function(instance))
        return known[self.name]
