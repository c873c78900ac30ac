"""One cycle: what a state leads to, as a pure function (scheduling/AL-1, AL-2)."""

from scheduling.cycle.run import run

__all__ = ["run"]
