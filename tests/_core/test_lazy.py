"""Attributes that are computed once."""

import threading
from dataclasses import dataclass

from graphtemper._core.lazy import cached_property


@dataclass(frozen=True)
class Square:
    side: float

    @cached_property
    def area(self):
        """The side times itself."""
        started.wait(5)
        return [self.side**2]


started = threading.Barrier(2)


def test_threads_that_compute_at_once_do_not_wait_and_get_the_same_object():
    square, found = Square(3.0), []
    threads = [threading.Thread(target=lambda: found.append(square.area)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == [9.0]
    assert found[0] is found[1] is square.area
    assert Square.area.__doc__ == "The side times itself."
