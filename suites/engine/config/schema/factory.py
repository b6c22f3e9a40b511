"""Parts that code builds later: the file gives some arguments, code supplies the rest when it knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.config.schema.signatures import signature_of
from suites.engine.names import listing

T = TypeVar("T", covariant=True)  # it only makes them


@dataclass(frozen=True)
class OfRole:
    """In ``Annotated[Any, OfRole("loss")]``: the parameter is a slot of that role, whatever its type."""

    role: str


class Supplied:
    """In ``Annotated[Factory[Head], Supplied("anchors")]``: names that code supplies besides the role's."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Factory(Generic[T]):
    """A checked but unbuilt component. Calling it with what code supplies builds it, anew on each call.

    A constructor annotated ``neck: Factory[Neck]`` receives one and calls
    ``neck(in_channels=backbone.channels)``. Names that the component's signature does not take are left out:
    supplied arguments are an offer.

    Attributes:
        target: The class or function to be called.
    """

    def __init__(
        self,
        target: Callable[..., T],
        arguments: Callable[[], dict[str, Any]],
        offered: Iterable[str] | None = None,
        where: str = "",
        note: str = "",
    ) -> None:
        """Args: the component, the file's arguments, names code may supply (None: any), place and hint for errors."""
        self.target = target
        self._arguments = arguments
        self._offered = None if offered is None else tuple(offered)
        self._where, self._note = where, note

    @classmethod
    def of(cls, target: Callable[..., T], **arguments: Any) -> Factory[T]:
        """A factory made by code rather than by a file: ``Factory.of(YoloHead, num_classes=20)``."""
        return cls(target, lambda: dict(arguments), where=target.__name__)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the file, or code, gives; each call of it builds them afresh."""
        return self._arguments()

    def takes(self, name: str) -> bool:
        """Whether the component has an argument of this name."""
        return name in signature_of(self.target).parameters

    def __call__(self, **supplied: Any) -> T:
        """Build the component.

        Raises:
            ConfigError: A name that was not declared as supplied, or an argument is still missing.
        """
        unknown = [name for name in supplied if self._offered is not None and name not in self._offered]
        if unknown:
            raise ConfigError(
                f"{self._where}: '{unknown[0]}' was not declared as supplied by code (declared: "
                f"{listing(self._offered or ())}); add it to register_role(supplied=...) or to Supplied(...)"
            )
        accepted = {name: value for name, value in supplied.items() if self.takes(name)}
        return construct(self.target, self._arguments(), accepted, self._where, self._note)

    def __repr__(self) -> str:
        return f"Factory({self.target.__name__})"


def construct(
    target: Callable[..., T], arguments: dict[str, Any], supplied: dict[str, Any], where: str, note: str = ""
) -> T:
    """Call `target` with the file's and the code's arguments; a value it refuses is reported with its place.

    `note` is what a reader of such an error should know.

    Raises:
        ConfigError: An argument comes from both sides or from neither, or `target` refuses a value.
    """
    parameters = signature_of(target).parameters
    for name in supplied:
        if name in arguments:
            raise ConfigError(f"{where}: '{name}' is supplied by code, so it cannot be set here too; remove it")
        if name not in parameters:
            raise ConfigError(f"{where}: {target.__name__} takes no '{name}'. It takes: {listing(parameters)}")
    given = {**arguments, **supplied}
    missing = [p.name for p in parameters.values() if p.required and p.name not in given]
    if missing:
        raise ConfigError(f"{where}: {target.__name__} needs {listing(missing)}, which neither file nor code gives")
    try:
        return target(**given)
    except AttributeValueError as error:
        hint = f" ({note})" if note else ""
        raise ConfigError(f"{where}: {str(error).removeprefix(where.rpartition(' ')[2] + ': ')}{hint}") from error
    except (ConfigError, DataError) as error:
        if note and note not in str(error):
            raise type(error)(f"{error} ({where}: {note})") from error
        raise
