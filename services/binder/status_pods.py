"""Status and events of waiting pods: PodScheduled, the nominated node, warnings (scheduling/POD-1, POD-2, E-2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from adapters.clock import rfc3339
from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import POD
from events.records import PodBook
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.request import demand_of
from scheduling.reasons.causes import Cause
from scheduling.state.model import Model, PodEntry
from services.binder.conditions import with_conditions
from services.binder.recorder import Recorder
from services.binder.written import Due, Pace, Written, forget
from services.runtime.kube_events import Subject


class PodStatus:
    """Brings the status of pods that wait up to date."""

    def __init__(self, api: ClusterApi, recorder: Recorder, pace: Pace) -> None:
        self._api, self._recorder, self._pace = api, recorder, pace
        self._written: dict[str, Written] = {}
        self._warned: dict[str, set[str]] = {}
        self._looked_at: dict[str, DeviceEnv] = {}

    def due(self, model: Model) -> Iterator[Due]:
        """Yield the writes that are due, and record the warnings that are new."""
        self._written = {uid: written for uid, written in self._written.items() if uid in model.pods}
        self._warned = {uid: texts for uid, texts in self._warned.items() if uid in model.pods}
        self._looked_at = {uid: env for uid, env in self._looked_at.items() if uid in model.pods}
        for uid, entry in model.pods.items():
            self._warn(model, entry)
            if entry.node or not entry.book.reason or not model.ours(entry.pod):
                continue
            book = entry.book
            content = (book.reason, book.message, book.nominated_node)
            written = self._written.setdefault(uid, Written())
            if self._pace.due(written, content, code_of(book), patience=lambda: "patient"):
                yield partial(self._write, entry, book, content, written)

    def forget(self, count: int | None = None) -> None:
        """What was written of so many may not be there any more: it is read before it is written again."""
        forget(self._written, count)

    async def _write(self, entry: PodEntry, book: PodBook, content: Any, written: Written) -> bool:
        pod = entry.pod
        try:
            item = await self._api.get(POD, pod.namespace, pod.name)
            if item["metadata"].get("uid") == pod.uid and not item.get("spec", {}).get("nodeName"):
                await self._patch(item, entry, book)
        except ApiError as error:
            if error.status != 404:
                raise
        self._pace.note(written, content, code_of(book))
        return True

    async def _patch(self, item: Json, entry: PodEntry, book: PodBook) -> None:
        pod = entry.pod
        status = status_of(item, book, rfc3339(self._pace.now_ms))
        if not status:
            return
        meta = {"uid": pod.uid, "resourceVersion": item["metadata"].get("resourceVersion", "")}
        await self._api.patch(POD, pod.namespace, pod.name, {"metadata": meta, "status": status}, "status")
        if "conditions" in status and book.reason != "SchedulerError":
            self._recorder.emit(_subject(entry), "Warning", "FailedScheduling", book.message)

    def _warn(self, model: Model, entry: PodEntry) -> None:
        """Tell what is odd about a request, whether the pod waits or not (devices/R-3, R-12, A-12)."""
        uid = entry.pod.uid
        if self._looked_at.get(uid) is model.env or not model.ours(entry.pod):
            return
        self._looked_at[uid] = model.env
        told = self._warned.setdefault(uid, set())
        for text in demand_of(entry.pod, model.env).warnings:
            if text not in told:
                told.add(text)
                self._recorder.emit(_subject(entry), "Warning", "DeviceWarning", text, again=False)


def code_of(book: PodBook) -> tuple[str, bool]:
    """Return what is never held back when it changes (POD-2).

    That a pod's PodGroup or Queue is missing is no judgement of the pod yet: it may be on its way, and must not hold
    back the first real reason.
    """
    return book.reason, book.cause == Cause.MISSING


def status_of(item: Json, book: PodBook, now: str) -> Json:
    """Return the part of the status that differs; an empty nominated node never overwrites one (POD-1)."""
    condition = {"type": "PodScheduled", "status": "False", "reason": book.reason, "message": book.message}
    changed: Json = {}
    conditions = with_conditions(item, [condition], now)
    if conditions is not None:
        changed["conditions"] = conditions
    found = item.get("status")
    nominated = found.get("nominatedNodeName") if isinstance(found, dict) else None
    if book.nominated_node and nominated != book.nominated_node:
        changed["nominatedNodeName"] = book.nominated_node
    return changed


def _subject(entry: PodEntry) -> Subject:
    return Subject(POD, entry.pod.namespace, entry.pod.name, entry.pod.uid)
