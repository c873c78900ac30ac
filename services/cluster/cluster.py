"""The embedded cluster as a whole: store, API, and what exists from the start; the entry point of this service.

``EmbeddedCluster(clock, new_uid)`` is a fresh cluster in memory; with ``data`` it lives in that directory and is found
again after a restart. ``put``, ``replace`` and ``remove`` are a simulation's way in: as written, with the API's
defaulting, past validation and admission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from aiohttp import web

from adapters.clock import Clock
from events.canonical import Json
from events.kinds import NAMESPACE, QUEUE, Kind, kind_of
from services.cluster import defaults, http, patches
from services.cluster.api import EmbeddedApi
from services.cluster.direct import DirectApi
from services.cluster.persistence import SqliteBacking
from services.cluster.pods import Logs, no_logs
from services.cluster.store import NewUid, Store, random_uid
from services.cluster.writes import Admission

DATA_FILE = "cluster.db"
NAMESPACES = ("default", "kube-system", "volcano-system")


class EmbeddedCluster:
    """A whole cluster in one process."""

    def __init__(self, clock: Clock, new_uid: NewUid = random_uid, data: Path | None = None, *,
                 admission: Iterable[Admission] = (), logs: Logs = no_logs, begin: bool = True) -> None:  # fmt: skip
        self._backing = SqliteBacking(data / DATA_FILE) if data is not None else None
        self.store = Store(clock, new_uid, self._backing)
        self.api = EmbeddedApi(self.store, admission, logs)
        if begin:
            self.begin()

    def begin(self, namespaces: Iterable[str] = NAMESPACES) -> None:
        """Make what exists from the start, where it is missing: namespaces, and the root and default queues (Q-2)."""
        for name in namespaces:
            if self.store.get(NAMESPACE, "", name) is None:
                self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, reclaimable in ((defaults.ROOT_QUEUE, False), (defaults.DEFAULT_QUEUE, True)):
            if self.store.get(QUEUE, "", name) is None:
                spec = {"weight": 1, "reclaimable": reclaimable}
                self.put({"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec,
                          "status": {"state": "Open"}})  # fmt: skip

    def direct(self, client: str = "", after_write: Callable[[], Awaitable[None]] | None = None) -> DirectApi:
        """Return the port on this cluster, for a service in the same process."""
        return DirectApi(self.api, client, after_write)

    def put(self, item: Json) -> Json:
        """Add an object exactly as written, with defaulting; the watches see ADDED. Raises ValueError: unknown kind."""
        kind, completed = self._completed(item)
        return self.store.put(kind, completed)

    def replace(self, item: Json) -> Json:
        """Put a new form of an object, with defaulting; the watches see MODIFIED."""
        kind, completed = self._completed(item)
        return self.store.replace(kind, completed)

    def remove(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Delete an object at once; return its last form, None if there was none."""
        return self.store.remove(kind, namespace, name)

    def _completed(self, item: Json) -> tuple[Kind, Json]:
        completed: Json = patches.copied(item)
        kind = kind_of(str(completed.get("apiVersion")), str(completed.get("kind")))
        if kind is None:
            raise ValueError(f"{completed.get('apiVersion')}, {completed.get('kind')}: no such kind here")
        defaults.apply(kind, completed)
        return kind, completed

    async def serve(self, port: int, host: str = "127.0.0.1") -> web.AppRunner:
        """Serve the API over HTTP. Raises http.PortInUse if the port is taken; port 0 takes a free one."""
        return await http.serve(self.api, host, port)

    def close(self) -> None:
        """Close the file."""
        if self._backing is not None:
            self._backing.close()
