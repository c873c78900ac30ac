"""Recorded logs: how they are written, read and folded.

A log is a file of lines, a message each: headers and value as text in Latin-1, so that every byte has its place. What
it folds to is pinned beside it. A change of the fold that gives another digest would void the batches of every log that
is out there; it needs another version of what it changes, never another pin.

``python tests/golden/logs.py`` records the logs anew and pins them: for a new log, or before a first release.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from pathlib import Path
from typing import Final

from adapters.log import audit
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from events.codec import Message
from scheduling.state.fold import Fold

HERE: Final = Path(__file__).parent
PINS: Final = HERE / "digests.json"
#: What is recorded: name, seed, steps of the simulation with faults.
RECORDED: Final = (("gangs-and-mig", 42, 700), ("evictions", 5, 700), ("exclusivity", 13, 700), ("legacy", 57, 500))


def read(path: Path) -> MemoryLog:
    """Return the log in a file."""
    log = MemoryLog()
    messages = []
    for line in gzip.decompress(path.read_bytes()).decode("ascii").splitlines():
        headers, value = json.loads(line)
        pairs = tuple((name, text.encode("latin-1")) for name, text in headers)
        messages.append(Message(pairs, value.encode("latin-1")))
    asyncio.run(log.append(messages))
    return log


def write(path: Path, log: MemoryLog) -> None:
    """Write a log to a file."""
    lines = []
    for _, message in asyncio.run(log.read(0, 1_000_000)):
        headers = [[name, value.decode("latin-1")] for name, value in message.headers]
        lines.append(json.dumps([headers, message.value.decode("latin-1")]))
    path.write_bytes(gzip.compress("\n".join(lines).encode("ascii"), mtime=0))


def folded(log: MemoryLog) -> dict[str, str | int]:
    """Return what a log folds to, and what an audit says of it."""
    follower = Follower(log, Fold())
    asyncio.run(follower.catch_up())
    report = asyncio.run(audit.verify(log))
    return {
        "records": follower.position, "chain": follower.chain, "state": follower.state.digest(),
        "diverged": follower.state.diverged, "decisions": report.decisions, "findings": len(report.findings),
    }  # fmt: skip


def all_folded() -> dict[str, dict[str, str | int]]:
    """Return what every recorded log folds to."""
    return {path.name.removesuffix(".jsonl.gz"): folded(read(path)) for path in sorted(HERE.glob("*.jsonl.gz"))}


def record() -> None:
    """Record the logs anew and pin what they fold to."""
    from services.simulator.chaos.plan import draw
    from services.simulator.chaos.playing import Player

    for name, seed, steps in RECORDED:
        player = Player(draw(seed, steps))
        result = player.run()
        assert not result.failures, result.failures
        write(HERE / f"{name}.jsonl.gz", player.world.log)
    PINS.write_text(json.dumps(all_folded(), indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["fold"]:
        sys.stdout.write(json.dumps(all_folded()))
    else:
        record()
