"""What a plugin may answer, and the switch that each answer has (scheduling/CFG-2, section 1.3).

A plugin overrides the answers that it gives; an answer that is not overridden is never asked. ``Session`` combines
the answers of all tiers. Keys of an order are compared as they are: a plugin returns something comparable, smaller
first, of one type for all that it orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from scheduling import resources
from scheduling.config.model import PluginOption
from scheduling.nodes.view import NodeView
from scheduling.objects import Queue
from scheduling.reasons.kinds import Invalid, QueueReason, Refused
from scheduling.resources import PODS, Vector

if TYPE_CHECKING:
    from scheduling.cycle.job import Job, Task
    from scheduling.cycle.resting import Gate
    from scheduling.cycle.session import Session
    from scheduling.nodes.columns import Codes, Integers, NodeColumns, Where


class Vote(IntEnum):
    """An answer to "may this job be enqueued", "is this job pipelined"."""

    NO = -1
    ABSTAIN = 0
    YES = 1


#: The switch of each answer (CFG-2); None: it has none (CFG-13, job valid).
SWITCHES: Final[Mapping[str, str | None]] = {
    "queue_key": "enableQueueOrder",
    "job_key": "enableJobOrder",
    "task_key": "enableTaskOrder",
    "prepare": "enablePredicate",
    "check": "enablePredicate",
    "scores": "enableNodeOrder",
    "valid": None,
    "ready": "enableJobReady",
    "pipelined": "enableJobPipelined",
    "starving": "enableJobStarving",
    "enqueueable": "enableJobEnqueued",
    "enqueued": "enableJobEnqueued",
    "overused": "enabledOverused",
    "allocatable": "enabledAllocatable",
    "holds": "enabledAllocatable",
    "preemptive": "enablePreemptive",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "spares": "enablePreemptable",
    "keeps": "enableReclaimable",
    "victims": "enabledVictim",
    "allocated": None,
    "deallocated": None,
}


class Plugin:
    """Base of all plugins; its answers are never asked. One object lives for one cycle."""

    name = ""
    #: Whether ``check`` and ``scores`` of a plain pod follow from its class and the node alone (``cycle.classes``).
    by_class = True
    #: Whether its naming of victims counts down what is left, so that it must be asked last, in order (PG-11a).
    counts_down = False
    #: Whether its answers about nodes stay the same whatever time it is.
    timeless = True

    def __init__(self, session: Session, option: PluginOption) -> None:
        self.session = session
        self.option = option
        self.arguments: Mapping[str, Any] = option.arguments
        self.opened()

    def opened(self) -> None:
        """Read arguments and the snapshot: jobs, tasks and nodes are there, nothing was tried yet."""

    def queue_key(self, queue: Queue) -> Any:
        """Place of a queue in the order of queues."""
        return 0

    def job_key(self, job: Job) -> Any:
        """Place of a job in the order of jobs."""
        return 0

    def task_key(self, task: Task) -> Any:
        """Place of a task in its job."""
        return 0

    def prepare(self, task: Task) -> str:
        """Pre-predicate: why no node can do, empty if some may (AL-7)."""
        return ""

    def check(self, task: Task, view: NodeView) -> Refused | None:
        """Predicate: why this node does not take the task, None if it may (AL-19)."""
        return None

    def scores(self, task: Task, views: Sequence[NodeView]) -> Mapping[str, int]:
        """Score by node name, in thousandths (AL-23)."""
        return {}

    def check_at(self, task: Task, columns: NodeColumns, where: Where, codes: Codes) -> None:
        """As ``check``, for a plain pod and many nodes: note the code of the reason where none stands yet."""

    def scores_at(self, task: Task, columns: NodeColumns, where: Where) -> Integers | None:
        """As ``scores``, for a plain pod and many nodes; None if the columns cannot say."""
        return None

    def weights(self) -> Sequence[int]:
        """What its scores are multiplied with."""
        return ()

    def valid(self, job: Job) -> Invalid | None:
        """Why a job cannot be scheduled as it is (PG-9), None if it can."""
        return None

    def ready(self, job: Job) -> bool:
        """Whether what is placed of a job may be bound (PG-10)."""
        return True

    def pipelined(self, job: Job) -> Vote:
        """Whether what is placed and promised suffices (PG-11)."""
        return Vote.ABSTAIN

    def starving(self, job: Job) -> bool:
        """Whether a job may make room for itself (PG-11)."""
        return True

    def enqueueable(self, job: Job) -> Vote:
        """Whether a job may pass from Pending to Inqueue (PG-4). A no leaves why as the job's ``refusal``."""
        return Vote.ABSTAIN

    def enqueued(self, job: Job) -> None:
        """A job was admitted: what it reserves counts from now on (Q-18)."""

    def overused(self, queue: Queue) -> bool:
        """Whether a queue gets nothing more in this cycle (Q-16)."""
        return False

    def allocatable(self, task: Task) -> QueueReason | None:
        """Why the queue does not take one more task of this size (Q-17), None if it does."""
        return None

    def holds(self, task: Task, charge: Vector) -> QueueReason | None:
        """Why the queue does not take a task that would really hold this (Q-17a), None if it does."""
        return None

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Whether a queue may take room from others for a task (reclaim)."""
        return True

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Whom of the candidates the preemptor may evict (PG-11a)."""
        return []

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Whom of the candidates another queue's task may evict (PG-11a)."""
        return []

    def spares(self, preemptor: Task, candidate: Task) -> bool:
        """Whether a candidate may not be evicted by the preemptor, whatever a later tier says (PG-11b)."""
        return False

    def keeps(self, reclaimer: Task, candidate: Task) -> bool:
        """Whether a candidate may not be evicted by another queue's task, whatever a later tier says (PG-11b)."""
        return False

    def victims(self) -> list[Task]:
        """Tasks that must go whoever needs the room (tdm, rescheduling)."""
        return []

    # --- jobs that rest (cycle.resting) ---

    def blocked(self, queue: str) -> object:
        """Why nothing is scheduled in a queue, whatever has room; it changes with nothing that is tried."""
        return None

    def over(self, gate: Gate, asked: Vector, room: Callable[[str], int | Fraction]) -> list[str]:
        """Return the dimensions in which a request is more than there is room for (R-5): strict, without ``pods``.

        It is taken down up to which amounts there was room.
        """
        notes, found = self.session.notes, []
        for name, amount in asked.items():
            if amount <= 0 or name == PODS:
                continue
            fits = amount <= room(name)
            if not fits:
                found.append(name)
            if notes is not None:
                notes.note(gate, name, amount, fits)
        return resources.ordered(found) if len(found) > 1 else found

    def room(self, what: str, queue: str) -> Callable[[str], int | Fraction]:
        """How much room there is for one more of what it has noted (``Rest.note``), by the resource's name."""
        raise NotImplementedError

    def stamp(self, queue: str) -> object:
        """What all of its answers about a queue as a whole follow from; None if that was changed in this cycle."""
        return ()

    def until(self, job: Job) -> int | None:
        """When its answers about a job that does not change may change by time alone (Unix milliseconds)."""
        return None

    def allocated(self, task: Task) -> None:
        """A task was placed or promised: ``task.charge`` is what it holds."""

    def deallocated(self, task: Task) -> None:
        """A task lost its place: evicted, or a trial undone; ``task.charge`` is what it held."""
