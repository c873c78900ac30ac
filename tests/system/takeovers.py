"""How long nobody led after a kill: what of it the group needed to notice, and what its members needed after that.

Both ends are seen from outside. That a member is gone the broker's coordinator says in its own log; that another one
leads is its ``Opened`` record, at the moment at which the test has read it from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

#: So long before and after a part was away (broker, API server, database) a takeover is not one by itself.
APART_S: Final = 10.0


@dataclass(frozen=True)
class Lead:
    """A process that leads from a time on; ``ready_s`` is when it had started and could have led."""

    since_s: float
    ready_s: float


@dataclass(frozen=True)
class Takeover:
    """One change of leaders: seconds from the kill until the group noticed, and from then until another one led.

    ``waited``: the other one stood ready when the leader died. Else it had to be started first.
    """

    noticed_s: float
    led_s: float
    waited: bool

    @property
    def whole_s(self) -> float:
        return self.noticed_s + self.led_s


def takeovers(
    deaths: Sequence[float],
    noticed: Sequence[float],
    leads: Sequence[Lead],
    disturbed: Sequence[tuple[float, float]],
) -> Iterator[Takeover]:
    """Yield the takeovers of a role that had nothing else for a neighbour. All times are of one clock, in order.

    Left out is a death that another one of its role followed before anybody led, or during which a part was away.
    """
    for died, next_death in zip(deaths, [*deaths[1:], float("inf")], strict=True):
        lead = next((lead for lead in leads if lead.since_s > died), None)
        if lead is None or lead.since_s > next_death:
            continue
        gone = next((at for at in noticed if died < at <= lead.since_s), None)
        apart = all(lead.since_s < begin - APART_S or died > end + APART_S for begin, end in disturbed)
        if gone is not None and apart:
            yield Takeover(gone - died, lead.since_s - gone, lead.ready_s < died)


def spread(seconds: Iterable[float]) -> str:
    """Return median, nine tenths and the longest for people."""
    found = sorted(seconds)
    if not found:
        return "none"
    middle, most = found[len(found) // 2], found[len(found) * 9 // 10]
    return f"{middle:.1f} s (median), {most:.1f} s (p90), {found[-1]:.1f} s (longest)"
