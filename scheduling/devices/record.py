"""The allocation record on a pod, ``volcano.sh/vgpu-ids-new``: its grammar, written and read (devices/A-1 to A-5).

``allocation = segment *( ";" segment )``, ``segment = *( uuid "," "NVIDIA" "," memory "," cores ":" )``; segment i
belongs to container i. The author of a record may be anyone, so reading never fails: what cannot be read is counted
and makes the node take no new vGPU pods (A-4a), because its card is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

DEVICE_TYPE = "NVIDIA"  # never the model
_UINT32 = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Share:
    """One share of a card: ``suffix`` is the part of the device id from ``[`` on (MIG), empty for hami-core.

    ``container`` and ``place`` are its place in the record; with the pod's uid they are its identity (A-14).
    """

    uuid: str
    suffix: str
    memory: int
    cores: int
    container: int
    place: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read: its shares, entries that could not be read (A-4a), and parts that are no entry at all."""

    shares: tuple[Share, ...] = ()
    unreadable: tuple[str, ...] = ()
    stray: int = 0


def encode(shares: Iterable[Share]) -> str:
    """Write a record: an empty segment for each container before the last one that has a share (A-3)."""
    segments: dict[int, str] = {}
    for share in shares:
        entry = f"{share.uuid}{share.suffix},{DEVICE_TYPE},{share.memory},{share.cores}:"
        segments[share.container] = segments.get(share.container, "") + entry
    return ";".join(segments.get(place, "") for place in range(max(segments, default=-1) + 1))


@lru_cache(maxsize=65536)
def decode(text: str) -> Record:
    """Read a record (A-4)."""
    shares: list[Share] = []
    unreadable: list[str] = []
    stray = 0
    for container, segment in enumerate(text.split(";")):
        for place, part in enumerate(segment.split(":")):
            if "," not in part:
                stray += bool(part.strip())
                continue
            share = _entry(part.split(","), container, place)
            if share is None:
                unreadable.append(part)
            elif share.uuid:  # A-4c: without a UUID it says "no device here"
                shares.append(share)
    return Record(tuple(shares), tuple(unreadable), stray)


def _entry(fields: list[str], container: int, place: int) -> Share | None:
    uuid, bracket, rest = fields[0].partition("[")
    if not uuid:
        return Share("", "", 0, 0, container, place)
    if len(fields) < 4:
        return None
    memory, cores = _uint32(fields[2]), _uint32(fields[3])
    if memory is None or cores is None:
        return None
    return Share(uuid, bracket + rest, memory, cores, container, place)


def _uint32(text: str) -> int | None:
    digits = text.lstrip("0") or text[:1]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        return None
    return int(digits) if int(digits) <= _UINT32 else None
