"""The tables of what can be rebuilt (design section 3): losing them loses nothing, the log wins.

Read models that people and auditors query (decisions, commands, placements, shares, claims), the snapshots that make a
rebuild faster, and how far the projection of each cluster has come. Every row belongs to a cluster. Texts are texts
without limits of their own, times are Unix milliseconds, positions are offsets of the log.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, LargeBinary, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(DeclarativeBase):
    """The base of all tables."""

    metadata = MetaData(naming_convention=_NAMING)
    type_annotation_map = {int: BigInteger, str: Text, bytes: LargeBinary}  # noqa: RUF012 (SQLAlchemy's own protocol)


class Progress(Table):
    """How far the read models of a cluster follow its log: everything before ``position`` is in them."""

    __tablename__ = "progress"
    cluster: Mapped[str] = mapped_column(primary_key=True)
    incarnation: Mapped[str]
    position: Mapped[int]
    chain: Mapped[str]
    state: Mapped[str]
    records_set_aside: Mapped[int]


class Snapshot(Table):
    """The state at one place: ``chain`` and ``state`` are the digests that the log has there, ``format`` reads it."""

    __tablename__ = "snapshots"
    cluster: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    incarnation: Mapped[str]
    place: Mapped[int]
    chain: Mapped[str]
    state: Mapped[str]
    format: Mapped[str]
    content: Mapped[bytes]


class Decision(Table):
    """One batch as it stands on the log, and what became of it (``verdict``: applied, or void and why)."""

    __tablename__ = "decisions"
    cluster: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    record_id: Mapped[str]
    term: Mapped[int]
    batch: Mapped[int]
    base: Mapped[int]
    chain: Mapped[str]
    state: Mapped[str]
    engine: Mapped[str]
    time_ms: Mapped[int]
    verdict: Mapped[str]
    binds: Mapped[int]
    evictions: Mapped[int]


class CommandRow(Table):
    """One effect that was decided, and its result: ``waiting``, ``overtaken``, ``dropped``, or the outcome's word."""

    __tablename__ = "commands"
    __table_args__ = (Index(None, "cluster", "namespace", "name"), Index(None, "cluster", "result"))
    cluster: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    verb: Mapped[str]
    namespace: Mapped[str]
    name: Mapped[str]
    uid: Mapped[str]
    node: Mapped[str]
    allocation: Mapped[str]
    pod_group: Mapped[str]
    reason: Mapped[str]
    result: Mapped[str]
    result_position: Mapped[int]
    message: Mapped[str]


class Placement(Table):
    """One pod that is on a node now, as observed or as decided."""

    __tablename__ = "placements"
    __table_args__ = (Index(None, "cluster", "node"), Index(None, "cluster", "namespace", "name"))
    cluster: Mapped[str] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(primary_key=True)
    namespace: Mapped[str]
    name: Mapped[str]
    node: Mapped[str]
    status: Mapped[str]
    scheduler: Mapped[str]
    pod_group: Mapped[str]
    queue: Mapped[str]
    allocation: Mapped[str]
    decision: Mapped[str]


class DeviceShare(Table):
    """One share of a card that a pod holds now (memory in the device's units, cores in percent)."""

    __tablename__ = "shares"
    __table_args__ = (Index(None, "cluster", "uid"),)
    cluster: Mapped[str] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(primary_key=True)
    gpu: Mapped[str] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(primary_key=True)
    container: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    pod: Mapped[str]
    slice: Mapped[str]
    memory: Mapped[int]
    cores: Mapped[int]


class ClaimRow(Table):
    """The rule-to-GPU map: this card is taken for this exclusivity rule, by this pod (devices/X-1 to X-3)."""

    __tablename__ = "claims"
    __table_args__ = (Index(None, "cluster", "node", "gpu"),)
    cluster: Mapped[str] = mapped_column(primary_key=True)
    rule: Mapped[str] = mapped_column(primary_key=True)
    node: Mapped[str] = mapped_column(primary_key=True)
    gpu: Mapped[str] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(primary_key=True)
    pod: Mapped[str]


#: What a projection owns, and empties when it starts again. Snapshots are not among them.
PROJECTED: tuple[type[Table], ...] = (Decision, CommandRow, Placement, DeviceShare, ClaimRow)
