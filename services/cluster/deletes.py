"""Deleting: preconditions, grace, finalizers, dependents, and namespaces with what is in them.

A pod on a node is only marked: its node agent ends it and deletes it once more without grace. Foreground deletion and
a terminating namespace wait until nothing below them is left; ``settled`` looks after both whenever something went.
Dependents in the background are the controllers' part.
"""

from __future__ import annotations

from adapters.clock import rfc3339
from events.canonical import Json
from events.kinds import NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_QUOTA, SERVICE, Kind
from services.cluster import patches, quota, reading
from services.cluster.reading import finalizers, owners
from services.cluster.refusal import bad_options, bad_request, conflict, details_of, forbidden, not_found, success
from services.cluster.routes import Request, Response, Target
from services.cluster.store import Store, key_of
from services.cluster.writes import Writes

_FOREGROUND = "foregroundDeletion"
_KEPT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_POLICIES = ("", "Background", "Foreground", "Orphan")
_GRACE_S = 30
#: Kinds whose last form is the answer to their deletion.
_TOLD_WHOLE = (POD, SERVICE, RESOURCE_QUOTA, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM)


class Deletes:
    """The deleting half of the API, on one store."""

    def __init__(self, store: Store, writes: Writes) -> None:
        self._store, self._writes = store, writes
        self._busy = False
        self.begin()

    def begin(self) -> None:
        """Look for what is on its way out, in a store as it is found."""
        self._waiting = [
            (kind, *key_of(item))
            for kind in self._store.kinds()
            for item in self._store.items(kind)
            if _waits(kind, item)
        ]

    def delete(self, target: Target, request: Request) -> Response:
        """Delete an object, or begin to. Raises Refused."""
        kind = target.kind
        item = self._store.get(kind, target.namespace, target.name)
        if item is None:
            raise not_found(kind, target.name)
        options = options_of(request)
        wanted = options.get("preconditions") or {}
        _judge(kind, target.name, wanted, item)
        if kind == NAMESPACE and target.name in _KEPT_NAMESPACES:
            raise forbidden(kind, target.name, "this namespace may not be deleted")
        self._writes.admit("delete", kind, None, item)
        gone, last = self._end(kind, item, options, dry_run=request.dry_run)
        if not gone or kind in _TOLD_WHOLE:
            return Response(200, last)
        return Response(200, success(200, details_of(kind, target.name, uid=item["metadata"].get("uid", ""))))

    def collection(self, items: list[Json], target: Target, request: Request) -> Response:
        """Delete every one of the items; those that may not go stay, and the first refusal is raised at the end."""
        kind, options = target.kind, options_of(request)
        for item in items:
            self._writes.admit("delete", kind, None, item)
        ended = [self._end(kind, item, options, dry_run=request.dry_run)[1] for item in items]
        meta = {"resourceVersion": str(self._store.version)}
        return Response(200, {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": meta,
                              "items": ended})  # fmt: skip

    def _end(self, kind: Kind, item: Json, options: Json, *, dry_run: bool) -> tuple[bool, Json]:
        """Delete now, or mark; return whether it is gone, and its last form."""
        policy, meta = options.get("propagationPolicy") or "", item["metadata"]
        if policy == "Orphan" and not dry_run:
            self._orphan(meta.get("uid", ""))
        grace = _grace(kind, item, options)
        waits = finalizers(item)
        if policy == "Foreground" and _FOREGROUND not in waits and self._dependents(meta.get("uid", "")):
            waits.append(_FOREGROUND)
        if kind == NAMESPACE or waits or grace:
            marked = self._marked(kind, item, grace, waits)
            if not dry_run and marked is not item:
                marked = self._store.write(kind, marked)
                if _waits(kind, marked):
                    self._waiting.append((kind, *key_of(item)))
                if policy == "Foreground":
                    self._delete_dependents(meta.get("uid", ""))
                self.settled(kind)
            return False, marked
        if dry_run:
            return True, item
        if kind == POD:
            self._store.write(kind, self._marked(kind, item, 0, []))  # a pod's end is told first, as the real one does
        return True, self._store.erase(kind, *key_of(item)) or item

    def _marked(self, kind: Kind, item: Json, grace: int, waits: list[str]) -> Json:
        meta = dict(item["metadata"])
        before = meta.get("deletionGracePeriodSeconds")
        if meta.get("deletionTimestamp") and (not isinstance(before, int) or before <= grace):
            if waits == finalizers(item):
                return item
        else:
            meta["deletionTimestamp"] = rfc3339(self._store.clock.now_ms() + grace * 1000)
            meta["deletionGracePeriodSeconds"] = grace
            if isinstance(meta.get("generation"), int) and "deletionTimestamp" not in item["metadata"]:
                meta["generation"] += 1
        if waits:
            meta["finalizers"] = waits
        marked = {**item, "metadata": meta}
        if kind == NAMESPACE:
            marked["status"] = {**reading.status(item), "phase": "Terminating"}
        return marked

    # Dependents.

    def _dependents(self, uid: str) -> list[tuple[Kind, Json]]:
        return [
            (kind, item)
            for kind in self._store.kinds()
            for item in self._store.items(kind)
            if any(owner.get("uid") == uid for owner in owners(item))
        ]

    def _delete_dependents(self, uid: str) -> None:
        for kind, item in self._dependents(uid):
            current = self._store.get(kind, *key_of(item))
            if current is not None and not current["metadata"].get("deletionTimestamp"):
                self._end(kind, current, {"propagationPolicy": "Foreground"}, dry_run=False)

    def _orphan(self, uid: str) -> None:
        for kind, item in self._dependents(uid):
            kept = [owner for owner in owners(item) if owner.get("uid") != uid]
            meta = {key: value for key, value in item["metadata"].items() if key != "ownerReferences"}
            if kept:
                meta["ownerReferences"] = kept
            self._store.write(kind, {**item, "metadata": meta})

    # What waited.

    def settled(self, changed: Kind) -> None:
        """Bring in line what follows from a change: quotas' use, namespaces and owners that waited for the end."""
        if self._busy:
            return
        self._busy = True
        try:
            quota.refresh(self._store, changed)
            ended = False
            while self._finish_one():
                ended = True
            if ended:
                quota.refresh(self._store)
        finally:
            self._busy = False

    def _finish_one(self) -> bool:
        """End the first of those that wait whose time has come; return whether there was one."""
        for entry in self._waiting:
            kind, namespace, name = entry
            item = self._store.get(kind, namespace, name)
            if item is None or not _waits(kind, item) or self._finished(kind, item):
                self._waiting.remove(entry)
                return True
        return False

    def _finished(self, kind: Kind, item: Json) -> bool:
        return self._empty(item) if kind == NAMESPACE else self._released(kind, item)

    def _empty(self, namespace: Json) -> bool:
        """Delete what is in a terminating namespace, and the namespace once nothing is left; return whether it went."""
        name, rest = namespace["metadata"]["name"], 0
        for kind in self._store.kinds():
            for item in self._store.items(kind, name) if kind.namespaced else []:
                gone = False
                if not item["metadata"].get("deletionTimestamp"):
                    gone, _ = self._end(kind, item, {}, dry_run=False)
                rest += not gone
        if rest or finalizers(namespace):
            return False
        self._store.erase(NAMESPACE, "", name)
        return True

    def _released(self, kind: Kind, item: Json) -> bool:
        if self._dependents(item["metadata"].get("uid", "")):
            return False
        rest = [name for name in finalizers(item) if name != _FOREGROUND]
        if rest:
            self._store.write(kind, {**item, "metadata": {**item["metadata"], "finalizers": rest}})
        else:
            self._store.erase(kind, *key_of(item))
        return True


def _waits(kind: Kind, item: Json) -> bool:
    """Whether a deletion of this object is under way that ends when nothing below it is left."""
    meta = item["metadata"]
    return bool(meta.get("deletionTimestamp")) and (kind == NAMESPACE or _FOREGROUND in finalizers(item))


def options_of(request: Request) -> Json:
    """Return the DeleteOptions of a request: its body, or else its query. Raises Refused (400)."""
    options: Json = patches.copied(request.body) if request.body is not None else {}
    if not isinstance(options, dict):
        raise bad_request(f"DeleteOptions must be a mapping, not {type(options).__name__}")
    query = {} if options else request.query
    policy, grace = query.get("propagationPolicy"), query.get("gracePeriodSeconds")
    if policy is not None:
        options["propagationPolicy"] = policy
    if grace is not None:
        if not (grace.isascii() and grace.isdigit() and len(grace) < 10):
            raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}: must be a whole number, 0 or more")
        options["gracePeriodSeconds"] = int(grace)
    if options.get("propagationPolicy") is None and "orphanDependents" in options:
        options["propagationPolicy"] = "Orphan" if options["orphanDependents"] else "Background"
    if (options.get("propagationPolicy") or "") not in _POLICIES:
        shown = f'propagationPolicy: Unsupported value: "{options["propagationPolicy"]}": supported values: '
        raise bad_options("DeleteOptions", shown + '"Foreground", "Background", "Orphan", "nil"')
    seconds = options.get("gracePeriodSeconds")
    if seconds is not None and (not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0):
        raise bad_request(f"gracePeriodSeconds: Invalid value: {seconds!r}: must be a whole number, 0 or more")
    if not isinstance(options.get("preconditions") or {}, dict):
        raise bad_request("preconditions: must be a mapping")
    return options


def _judge(kind: Kind, name: str, wanted: Json, item: Json) -> None:
    meta = item["metadata"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid is not None and uid != meta.get("uid"):
        why = (f"the UID in the precondition ({uid}) does not match the UID in record ({meta.get('uid', '')}). The "
               "object might have been deleted and then recreated")  # fmt: skip
        raise conflict(kind, name, why, kind.name)
    if version is not None and version != meta.get("resourceVersion"):
        why = (f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
               f"({meta.get('resourceVersion', '')}). The object might have been modified")  # fmt: skip
        raise conflict(kind, name, why, kind.name)


def _grace(kind: Kind, item: Json, options: Json) -> int:
    """Return the seconds that the object has left; only a pod that lives on a node has any."""
    if kind != POD:
        return 0
    spec, status = reading.spec(item), reading.status(item)
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    own = spec.get("terminationGracePeriodSeconds")
    own = own if isinstance(own, int) and own >= 0 else _GRACE_S
    return asked if isinstance(asked, int) else own
