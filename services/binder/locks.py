"""The node lock that node agents know (devices/A-19 to A-21): an annotation with the time at which it was taken.

The binder takes it right before a Binding and waits for it; the decision never fails because of it (A-20). Every try
reads the node anew and judges holder and age again, and writes with the version that it has read. A value that nobody
can read counts as held for five minutes since it was first seen.

Beside the time stands a mark of ours that names the command and that very time. So a binder that follows one which died
between lock and Binding need not wait: the log says that the command still waits, and the mark that the lock is its. A
lock without our mark, or one that was taken anew since by somebody else, is left to its holder and its age.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from adapters.clock import Clock, rfc3339
from adapters.cluster.port import ApiError, ClusterApi
from events import names
from events.canonical import Json
from events.kinds import NODE

LIFETIME_MS: Final = 5 * 60 * 1000
RETRIES: Final = 5
RETRY_S: Final = 0.1

Taken = Literal["taken", "held", "missing"]
Pause = Callable[[float], Awaitable[None]]


async def no_pause(_: float) -> None:
    """Do not wait (a simulation's clock stands still)."""


class NodeLocks:
    """The locks of one cluster's nodes. ``pause`` waits so many seconds between tries."""

    def __init__(self, api: ClusterApi, clock: Clock, pause: Pause = no_pause) -> None:
        self._api, self._clock, self._pause = api, clock, pause
        self._ours: dict[tuple[str, str], str] = {}
        #: Locks whose time cannot be read, by node and key: their value, and since when it is there.
        self._unreadable: dict[tuple[str, str], tuple[str, int]] = {}

    def has(self, node: str, key: str, command: str) -> bool:
        """Tell whether this command has taken the lock."""
        return self._ours.get((node, key)) == command

    async def take(self, node: str, key: str, command: str) -> tuple[Taken, str]:
        """Take a lock for a command, or say why not. Raises ApiError, ApiUnknown."""
        for _ in range(RETRIES):
            try:
                found = await self._api.get(NODE, "", node)
            except ApiError as error:
                if error.status == 404:
                    return "missing", f"node {node} does not exist"
                raise
            value = _annotation(found, key)
            if value is not None and self._holds(found, node, key, command):
                self._ours[(node, key)] = command
                return "taken", ""
            if self._held(node, key, value):
                return "held", f"node {node} has been locked within 5 minutes"
            if await self._write(found, node, key, rfc3339(self._clock.now_ms()), command):
                self._ours[(node, key)] = command
                return "taken", ""
            await self._pause(RETRY_S)
        return "held", f"setNodeLock exceeds retry count {RETRIES}"

    async def release(self, node: str, key: str, command: str) -> str:
        """Remove a lock that this command took, now or before a crash; an absent one is no error.

        Returns why it could not be removed, or nothing. Raises ApiError, ApiUnknown.
        """
        for _ in range(RETRIES):
            try:
                found = await self._api.get(NODE, "", node)
            except ApiError as error:
                if error.status != 404:
                    raise
                break
            mine = _annotation(found, key) is not None and self._holds(found, node, key, command)
            if not mine or await self._write(found, node, key, None, ""):
                break
            await self._pause(RETRY_S)
        else:
            return f"releaseNodeLock exceeds retry count {RETRIES}"
        self.forget(node, key, command)
        return ""

    def forget(self, node: str, key: str, command: str) -> None:
        """The Binding was accepted: from here on the lock is the node agent's to remove."""
        if self.has(node, key, command):
            del self._ours[(node, key)]

    def _holds(self, found: Json, node: str, key: str, command: str) -> bool:
        """Tell whether the lock that is there was taken for this command, by us or by who was before us."""
        marked = _annotation(found, mark_key(key)) == f"{command} {_annotation(found, key)}"
        return marked or self.has(node, key, command)

    def _held(self, node: str, key: str, value: str | None) -> bool:
        """Present and not older than five minutes, a time in the future included (A-19, A-20)."""
        now = self._clock.now_ms()
        seen, first_seen = self._unreadable.pop((node, key), (None, now))
        if value is None:
            return False
        since = lock_time_ms(value)
        if since is None:
            since = first_seen if seen == value else now
            self._unreadable[node, key] = value, since
        return now - since <= LIFETIME_MS

    async def _write(self, found: Json, node: str, key: str, value: str | None, command: str) -> bool:
        """Set or remove lock and mark on the node as it was read; False if somebody else was faster."""
        version = found["metadata"].get("resourceVersion", "")
        notes = {key: value, mark_key(key): value and f"{command} {value}"}
        try:
            await self._api.patch(NODE, "", node, {"metadata": {"resourceVersion": version, "annotations": notes}})
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        return True


def lock_key(allocation: str) -> str:
    """Return the annotation of the device family: vGPU, or legacy memory sharing."""
    return names.VGPU_NODE_LOCK if allocation else names.GPUSHARE_NODE_LOCK


def mark_key(key: str) -> str:
    """Return the annotation that names whose the lock is."""
    return names.LOCK_MARKS[key]


def lock_time_ms(value: str) -> int | None:
    """Return the time of a lock as Unix milliseconds, None if it cannot be read."""
    try:
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _annotation(node: Json, key: str) -> str | None:
    notes = node["metadata"].get("annotations")
    value = notes.get(key) if isinstance(notes, dict) else None
    return value if isinstance(value, str) else None
