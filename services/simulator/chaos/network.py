"""What goes wrong between the services and their world, and how often it did.

A step of the plan *arms* a fault for one service; it fires at the next request that it is meant for, or lapses. A
*cut* lies between a role, or one process alone, and a peer (the log, the API server) for a while, in one direction or
both: requests that do not arrive have no effect, answers that do not arrive leave an effect that nobody was told of.
What is *late* takes effect some steps after its sender has given up.

Every fault that fires is counted by its name: a run in which one of them never fired proves nothing about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from services.simulator.chaos.driving import Killed, turn
from services.simulator.chaos.lanes import hold

#: Steps after which an armed fault lapses, and after which a cut heals by itself.
LAPSE_STEPS: Final = 150

#: The points of a step at which a process can be killed or held: before and after each kind of request.
POINTS: Final = (
    "append of a term", "append of a tick", "append of a batch", "append of an outcome", "append of observations",
    "read of the log", "bind", "get", "list", "watch", "create", "patch", "delete",
)  # fmt: skip


@dataclass(slots=True)
class Arm:
    """A fault that waits for its request: what, whose, and at which requests (a prefix; empty: any it fits)."""

    fault: str
    who: str
    at: str
    until: int


@dataclass(slots=True)
class Late:
    """An effect that is still under way."""

    due: int
    name: str
    effect: Callable[[], None]


@dataclass
class Network:
    """All faults between the processes and their world. ``step`` is the number of the step that is played.

    ``lanes``: there are processes with several, so each request gives the others a turn.
    """

    step: int = 0
    calm: bool = False
    lanes: bool = False
    fired: Counter[str] = field(default_factory=Counter)
    armed: list[Arm] = field(default_factory=list)
    cuts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)

    def arm(self, fault: str, who: str, at: str = "") -> None:
        self.armed.append(Arm(fault, who, at, self.step + LAPSE_STEPS))

    def cut(self, who: str, peer: str, way: str, steps: int) -> None:
        """Nothing goes ``to`` or comes ``from`` the peer for so many steps. ``who`` is a role, or a process alone."""
        self.cuts[(who, peer, way)] = self.step + steps

    def is_cut(self, who: str, peer: str, way: str) -> bool:
        """Tell whether a request or an answer is lost, and count it if it is."""
        if not self.cuts:
            return False
        role = who.rstrip("0123456789")
        for name, whole in ((role, role), (who, f"one {role}")):
            if self.cuts.get((name, peer, way), -1) >= self.step:
                self.fired[f"partition: {whole} {way} {peer}"] += 1
                return True
        return False

    def take(self, who: str, at: str, faults: tuple[str, ...]) -> str:
        """Return the fault that is armed for this request, and count it; empty if there is none."""
        for arm in self.armed:
            if arm.fault in faults and arm.until >= self.step and who.startswith(arm.who) and at.startswith(arm.at):
                self.armed.remove(arm)
                self.fired[arm.fault] += 1
                return arm.fault
        return ""

    async def point(self, who: str, place: str) -> None:
        """A process comes to a place between two requests: it may be killed or held there."""
        if self.lanes:
            await turn()
        if not self.armed:
            return
        for arm in self.armed:
            if arm.fault in ("kill", "hold") and who.startswith(arm.who) and place.endswith(arm.at):
                self.armed.remove(arm)
                if arm.until < self.step:
                    return
                self.fired[f"{arm.fault} {place}"] += 1
                if arm.fault == "kill":
                    raise Killed(f"{who} {place}")
                await hold()
                return

    def later(self, steps: int, name: str, effect: Callable[[], None]) -> None:
        """Let something take effect so many steps from now."""
        self.late.append(Late(self.step + steps, name, effect))

    def lose(self, name: str) -> None:
        """What is under way by this name never arrives."""
        self.late = [item for item in self.late if item.name != name]

    def deliver(self, *, everything: bool = False) -> None:
        """Let what is due take effect."""
        if not self.late:
            return
        due = [item for item in self.late if everything or item.due <= self.step]
        self.late = [item for item in self.late if item not in due]
        for item in due:
            self.fired[item.name] += 1
            item.effect()

    def heal(self) -> None:
        """From now on nothing goes wrong; what was under way arrives."""
        self.calm = True
        self.armed.clear()
        self.cuts.clear()
        self.deliver(everything=True)
