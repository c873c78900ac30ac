"""How fast a service is back: from a snapshot or from the whole log to its first decision, and what a snapshot costs.

    python benchmarks/recovery.py [--pods 10000] [--nodes 200] [--tail 2000]

The history is that of ``fold_speed`` (a pod is observed, grouped, decided, reported, observed bound and running), on a
SQLite log in a temporary folder, with one pod that still waits at its end. Printed are: records a second when the whole
log is folded; time and bytes of a snapshot; and from nothing to the first decision, with and without a snapshot that is
``tail`` records old, for the scheduler and for the watcher's memory. A snapshot's time is also given for one decision
made beside it, which it must not hold up. What a process costs before it can begin with any of that, the loading of the
scheduler's program, is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fold_speed import _START_MS, _history, _observed, _pod

from adapters.database.engine import migrate, open_database
from adapters.database.recovery import Recovery, _loaded
from adapters.log.follower import Follower
from adapters.log.sqlite import SqliteLog
from events.codec import Message, record_id, to_message
from events.records import Record
from scheduling.decide import decide
from scheduling.state.fold import Fold
from scheduling.state.snapshot import dump
from services.watcher.beginning import remembered
from services.watcher.memory import Memory

_APPEND = 500
_ROOT = Path(__file__).parents[1]
_PROGRAM = (
    "services.cli.main", "services.scheduler.scheduler", "services.runtime.model_metrics", "adapters.database.recovery",
    "adapters.log.kafka",
)  # fmt: skip


class _Watch:
    """Wall-clock and processor seconds of a block; the latter are what a busy machine leaves comparable."""

    def __enter__(self) -> _Watch:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f} s of processor)"


async def _timed(label: str, work: Callable[[], Awaitable[Any]]) -> Any:
    with _Watch() as watch:
        found = await work()
    print(f"{label}: {watch}", flush=True)
    return found


def _waiting(number: int) -> Message:
    """One more pod, which waits."""
    item = _pod(10**6)
    record = Record(record_id("c", "i", "watcher", 1, number), "watcher", 1, number, "", _START_MS,
                    _observed("Pod", item, 10**8))  # fmt: skip
    return to_message(record, "c")


def _load_program() -> None:
    """Start Python and load what a scheduler on Kafka with a database is made of."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {', '.join(_PROGRAM)}"], check=True, cwd=_ROOT)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"a scheduler's program loaded: {wall:.2f} s ({cpu:.2f} s of processor)", flush=True)


async def _write(log: SqliteLog, messages: list[Message]) -> None:
    for start in range(0, len(messages), _APPEND):
        await log.append(messages[start : start + _APPEND])


async def _whole(log: SqliteLog, recovery: Recovery, place: int) -> tuple[Follower[Fold], Follower[Fold]]:
    """Fold everything and decide; right after a batch behind ``place`` a snapshot is kept, and loaded, on the way."""
    follower = Follower(log, Fold())
    with _Watch() as before:
        while follower.position < place:
            await follower.advance(min(1000, place - follower.position))
        while not follower.state.after_batch:
            await follower.advance(1)
    with _Watch() as keeping:
        size = recovery.save(follower.state, follower.position, follower.chain)
    data = dump(follower.state)
    print(f"snapshot kept: {keeping}, {size / 1e6:.1f} MB packed, {len(data) / 1e6:.1f} MB plain", flush=True)
    with _Watch() as loading:
        earlier = Follower(log, _loaded(data))
    print(f"snapshot loaded and verified: {loading}", flush=True)
    with _Watch() as after:
        await _first_decision(follower)
    cpu = before.cpu + after.cpu
    print(f"scheduler, whole log, to its first decision: {before.wall + after.wall:.2f} s ({cpu:.2f} s of processor)")
    print(f"rebuild: {follower.position / cpu:,.0f} records a second of processor", flush=True)
    return follower, earlier


def _beside(follower: Follower[Fold], earlier: Follower[Fold]) -> None:
    """A decision with a snapshot of another state going on in a thread beside it."""
    fold = follower.state
    for label, beside in (("alone", False), ("beside a snapshot", True)):
        fold.findings = None
        thread = threading.Thread(target=dump, args=(earlier.state,))
        if beside:
            thread.start()
        with _Watch() as watch:
            decide(fold, _START_MS + 1_000, follower.chain, 10**6)
        print(f"a decision {label}: {watch}", flush=True)
        if beside:
            thread.join()


async def _first_decision(follower: Follower[Fold]) -> Follower[Fold]:
    await follower.catch_up()
    assert decide(follower.state, _START_MS + 1_000, follower.chain, 10**6) is not None
    return follower


async def main(pods: int, nodes: int, tail: int) -> None:
    _load_program()
    messages = _history(pods, nodes)
    number = sum(dict(message.headers)["ce_id"].startswith(b"c/i/w1.") for message in messages)
    with tempfile.TemporaryDirectory() as folder:
        log = SqliteLog(Path(folder) / "log.db")
        await _write(log, [*messages, _waiting(number)])
        engine = open_database(Path(folder) / "gpuledger.db")
        migrate(engine)
        recovery = Recovery(engine, "c", print)
        print(f"{len(messages) + 1} records, {pods} pods on {nodes} nodes")
        whole, earlier = await _whole(log, recovery, len(messages) - tail)

        async def again() -> Follower[Fold]:
            return await _first_decision(await recovery.follower(log))

        found = await _timed("scheduler, from the snapshot, to its first decision", again)
        print(f"  it read {found.position - earlier.state.sequence} records after the snapshot")
        assert found.state.digest() == whole.state.digest()
        _beside(found, earlier)
        await _timed("watcher's memory, whole log", Follower(log, Memory()).catch_up)
        memory = await _timed("watcher's memory, from the snapshot", lambda: remembered(recovery, log))
        await memory.catch_up()
        engine.dispose()
        await log.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--tail", type=int, default=5_000)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.pods, chosen.nodes, chosen.tail))
