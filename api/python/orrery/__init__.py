"""Orrery: what a training step of a large language model takes, in time, memory and money.

>>> import orrery
>>> step = orrery.simulate("run.json", {"layout.tensor_parallel": 4})
>>> step.step_time, step.mfu, step.verdict

docs/library.md has more; keys of `to_dict()` are in docs/simulate-json.md and docs/search.md.
"""

from ._errors import Error, FileError, InvalidScenario, UsageError
from ._orrery import (
    Diagnostic,
    FoundLayout,
    Prediction,
    Scenario,
    SearchResult,
    StageMemory,
    library_folder,
    search,
    simulate,
    version,
)

__version__: str = version()
__all__ = [
    "Diagnostic",
    "Error",
    "FileError",
    "FoundLayout",
    "InvalidScenario",
    "Prediction",
    "Scenario",
    "SearchResult",
    "StageMemory",
    "UsageError",
    "library_folder",
    "search",
    "simulate",
    "version",
]
