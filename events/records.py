"""The record types: everything that may stand on the log (design section 3).

A record is one CloudEvent. Its body is one of the models below; the type name carries the version, and a reader turns
older versions into the newest before anyone else sees them (``events.upcasting``). All models are frozen, forbid
unknown fields, hold no floats, and give times as Unix milliseconds (``*_ms``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticSerializationError

from events import canonical
from events.canonical import Json

Role = Literal["watcher", "scheduler", "binder"]


class Body(BaseModel):
    """The body of a record. ``TYPE`` is the CloudEvents type, version included."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    TYPE: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the log.

    ``role``, ``term`` and ``number`` say who wrote it: ``number`` counts the records of that term from 0, so the three
    identify a record and a repetition is known as one. ``id`` is
    ``<cluster>/<incarnation>/<role initial><term>.<number>``. ``subject`` is ``Kind/namespace/name`` or empty.
    """

    id: str
    role: Role
    term: int
    number: int
    subject: str
    time_ms: int
    body: Body


# --- the log itself -------------------------------------------------------------------------------------------------


class Genesis(Body):
    """The first record of a log. The incarnation keeps ids unique when a topic is made anew."""

    TYPE: ClassVar[str] = "gpuledger.log.genesis.v1"
    cluster: str
    incarnation: str


class Opened(Body):
    """A writer takes over its role. It counts only if ``previous`` is the role's current term at that place."""

    TYPE: ClassVar[str] = "gpuledger.term.opened.v1"
    role: Role
    term: int
    previous: int
    writer: str
    reads: dict[str, int]
    writes: dict[str, int]
    config: Json
    mode: Literal["active", "shadow"] = "active"
    time_ms: int


class Ticked(Body):
    """Time moves on. Only the current scheduler's ticks count; a jump above a limit needs two."""

    TYPE: ClassVar[str] = "gpuledger.clock.ticked.v1"
    time_ms: int


# --- observations (watcher) -----------------------------------------------------------------------------------------


class Observed(Body):
    """An object as it is now: its projection (``events.projection``), never env or secrets.

    ``listed`` marks a record of a list (start of a term, or after a lost watch) that contradicts what was known when
    the list was asked for: it wins over tombstones, resource versions and reported Bindings (scheduling/F-4, F-4a,
    F-11a).
    """

    TYPE: ClassVar[str] = "gpuledger.observed.object.v1"
    api_version: str
    kind: str
    object: Json
    version: str = ""
    listed: bool = False


class Deleted(Body):
    """An object is gone. ``seen`` is false if nobody saw the deletion (it was missing from a list)."""

    TYPE: ClassVar[str] = "gpuledger.observed.deleted.v1"
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""
    seen: bool = True


class ListChunk(Body):
    """A part of a complete, consistent list: the uids that exist."""

    TYPE: ClassVar[str] = "gpuledger.listed.chunk.v1"
    api_version: str
    kind: str
    list_id: int
    uids: list[str]


class ListEnd(Body):
    """The end of a list: what is not in its chunks is deleted as of here, and a listed uid lives again."""

    TYPE: ClassVar[str] = "gpuledger.listed.end.v1"
    api_version: str
    kind: str
    list_id: int
    version: str
    count: int
    digest: str


# --- decisions (scheduler) ------------------------------------------------------------------------------------------


class Part(BaseModel):
    """A part of a body: frozen, strict, without a type of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Member(Part):
    """One pod of a binding command and what its Binding will carry.

    ``n`` is the last part of the decision's id (devices/A-9a). ``allocation`` is the text of devices/A-1, empty for a
    pod without vGPU request. ``vgpu_time`` is Unix seconds, strictly rising per node (devices/A-8). ``gpu_index`` and
    ``predicate_time_ns`` are legacy sharing's (devices/G-7).
    """

    n: int
    namespace: str
    name: str
    uid: str
    version: str
    node: str
    node_uid: str
    allocation: str = ""
    vgpu_time: int = 0
    gpu_index: str = ""
    predicate_time_ns: int = 0
    score: int = 0
    take_lock: bool = False


class BindCommand(Part):
    """One command: all members of ``group`` that are bound together. Voided as a whole (design section 4)."""

    group: str
    group_uid: str
    members: list[Member]


class EvictCommand(Part):
    """One pod makes way. ``reason`` is the word of scheduling/E-3; ``for_group`` names who needs the room."""

    n: int
    namespace: str
    name: str
    uid: str
    reason: str
    for_group: str = ""
    rule: str = ""
    victim_share: str = ""
    preemptor_share: str = ""


class Promise(Part):
    """What an eviction frees is kept for this pod (scheduling/PG-11c) until it is bound, gone, or cannot be placed."""

    uid: str
    node: str
    allocation: str = ""
    gpu_index: str = ""


class GroupBook(Part):
    """What the scheduler says of a PodGroup; the status writer brings it to the API server.

    ``phase_since_ms`` is when the phase was entered (scheduling/PG-4a). ``unschedulable`` and ``reason``/``message``
    are the condition of PG-12 (None: never set). ``event_*`` is the newest event (E-5, E-7, E-8); ``reserves`` is
    false once an allocate turn ended without placement (Q-11a). ``evicted_ms`` is when a task last had to leave a
    node that is lent for some hours only (CFG-13, tdm). ``passed_over`` counts decisions in which it had no place at
    the head of its queue while others were placed, as far as that is asked for (scheduling section 9 row 7).
    ``cause`` is what keeps it waiting, in one word, empty if it does not wait; a reader takes any word.
    """

    phase: str = "Pending"
    phase_since_ms: int = 0
    unschedulable: bool | None = None
    reason: str = ""
    message: str = ""
    scheduled: bool = False
    event_type: str = ""
    event_reason: str = ""
    event_message: str = ""
    reserves: bool = True
    evicted_ms: int = 0
    passed_over: int = 0
    cause: str = ""


class PodBook(Part):
    """What the scheduler says of a pod that waits: its PodScheduled condition (POD-1), empty when there is none.

    ``cause`` is what keeps it waiting, in one word; a reader takes any word.
    """

    reason: str = ""
    message: str = ""
    cause: str = ""
    nominated_node: str = ""
    warnings: list[str] = []


class GroupChange(Part):
    """The book of a PodGroup is another one from here on."""

    group: str
    uid: str
    book: GroupBook


class PodChange(Part):
    """These pods (uids) have this book from here on: pods with equal text share one entry."""

    uids: list[str]
    book: PodBook


class Batch(Body):
    """One decision: what the scheduler made of everything before ``base``.

    ``base`` is the position on the log up to which it had folded (exclusive), ``chain`` and ``state`` are the digests
    there. A gang is one command. Lists are in decision order. ``promises`` replaces what was promised before.
    ``stuck`` names groups that had waited although they fit, found by a second look (there must be none).
    """

    TYPE: ClassVar[str] = "gpuledger.decided.batch.v1"
    batch: int
    base: int
    chain: str
    state: str
    time_ms: int
    engine: str
    binds: list[BindCommand] = []
    evictions: list[EvictCommand] = []
    groups: list[GroupChange] = []
    pods: list[PodChange] = []
    promises: list[Promise] | None = None
    search_start: int | None = None
    stuck: list[str] = []


# --- outcomes (binder) ----------------------------------------------------------------------------------------------


class Outcome(Body):
    """What the world answered to one effect of a command (scheduling/F-1, F-2).

    ``applied``: the API server did it (``version`` is the pod's resourceVersion that it was made on, or one after it:
    only events up to there are older, scheduling/F-4). ``refused``: a final no; nothing stays reserved. ``gone``: the
    pod or its uid does not exist any more. ``lost``: somebody else bound it. ``prebind``: it was refused for a volume's
    sake, before a Binding was sent (F-3).
    """

    TYPE: ClassVar[str] = "gpuledger.outcome.command.v1"
    command: str
    verb: Literal["bind", "evict"]
    namespace: str
    name: str
    uid: str
    result: Literal["applied", "refused", "gone", "lost"]
    node: str = ""
    version: str = ""
    status: int = 0
    message: str = ""
    prebind: bool = False
    time_ms: int


BODIES: tuple[type[Body], ...] = (Genesis, Opened, Ticked, Observed, Deleted, ListChunk, ListEnd, Batch, Outcome)


def spelled(part: BaseModel) -> str:
    """Return the one spelling of a part: pydantic's, or ours where a text holds a lone surrogate."""
    try:
        return part.model_dump_json()
    except PydanticSerializationError:
        return canonical.trusted(part.model_dump()).decode("ascii")


def dump(body: Body) -> dict[str, Any]:
    """Return the body as plain JSON, fields at their default left out."""
    return body.model_dump(exclude_defaults=True)
