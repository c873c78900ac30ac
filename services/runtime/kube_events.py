"""Events of the API, for people (scheduling section 2.7): the same event about the same object is the same object.

Its name is made of its object, type, reason and text, so that it is the same on any instance and after any restart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from adapters.clock import rfc3339
from events.canonical import Json
from events.kinds import EVENT, Kind

MESSAGE_MAX: Final = 1024
#: With a dot and the mark behind it an object's name is as long as a name may be.
_NAME_MAX: Final = 236


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    kind: Kind
    namespace: str
    name: str
    uid: str


def event_about(subject: Subject, kind: str, reason: str, message: str, *, component: str, at_ms: int) -> Json:
    """Return the first form of an event of this kind (Normal, Warning)."""
    text, time = shorten(message), rfc3339(at_ms)
    content = "\0".join((subject.uid, kind, reason, text))
    mark = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    reference = {
        "apiVersion": subject.kind.api_version,
        "kind": subject.kind.name,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"namespace": subject.namespace or "default", "name": f"{subject.name[:_NAME_MAX]}.{mark}"},
        "involvedObject": {key: value for key, value in reference.items() if value},
        "type": kind,
        "reason": reason,
        "message": text,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
    }


def counted_again(found: Json, at_ms: int) -> Json:
    """Return the merge patch for an event that is there and happened again."""
    count = found.get("count")
    return {"count": (count if isinstance(count, int) else 1) + 1, "lastTimestamp": rfc3339(at_ms)}


def shorten(text: str, limit: int = MESSAGE_MAX) -> str:
    """Return a text of at most so many bytes, cut with an ellipsis."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode("utf-8")
    return raw[: limit - 3].decode("utf-8", "ignore") + "..."
