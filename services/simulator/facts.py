"""What assertions may look at, at one moment of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scheduling.state.model import Model
from services.simulator.truth import Truth


@dataclass(frozen=True)
class ReplayOutcome:
    """What the last ``replay`` step found."""

    decisions_equal: bool
    state_equal: bool
    commands_sent: int


@dataclass
class Facts:
    """The cluster's truth, the state that its log folds to, and what the run remembers.

    ``refusals`` are the texts of refusals by reference, while the last ``apply`` of the object was refused.
    ``possible`` are the references that documents hold or controllers make from them, each with the reference of the
    object in the document. ``breaches`` are what invariants had to say so far, by their name.
    """

    truth: Truth
    state: Callable[[], Model]
    possible: Mapping[str, str]
    refusals: dict[str, str] = field(default_factory=dict)
    replay: ReplayOutcome | None = None
    breaches: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The state that the log folds to now."""
        return self.state()

    def known(self, reference: str) -> bool:
        """Tell whether a document holds this object, or a controller made it or makes it from a document."""
        return reference in self.possible or reference in self.truth.made

    def refused_pod(self, name: str) -> bool:
        """Tell whether the API refused this pod, or the object that it would have been made from."""
        reference = f"Pod/{name}"
        return reference in self.refusals or self.possible.get(reference) in self.refusals
