"""The pods of one VolcanoJob, counted with every change: a look at a job costs what changed, not what it has.

Terminating pods count as nothing else (scheduling/J-10 to J-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from events import names
from events.canonical import Json
from events.reading import deleting, integer, items, name_of, phase_of, status
from services.controller.objects import notes_of

_COUNTED = ("Pending", "Running", "Succeeded", "Failed")
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Counts:
    """How many of a job's pods are in which state; ``tasks`` by task and phase."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)

    def successes(self, task: str) -> int:
        return self.tasks.get(task, {}).get("Succeeded", 0)

    @property
    def alive(self) -> int:
        """Pods that have not ended."""
        return self.pending + self.running + self.terminating


def restarts_of(pod: Json) -> int:
    """How often the containers of a pod were started again."""
    keys = ("initContainerStatuses", "containerStatuses")
    return sum(integer(container.get("restartCount")) for key in keys for container in items(status(pod).get(key)))


class Roster:
    """The pods that a job controls, by name. ``changes`` grows whenever one comes or goes."""

    def __init__(self) -> None:
        self.changes = 0
        self._pods: dict[str, Json] = {}
        self._phases: dict[tuple[str, str], int] = {}  # by task and phase, without those that terminate
        self._restarts: dict[str, int] = {}  # of the pods of a task that wait or run
        self._terminating = 0
        self._complete: tuple[int, Json] | None = None

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, name: str) -> bool:
        return name in self._pods

    @property
    def pods(self) -> list[Json]:
        """All, by name."""
        return [self._pods[name] for name in sorted(self._pods)]

    def add(self, pod: Json) -> None:
        self.changes += 1
        self._pods[name_of(pod)] = pod
        self._tally(pod, 1)

    def remove(self, pod: Json) -> None:
        self.changes += 1
        del self._pods[name_of(pod)]
        self._tally(pod, -1)

    def replace(self, old: Json, new: Json) -> None:
        """Take another form of a pod; who is there stays the same."""
        self._tally(old, -1)
        self._pods[name_of(new)] = new
        self._tally(new, 1)

    def counts(self, killed: Sequence[Json] = ()) -> Counts:
        """Count by phase; those just ``killed`` are on their way out."""
        phases = dict(self._phases)
        for pod in killed:
            phases[_task(pod), phase_of(pod)] -= 1
        total = dict.fromkeys((*_COUNTED, "Unknown"), 0)
        tasks: dict[str, dict[str, int]] = {}
        for (task, phase), number in sorted(phases.items()):
            if number:
                total[phase if phase in _COUNTED else "Unknown"] += number
                tasks.setdefault(task, {})[phase] = number
        return Counts(
            pending=total["Pending"],
            running=total["Running"],
            succeeded=total["Succeeded"],
            failed=total["Failed"],
            unknown=total["Unknown"],
            terminating=self._terminating + len(killed),
            tasks=tasks,
        )

    def to_kill(self, *, retain: bool) -> Iterable[Json]:
        """The pods that a kill may delete: not those on their way out, nor with ``retain`` the ended ones (J-13)."""
        spared = _ENDED if retain else ()
        if not any(number for (_, phase), number in self._phases.items() if phase not in spared):
            return ()
        return (pod for pod in self.pods if not deleting(pod) and phase_of(pod) not in spared)

    def succeeded(self, task: str) -> int:
        return self._phases.get((task, "Succeeded"), 0)

    def restarts(self, task: str) -> int:
        """How often the containers of the task's waiting and running pods were started again."""
        return self._restarts.get(task, 0)

    def is_complete(self, wanted: Json) -> bool:
        """Whether ``set_complete`` was said for this spec, and nobody came or went since."""
        return self._complete is not None and self._complete == (self.changes, wanted)

    def set_complete(self, wanted: Json) -> None:
        self._complete = (self.changes, wanted)

    def _tally(self, pod: Json, by: int) -> None:
        if deleting(pod):
            self._terminating += by
            return
        task, phase = _task(pod), phase_of(pod)
        self._phases[task, phase] = self._phases.get((task, phase), 0) + by
        if phase in ("Pending", "Running") and (again := restarts_of(pod)):
            self._restarts[task] = self._restarts.get(task, 0) + by * again


def _task(pod: Json) -> str:
    return notes_of(pod).get(names.TASK_SPEC, "")
