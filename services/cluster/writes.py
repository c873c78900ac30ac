"""Creating, updating and patching: completion, admission, validation, preconditions, and the write itself.

The order is the real server's: coordinates and shape, defaulting, what the server owns, admission, validation, the
write. A dry run goes the whole way except for the last step. An update that changes nothing writes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from events.canonical import Json
from events.kinds import (
    BATCH_JOB,
    DAEMON_SET,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    SECRET,
    STATEFUL_SET,
    Kind,
)
from services.cluster import defaults, patches, shapes, validation
from services.cluster.refusal import (
    Problems,
    Refused,
    bad_options,
    bad_request,
    conflict,
    exists,
    forbidden,
    modified,
    not_found,
)  # fmt: skip
from services.cluster.routes import CUSTOM, WITH_STATUS, Request, Target
from services.cluster.store import Store

#: Kinds whose ``metadata.generation`` counts the changes of what is wanted.
_COUNTED = CUSTOM | {POD, PRIORITY_CLASS, REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB, NETWORK_POLICY}
#: Metadata that only the server writes.
_OWNED = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
          "generation", "selfLink")  # fmt: skip
_PATCHES = (patches.JSON_PATCH, patches.MERGE_PATCH, patches.STRATEGIC_PATCH)
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


class Lister(Protocol):
    """What admission may look at: the cluster as it is."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None: ...

    def items(self, kind: Kind, namespace: str = "") -> list[Json]: ...


#: An admission step: verb (create, update, delete), kind, new form, old form, the cluster. It returns the new form, or
#: raises Refused.
Admission = Callable[[str, Kind, Json | None, Json | None, Lister], Json | None]


class Writes:
    """The writing half of the API, on one store."""

    def __init__(self, store: Store, admission: list[Admission]) -> None:
        self.store, self._admission = store, admission

    # Create.

    def create(self, target: Target, request: Request) -> Json:
        """Create an object; return it as stored. Raises Refused."""
        kind, body = target.kind, patches.copied(request.body)
        item = validation.coordinates(kind, body, target.namespace, "")
        shapes.check(kind, item, strict=request.query.get("fieldValidation") == "Strict")
        meta = item["metadata"]
        if kind.namespaced:
            meta["namespace"] = target.namespace
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generated(kind, meta)
        if not meta.get("name"):
            _nameless(kind)
        if meta.get("resourceVersion") and not request.as_written:
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._namespace(target, meta["name"])
        if not request.as_written:
            _disown(kind, item)
        item = self._complete(kind, item)
        if kind == POD:
            _gated(item)
        item = self.admit("create", kind, item, None)
        validation.check(kind, item)
        if self.store.get(kind, target.namespace, meta["name"]) is not None:
            raise exists(kind, meta["name"])
        if kind in _COUNTED:
            item["metadata"].setdefault("generation", 1)
        if request.dry_run:
            return self._as_if_created(kind, item)
        stored = self.store.put(kind, item)
        return self.store.get(kind, target.namespace, meta["name"]) or stored

    def _generated(self, kind: Kind, meta: Json) -> str:
        base: str = meta["generateName"][:58]
        seed = self.store.next_uid(kind, meta.get("namespace") or "", meta["generateName"])
        digest = hashlib.sha256(seed.encode()).digest()
        return base + "".join(_SUFFIX[byte % len(_SUFFIX)] for byte in digest[:5])

    def _namespace(self, target: Target, name: str) -> None:
        if not target.kind.namespaced:
            return
        namespace = self.store.get(NAMESPACE, "", target.namespace)
        if namespace is None:
            raise not_found(NAMESPACE, target.namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise forbidden(target.kind, name, why)

    def _complete(self, kind: Kind, item: Json) -> Json:
        if kind == SECRET and isinstance(item.get("stringData"), dict):
            _encode_secret(item)
        defaults.apply(kind, item)
        defaults.canonical(kind, item)
        return item

    def _as_if_created(self, kind: Kind, item: Json) -> Json:
        meta = item["metadata"]
        meta.setdefault("uid", self.store.new_uid(kind.name, meta.get("namespace") or "", meta["name"], 0))
        meta.setdefault("creationTimestamp", self.store.now())
        return item

    def admit(self, verb: str, kind: Kind, new: Json | None, old: Json | None) -> Json:
        """Pass a write through every admission step; return its new form. Raises Refused."""
        item = new
        for step in self._admission:
            item = step(verb, kind, item, old, self.store)
        return item if item is not None else {}

    # Update.

    def update(self, target: Target, request: Request) -> Json:
        """Replace an object, or its status; return it as stored. Raises Refused."""
        kind = target.kind
        item = validation.coordinates(kind, patches.copied(request.body), target.namespace, target.name)
        shapes.check(kind, item, strict=request.query.get("fieldValidation") == "Strict")
        old = self._existing(target)
        if kind in CUSTOM and not item["metadata"].get("resourceVersion"):
            problems = Problems()
            problems.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise problems.refusal(kind, target.name, stored=True)
        return self.change(target, item, old, dry_run=request.dry_run)

    def _existing(self, target: Target) -> Json:
        old = self.store.get(target.kind, target.namespace, target.name)
        if old is None:
            raise not_found(target.kind, target.name)
        return old

    def change(self, target: Target, item: Json, old: Json, *, dry_run: bool) -> Json:
        """Write the new form of an object after preconditions, admission and validation; return it as stored."""
        kind, name = target.kind, target.name
        preconditions(kind, name, item["metadata"], old)
        item = _kept(kind, item, old, target.subresource)
        if target.subresource != "status":
            item = self._complete_changed(kind, item, old)
        if not _differs(item, old):
            return old
        item = self.admit("update" if target.subresource != "status" else "status", kind, item, old)
        validation.check_update(kind, item, old)
        if kind in _COUNTED and validation.content(item) != validation.content(old):
            item["metadata"]["generation"] = _count(old["metadata"].get("generation")) + 1
        if not _differs(item, old):
            return old
        if dry_run:
            return item
        return self.commit(kind, item)

    def _complete_changed(self, kind: Kind, item: Json, old: Json) -> Json:
        """Default what is new; an object whose content stands as it was is left as it was."""
        if validation.content(item) == validation.content(old):
            return item
        return self._complete(kind, item)

    def commit(self, kind: Kind, item: Json) -> Json:
        """Store a changed object, or let it go if it was only waiting for its last finalizer; return it."""
        meta = item["metadata"]
        key = meta.get("namespace") or "", meta["name"]
        before = self.store.get(kind, *key)
        waited = before is not None and before["metadata"].get("finalizers")
        stored = self.store.write(kind, item)
        ending = meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds")
        if waited and ending and not meta.get("finalizers") and kind != NAMESPACE:
            self.store.erase(kind, *key)
        return stored

    # Patch.

    def patch(self, target: Target, request: Request) -> tuple[int, Json]:
        """Apply a patch of any of the kinds; return HTTP status and the object as stored. Raises Refused."""
        kind, content_type = target.kind, request.content_type
        if content_type == patches.APPLY_PATCH:
            return self._apply(target, request)
        if content_type not in _PATCHES or (content_type == patches.STRATEGIC_PATCH and kind in CUSTOM):
            raise unsupported_media(kind)
        old = self._existing(target)
        item = self._patched(content_type, old, request.body)
        item = validation.coordinates(kind, item, target.namespace, target.name)
        item["metadata"].setdefault("name", target.name)
        same_version(kind, target.name, item["metadata"], old)
        same_uid(kind, target.name, item["metadata"], old)
        shapes.check(kind, item, strict=request.query.get("fieldValidation") == "Strict", old=old)
        return 200, self.change(target, item, old, dry_run=request.dry_run)

    def _patched(self, content_type: str, old: Json, patch: Any) -> Json:
        base = patches.copied(old)
        if content_type == patches.JSON_PATCH:
            result: Json = patches.json_patch(base, patch)
        elif not isinstance(patch, dict):
            raise bad_request(f"a patch must be a mapping, not {type(patch).__name__}")
        elif content_type == patches.MERGE_PATCH:
            result = patches.merge(base, patch)
        else:
            result = patches.strategic(base, patch)
        return result

    def _apply(self, target: Target, request: Request) -> tuple[int, Json]:
        """Server-side apply, without field ownership: created, or merged into what exists."""
        if not request.query.get("fieldManager"):
            raise bad_options("PatchOptions", "fieldManager: Required value: is required for apply patch")
        kind, body = target.kind, patches.copied(request.body)
        item = validation.coordinates(kind, body, target.namespace, target.name)
        item["metadata"].setdefault("name", target.name)
        item["metadata"].pop("managedFields", None)
        old = self.store.get(kind, target.namespace, target.name)
        if old is None:
            if target.subresource:
                raise not_found(kind, target.name)
            made = Request("POST", request.path, request.query, item, client=request.client,
                           as_written=request.as_written)  # fmt: skip
            return 201, self.create(Target(kind, target.namespace), made)
        base = patches.copied(old)
        merged = patches.merge(base, item) if kind in CUSTOM else patches.strategic(base, item)
        shapes.check(kind, merged, strict=request.query.get("fieldValidation") == "Strict", old=old)
        return 200, self.change(target, merged, old, dry_run=request.dry_run)


def unsupported_media(kind: Kind) -> Refused:
    """Return the refusal of a patch type that the kind does not take."""
    known = [patches.JSON_PATCH, patches.MERGE_PATCH, patches.APPLY_PATCH]
    if kind not in CUSTOM:
        known.insert(2, patches.STRATEGIC_PATCH)
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
    return Refused(415, "UnsupportedMediaType", message)


def same_version(kind: Kind, name: str, wanted: Json, old: Json) -> None:
    """Judge the resourceVersion that a write names. Raises Refused (409)."""
    version = wanted.get("resourceVersion")
    if version and version != "0" and version != old["metadata"].get("resourceVersion"):
        raise modified(kind, name)


def same_uid(kind: Kind, name: str, wanted: Json, old: Json) -> None:
    """Judge the uid that a patch leaves. Raises Refused (422): a patch may not change it."""
    uid = wanted.get("uid")
    if uid and uid != old["metadata"].get("uid"):
        problems = Problems()
        problems.invalid("metadata.uid", uid, "field is immutable")
        problems.refuse(kind, name)


def preconditions(kind: Kind, name: str, wanted: Json, old: Json) -> None:
    """Judge the uid and resourceVersion that an update names. Raises Refused (409)."""
    uid, found = wanted.get("uid"), old["metadata"].get("uid", "")
    if uid and uid != found:
        raise conflict(kind, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")
    same_version(kind, name, wanted, old)


def _nameless(kind: Kind) -> NoReturn:
    problems = Problems()
    problems.required("metadata.name", "name or generateName is required")
    raise problems.refusal(kind, "")


def _gated(pod: Json) -> None:
    """A pod with scheduling gates says so from the start."""
    status = pod["status"]
    if pod["spec"].get("schedulingGates") and not status.get("conditions"):
        status["conditions"] = [{
            "type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": None,
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]  # fmt: skip


def _disown(kind: Kind, item: Json) -> None:
    """Take away what the server decides: identity, times, and the status of what has just been created."""
    for key in (*_OWNED, "managedFields"):
        item["metadata"].pop(key, None)
    if kind in WITH_STATUS and kind != NODE:
        item.pop("status", None)


def _kept(kind: Kind, item: Json, old: Json, subresource: str) -> Json:
    """Return the new form with everything that this request cannot write as it was."""
    before = old["metadata"]
    if subresource == "status":
        meta = dict(before) if kind in CUSTOM else item["metadata"]
        item = {**{key: value for key, value in old.items() if key != "status"}, "metadata": meta,
                **({"status": item["status"]} if "status" in item else {})}  # fmt: skip
    elif kind in WITH_STATUS:
        item.pop("status", None)
        if "status" in old:
            item["status"] = old["status"]
    meta = item["metadata"] = dict(item["metadata"])
    for key in (*_OWNED, "name", "namespace", "generateName"):
        if key in before:
            meta[key] = before[key]
        else:
            meta.pop(key, None)
    meta.pop("managedFields", None)
    return item


def _differs(item: Json, old: Json) -> bool:
    """Whether anything changed; ``true`` is not ``1``, though Python holds them equal."""
    return item != old or json.dumps(item, sort_keys=True) != json.dumps(old, sort_keys=True)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _encode_secret(item: Json) -> None:
    data = item.setdefault("data", {})
    for key, value in item.pop("stringData").items():
        data[key] = base64.b64encode(str(value).encode("utf-8", "surrogatepass")).decode()
