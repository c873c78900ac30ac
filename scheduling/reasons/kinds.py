"""The kinds of reasons, one frozen class each. The cause follows from the kind; the words are those of ``texts``.

This package knows nothing of the cycle, so that whoever finds a reason can say so, from a card up to a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from scheduling.reasons.causes import Cause

# --- cards and nodes ---


@dataclass(frozen=True, slots=True)
class CardReason:
    """A card that was passed over, and its audit word (devices/F-2)."""

    gpu: str
    word: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A node does not take a task: the word of POD-4, and what users are told besides (devices/F-6).

    ``resolvable`` is false where room that is made on the node cannot help (devices/C-31 code 3). ``words`` are
    (card UUID, audit word) of the container that failed, where it is the cards.
    """

    reason: str
    detail: str = ""
    resolvable: bool = True
    words: tuple[tuple[str, str], ...] = ()

    @property
    def cards(self) -> tuple[CardReason, ...]:
        return tuple(CardReason(gpu, word) for gpu, word in self.words)


@dataclass(frozen=True, slots=True)
class NoNode:
    """No node takes a task (MSG-5): how many said why, how many said each word, what the first ones say besides.

    ``answers`` are those of every node, by name; they are kept only where somebody asks for an explanation.
    """

    cause: ClassVar[Cause] = Cause.NODES
    nodes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    details: tuple[tuple[str, str], ...] = ()
    answers: Mapping[str, Refused] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoleSkipped:
    """A task was not tried, as its role found no node before in this job and cycle (AL-7)."""

    cause: ClassVar[Cause] = Cause.NODES
    task: str
    role: str


# --- queues and the cluster ---


@dataclass(frozen=True, slots=True)
class RootTakesNone:
    """The root queue takes no jobs (Q-4b)."""

    cause: ClassVar[Cause] = Cause.CLOSED


@dataclass(frozen=True, slots=True)
class HasChildren:
    """Only leaf queues take jobs (Q-4b)."""

    cause: ClassVar[Cause] = Cause.CLOSED
    queue: str


@dataclass(frozen=True, slots=True)
class NotOpen:
    """The queue is not open (Q-4a)."""

    cause: ClassVar[Cause] = Cause.CLOSED
    queue: str
    state: str


@dataclass(frozen=True, slots=True)
class QueueShort:
    """The queue may not hold so much more of these resources (Q-17, Q-17a, Q-18, Q-24, E-7)."""

    cause: ClassVar[Cause] = Cause.QUEUE
    queue: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OverCommitted:
    """The child queues of a queue are promised more of these resources than it has (CFG-13, capacity).

    ``promise`` is the word for what they are: guaranteed or deserved.
    """

    cause: ClassVar[Cause] = Cause.QUEUE
    queue: str
    promise: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overused:
    """The cluster may not be promised so much more of these resources (CFG-13, overcommit, E-8)."""

    cause: ClassVar[Cause] = Cause.CLUSTER
    resources: tuple[str, ...]


QueueReason: TypeAlias = RootTakesNone | HasChildren | NotOpen | QueueShort | OverCommitted

# --- gangs ---


@dataclass(frozen=True, slots=True)
class TooFewOfRole:
    """A role has fewer tasks than its own minimum (PG-9)."""

    cause: ClassVar[Cause] = Cause.MEMBERS


@dataclass(frozen=True, slots=True)
class TooFewSubGroups:
    """A sub-group policy has fewer complete groups than it needs (PG-9)."""

    cause: ClassVar[Cause] = Cause.MEMBERS


@dataclass(frozen=True, slots=True)
class TooFewTasks:
    """A gang has fewer tasks than it needs (PG-9)."""

    cause: ClassVar[Cause] = Cause.MEMBERS
    valid: int
    minimum: int


Invalid: TypeAlias = TooFewOfRole | TooFewSubGroups | TooFewTasks


@dataclass(frozen=True, slots=True)
class ReservationReleased:
    """A gang was let in, had no task within this time, and has to wait for as long (PG-4a)."""

    cause: ClassVar[Cause] = Cause.RELEASED
    timeout: str


@dataclass(frozen=True, slots=True)
class GangDetail:
    """A gang's tasks, counted (M-2): why one of them waits that has no reason of its own.

    ``counts`` are by the word of the status, ``pending`` and ``schedulable`` as MSG-2 and MSG-7 say. ``origin`` is what
    stands against the gang first (MSG-4), ``origin_task`` the task that nodes refused. ``invalid`` tells that it was
    not tried, as it lacks tasks (PG-9).
    """

    ready: bool
    minimum: int
    counts: Mapping[str, int]
    pending: int
    schedulable: int
    origin: Reason | None = None
    origin_task: str = ""
    invalid: Invalid | None = None

    @property
    def cause(self) -> Cause:
        return Cause.MEMBERS if self.invalid else Cause.GANG


@dataclass(frozen=True, slots=True)
class FitsForGang:
    """A task had a place, but the rest of its gang had none (POD-1, first row)."""

    cause: ClassVar[Cause] = Cause.GANG
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class FitsOnceReleased:
    """A task has a place once somebody has left it (POD-1, second row)."""

    cause: ClassVar[Cause] = Cause.LEAVING
    pod: str
    node: str


# --- pods by themselves ---


@dataclass(frozen=True, slots=True)
class Gated:
    """A pod has scheduling gates: it is never placed, and nothing is said of it (AS-12)."""

    cause: ClassVar[Cause] = Cause.GATED


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """What a pod asks for can never be had, with the words of the device rules (devices/R-8, R-9a)."""

    cause: ClassVar[Cause] = Cause.REQUEST
    words: str


@dataclass(frozen=True, slots=True)
class GroupMissing:
    """A pod's PodGroup does not exist (PG-3b)."""

    cause: ClassVar[Cause] = Cause.MISSING
    group: str


@dataclass(frozen=True, slots=True)
class QueueMissing:
    """A PodGroup's Queue does not exist (PG-3a)."""

    cause: ClassVar[Cause] = Cause.MISSING
    group: str
    queue: str


@dataclass(frozen=True, slots=True)
class NoConfiguration:
    """There is no valid configuration, so nothing is decided (CFG-6a)."""

    cause: ClassVar[Cause] = Cause.CONFIGURATION
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A binding was refused (F-2)."""

    cause: ClassVar[Cause] = Cause.BINDING
    node: str
    error: str


@dataclass(frozen=True, slots=True)
class PreBindFailed:
    """What has to be there before a binding never came (F-3)."""

    cause: ClassVar[Cause] = Cause.BINDING
    pod: str
    error: str


BindReason: TypeAlias = BindFailed | PreBindFailed
PodOwnReason: TypeAlias = Gated | RequestRefused | GroupMissing | QueueMissing | NoConfiguration | BindReason

#: Why one task waits.
Reason: TypeAlias = (
    NoNode | RoleSkipped | QueueReason | Overused | ReservationReleased | GangDetail | FitsForGang | FitsOnceReleased
    | PodOwnReason
)  # fmt: skip
