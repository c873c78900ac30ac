"""The API server without a socket: a request in, a response out.

``handle`` finds what the path names and hands the request to the half that serves it: ``reads``, ``writes``,
``deletes``, or ``pods`` for the subresources of pods. Whatever is refused comes back as a Status with the code, reason
and words of the real server; no request content raises anything else.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.cluster import priority, quota
from services.cluster.deletes import Deletes
from services.cluster.pods import Logs, Pods, no_logs
from services.cluster.reads import Reads
from services.cluster.refusal import Refused, wrong_method
from services.cluster.routes import Request, Response, Target, target_of
from services.cluster.store import Backup, Store
from services.cluster.watches import Watch
from services.cluster.writes import Admission, Writes


class EmbeddedApi:
    """Kubernetes' API on one store. ``admission`` is asked after our own priority and before our own quota step."""

    def __init__(self, store: Store, admission: Iterable[Admission] = (), logs: Logs = no_logs) -> None:
        self.store, self.reads = store, Reads(store)
        self.writes = Writes(store, [priority.admit, *admission, quota.admit])
        self.deletes = Deletes(store, self.writes)
        self.pods = Pods(store, self.writes, self.deletes, logs)
        store.listeners.insert(0, self.deletes.settled)

    def restore(self, backup: Backup) -> None:
        """Begin anew on an older state, as after etcd was restored from a backup (for simulations)."""
        self.store.restore(backup)
        self.deletes.begin()
        self.reads.begin()

    def handle(self, request: Request) -> Response:
        """Serve a request (anything but a watch)."""
        try:
            return self._serve(target_of(request.path), request)
        except Refused as refused:
            return Response(refused.status, refused.body())

    def watch(self, request: Request) -> Watch:
        """Open a watch on the collection or the object that the path names. Raises Refused."""
        return self.reads.watch(target_of(request.path), request)

    def _serve(self, target: Target, request: Request) -> Response:
        if target.subresource:
            return self._subresource(target, request)
        if not target.name:
            return self._collection(target, request)
        if request.method == "DELETE":
            return self.deletes.delete(target, request)
        return self._object(target, request)

    def _collection(self, target: Target, request: Request) -> Response:
        if request.method == "GET":
            return self.reads.page(target, request)
        if target.kind.namespaced and not target.namespace:
            raise wrong_method()
        if request.method == "POST":
            return Response(201, self.writes.create(target, request))
        if request.method == "DELETE":
            return self.deletes.collection(self.reads.select(target, request), target, request)
        raise wrong_method()

    def _subresource(self, target: Target, request: Request) -> Response:
        name, method = target.subresource, request.method
        if name == "status":
            return self._object(target, request)
        if name == "scale" and method in ("GET", "PUT", "PATCH"):
            return self.pods.scale(target, self.reads.get(target), request)
        if name == "log" and method == "GET":
            return self.pods.log(target, request)
        if name == "binding" and method == "POST":
            return self.pods.bind(target, request)
        if name == "eviction" and method == "POST":
            return self.pods.evict(target, request)
        raise wrong_method()

    def _object(self, target: Target, request: Request) -> Response:
        """Read or write an object, or the part of it that is its status."""
        if request.method == "GET":
            return Response(200, self.reads.get(target))
        if request.method == "PUT":
            return Response(200, self.writes.update(target, request))
        if request.method == "PATCH":
            return Response(*self.writes.patch(target, request))
        raise wrong_method()
