"""Run a module in evaluation mode: no gradients, no caches, no randomness."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper.errors import InputError
from graphtemper.pyg.signature import ADVICE


@contextlib.contextmanager
def frozen(module: torch.nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, without gradients or caches, and restore it afterwards.

    Examples
    --------
    >>> layer = torch.nn.Dropout()
    >>> with frozen(layer):
    ...     print(layer.training)
    False
    >>> layer.training
    True
    """
    parts = list(module.modules())
    training = [(part, part.training) for part in parts]
    caches = [
        (part, key, value)
        for part in parts
        if isinstance(vars(part).get("cached"), bool)
        for key, value in vars(part).items()
        if key == "cached" or key.startswith("_cached_")
    ]
    try:
        if any(flag for _, flag in training):
            module.eval()
        for part, key, _ in caches:
            setattr(part, key, False if key == "cached" else None)
        with torch.no_grad():
            yield
    finally:
        for part, flag in training:
            if part.training != flag:  # a module takes long to set an attribute
                part.training = flag
        for part, key, value in caches:
            setattr(part, key, value)


def home(module: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device and the floating type of the module's weights."""
    tensors = [*module.parameters(), *module.buffers()]
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        listed = ", ".join(sorted(str(device) for device in devices))
        raise InputError(f"the module's weights are on several devices ({listed}); {ADVICE}.")
    types = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return next(iter(devices), torch.device("cpu")), types[0] if types else torch.float32


def check_weights(module: torch.nn.Module) -> None:
    """Refuse weights that are NaN or have no values, by name."""
    named = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in named:
        # Lazy weights have no values before the first call, which must not set them here.
        if torch.nn.parameter.is_lazy(tensor):
            raise InputError(f"the weight {name!r} has no values yet; train the module first.")
        if tensor.is_meta:
            raise InputError(f"the weight {name!r} is on the device 'meta'; load its values first.")
        if tensor.is_floating_point() and tensor.isnan().any():
            raise InputError(f"the weight {name!r} holds NaN; load or train the module again.")


def repeatable(
    run: Callable[[], NDArray[np.float64]], device: torch.device, name: str
) -> NDArray[np.float64]:
    """Return what ``run`` returns, or refuse it where it changes from call to call.

    A module whose dropout ignores evaluation mode answers differently every time. Only a module
    that draws random numbers is run twice to find out; torch's own random state is left as it was.

    Examples
    --------
    >>> repeatable(lambda: torch.rand(3).numpy(), torch.device("cpu"), "Net")
    Traceback (most recent call last):
    graphtemper.errors.InputError: Net answers differently each time; write ...
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        before = _random_states(devices)
        output = run()
        is_random = not all(map(torch.equal, before, _random_states(devices)))
        if is_random and not np.array_equal(output, run(), equal_nan=True):
            raise InputError(
                f"{name} answers differently each time; write F.dropout(x, training=self.training)"
                ", and leave out whatever else is drawn at random in evaluation mode."
            )
    return output


def _random_states(devices: list[torch.device]) -> list[torch.Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]
