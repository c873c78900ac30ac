"""From a URL path to what it names: kind, namespace, object, subresource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from events.canonical import Json
from events.kinds import (
    ALL_KINDS,
    BATCH_JOB,
    COMMAND,
    DAEMON_SET,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
    RESOURCE_QUOTA,
    SERVICE,
    STATEFUL_SET,
    VOLCANO_JOB,
    Kind,
)  # fmt: skip
from services.cluster.refusal import bad_options, no_such_path

#: Kinds whose status is written apart from the rest.
WITH_STATUS = frozenset({
    POD, NODE, NAMESPACE, RESOURCE_QUOTA, SERVICE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, REPLICA_SET,
    STATEFUL_SET, DAEMON_SET, BATCH_JOB, POD_GROUP, QUEUE, VOLCANO_JOB,
})  # fmt: skip
WITH_SCALE = frozenset({REPLICA_SET, STATEFUL_SET})
POD_SUBRESOURCES = ("binding", "eviction", "log")
#: Kinds that a real cluster learns from custom resource definitions.
CUSTOM = frozenset({POD_GROUP, QUEUE, VOLCANO_JOB, COMMAND})

_OPTIONS = {"PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_BY_PATH = {(kind.prefix, kind.plural): kind for kind in ALL_KINDS}


@dataclass(frozen=True, slots=True)
class Request:
    """One request: ``body`` is parsed JSON. ``as_written`` keeps what a server would own (simulations only)."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    client: str = ""
    as_written: bool = False

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored. Raises Refused (422) for an unknown value."""
        asked = self.query.get("dryRun", "")
        if not asked and isinstance(self.body, dict) and self.body.get("kind") == "DeleteOptions":
            listed = self.body.get("dryRun")
            asked = ",".join(str(item) for item in listed) if isinstance(listed, list) else ""
        if asked not in ("", "All"):
            why = f'dryRun: Unsupported value: ["{asked}"]: supported values: "All"'
            raise bad_options(_OPTIONS.get(self.method, "CreateOptions"), why)
        return asked == "All"

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("1", "true", "t")


@dataclass(frozen=True, slots=True)
class Response:
    """The answer: a JSON object, or plain text (pod logs)."""

    status: int
    body: Json
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. Without ``name`` it is the collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def subresources(kind: Kind) -> tuple[str, ...]:
    """Return the subresources that are served for a kind."""
    found: tuple[str, ...] = ("status",) if kind in WITH_STATUS else ()
    if kind in WITH_SCALE:
        found += ("scale",)
    if kind == POD:
        found += POD_SUBRESOURCES
    return found


def target_of(path: str) -> Target:
    """Return what a resource path names. Raises Refused (404) if there is no such resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if len(parts) >= 3 and parts[:2] == ["api", "v1"]:
        prefix, rest = "/api/v1", parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        prefix, rest = "/" + "/".join(parts[:3]), parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (prefix == "/api/v1" and rest[2] in subresources(NAMESPACE)):
        namespace, rest = rest[1], rest[2:]
    kind = _BY_PATH.get((prefix, rest[0]))
    if kind is None or (namespace and not kind.namespaced) or len(rest) > 3 or "" in rest:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if (name and kind.namespaced and not namespace) or (subresource and subresource not in subresources(kind)):
        raise no_such_path()
    return Target(kind, namespace, name, subresource)
