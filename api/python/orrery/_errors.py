"""What the library raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Sequence

if TYPE_CHECKING:
    from ._orrery import Diagnostic


class Error(Exception):
    """Anything that the library refuses or cannot do; `exit_code` is that of the command line."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message, exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidScenario(Error, ValueError):
    """A scenario with errors: all of them, each with its code, place, value and help."""

    def __init__(self, message: str, exit_code: int = 3, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message, exit_code)
        self.diagnostics: List[Diagnostic] = list(diagnostics)


class UsageError(Error, ValueError):
    """An argument that is none."""


class FileError(Error):
    """A file that cannot be read, or not be written."""


def error_of(message: str, exit_code: int) -> Error:
    """By the exit codes of the command line."""
    kinds = {2: UsageError, 5: FileError, 8: FileError}
    return kinds.get(exit_code, Error)(message, exit_code)
