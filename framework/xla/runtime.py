"""JAX as it is used here: found and set up once, when a device is first asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from framework.errors import NotSupportedError
from framework.extras import install_command

PLATFORMS = {"xla-cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
_EXTRAS = {"xla-cpu": "xla", "gpu": "cuda", "tpu": "xla"}
_OLDEST = (0, 10, 1)
_BROKEN_ON_GPUS = ("0.10.2", "0.11.0")  # float32 scatter-add in a loop of compare and swap: jax-ml/jax#38806


@cache
def jax() -> Any:
    """The module, with 64-bit types on.

    Raises:
        NotSupportedError: it is not installed, or too old; the message has the command.
    """
    try:
        import jax as module
    except ImportError as e:
        raise NotSupportedError(f"device: JAX is not installed ({e}); run: {install_command('xla')}") from None
    version = tuple(int(part) for part in module.__version__.split(".")[:3] if part.isdigit())
    if version < _OLDEST:
        raise NotSupportedError(
            f"device: JAX {module.__version__} is too old, {'.'.join(map(str, _OLDEST))} is needed; run: "
            f"{install_command('xla')} --upgrade"
        )
    module.config.update("jax_enable_x64", True)  # int64 and float64 are types of the core
    return module


def find_device(name: str) -> Any:
    """The first device of a kind: `xla-cpu`, `gpu` or `tpu`.

    Raises:
        NotSupportedError: this machine has none, or JAX cannot reach it; the message says what to do.
    """
    module = jax()
    try:
        device = module.local_devices(backend=PLATFORMS[name])[0]
    except RuntimeError as e:
        first_line = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise NotSupportedError(
            f"device: there is no {name} that JAX {module.__version__} can use ({first_line}); look whether the driver "
            f"lists it, and run: {install_command(_EXTRAS[name])}"
        ) from None
    if name == "gpu" and module.__version__ in _BROKEN_ON_GPUS:
        raise NotSupportedError(
            f"device: JAX {module.__version__} adds gradients of embeddings hundreds of times too slowly on GPUs; "
            f"run: {install_command('cuda')}"
        )
    return device
