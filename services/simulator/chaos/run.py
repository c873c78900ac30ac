"""Many seeds, on several processes: what failed, how fast it went, and how often each fault fired.

A run that is large enough must have seen every fault of the list at least once: one that never fired proves nothing.
"""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.runtime import logging
from services.simulator.chaos import apilink, loglink
from services.simulator.chaos.bookkeeping import FULL, UNKNOWN, UNKNOWN_AFTER
from services.simulator.chaos.mishaps import PAIRS, PLACES, POISON, RESTORE_FAULTS
from services.simulator.chaos.plan import Plan, draw, dump
from services.simulator.chaos.playing import Result, play
from services.simulator.chaos.reduce import reduced
from services.simulator.chaos.world import DOUBLED, ROLES

#: From so many steps in all a run must have seen every fault.
COMPLETE_FROM_STEPS: Final = 250_000
#: What goes wrong with the cluster itself: it is counted with what is played.
MISFORTUNES: Final = (
    "same name, new uid", "pod deleted", "pod finished", "pod touched", "pod evicted", "gang deleted", "gang changed",
    "queue changed", "capability changed", "configuration changed", "node cordoned", "node deleted",
    "node deleted with pods", "node came back", "node touched", "card lost", "card fell ill", "card came back",
    "registration shrank",
)  # fmt: skip
_SEEDS_EACH: Final = 4


@dataclass
class Report:
    """What a run of many seeds found. ``missing`` are faults that should have fired and did not."""

    seeds: int = 0
    steps: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    failed: list[Result] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    bound: int = 0
    records: int = 0
    missing: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.failed and not self.missing

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.steps += result.steps
        self.cpu_s += result.cpu_s
        self.faults += result.faults
        self.work += result.work
        self.bound += result.bound
        self.records += result.records
        if result.failures:
            self.failed.append(result)


def expected_faults() -> list[str]:
    """Return the names of all faults that a run must see."""
    sides = {f"{side} {place}" for places in PLACES.values() for place in places for side in ("before", "after")}
    sides -= {"after read of the log", "after watch"}
    names = [f"{what} {place}" for place in sorted(sides) for what in ("kill", "hold")]
    names += [f"kill {when}: {role}" for role in ROLES for when in ("between steps", "while held")]
    names += [f"two leaders: {role}" for role in DOUBLED]
    names += [fault for fault in loglink.APPEND_FAULTS if fault != loglink.AGAIN] + [
        *loglink.READ_FAULTS,
        *RESTORE_FAULTS,
    ]
    names += [loglink.AGAIN, loglink.ARRIVED, *apilink.API_FAULTS, apilink.ARRIVED, apilink.TOO_LATE]
    names += [
        f"partition: {who} {way} {peer}"
        for role, peer in PAIRS for who in (role, f"one {role}") for way in ("to", "from")
    ]  # fmt: skip
    names += [f"clock: {what}" for what in ("an hour ahead", "an hour behind", "back a little", "frozen")]
    return names + [f"poison: {kind}" for kind in POISON] + [UNKNOWN, UNKNOWN_AFTER, FULL]


def play_seeds(seeds: Sequence[int], steps: int) -> list[Result]:
    """Play some seeds in this process."""
    logging.configure("critical")
    results = [_timed(draw(seed, steps)) for seed in seeds]
    gc.collect()  # a world is full of cycles, and a worker plays many
    return results


def _timed(plan: Plan) -> Result:
    began = time.process_time()
    result = play(plan)
    result.cpu_s = time.process_time() - began
    return result


def run(
    first: int, count: int, steps: int, *, processes: int = 0, stop_after_s: float = 0.0,
    told: Callable[[Result], None] = lambda _: None,
) -> Report:  # fmt: skip
    """Play ``count`` seeds from ``first`` on, or as many as fit into ``stop_after_s`` seconds if that is given."""
    report, began = Report(), time.monotonic()
    for result in _results(first, count, steps, processes or os.cpu_count() or 1, stop_after_s):
        report.add(result)
        if result.failures:
            told(result)
    report.elapsed_s = time.monotonic() - began
    if report.steps >= COMPLETE_FROM_STEPS:
        report.missing = [name for name in expected_faults() if not report.faults[name]]
        report.missing += [name for name in MISFORTUNES if not report.work[name]]
    return report


def _results(first: int, count: int, steps: int, processes: int, stop_after_s: float) -> Iterator[Result]:
    chunks = [
        range(start, min(start + _SEEDS_EACH, first + count)) for start in range(first, first + count, _SEEDS_EACH)
    ]
    began = time.monotonic()
    if processes == 1:
        for chunk in chunks:
            if stop_after_s and time.monotonic() - began > stop_after_s:
                return
            yield from play_seeds(chunk, steps)
        return
    with ProcessPoolExecutor(processes) as pool:
        waiting = iter(chunks)
        running = [
            pool.submit(play_seeds, chunk, steps) for _, chunk in zip(range(processes * 2), waiting, strict=False)
        ]
        while running:
            yield from running.pop(0).result()
            late = stop_after_s and time.monotonic() - began > stop_after_s
            following = None if late else next(waiting, None)
            if following is not None:
                running.append(pool.submit(play_seeds, following, steps))


def keep(seed: int, steps: int, folder: Path) -> tuple[Path, int, list[str]]:
    """Reduce a failing seed and write what is left of it to a folder; return the file, its steps and what fails."""
    plan, _ = reduced(draw(seed, steps))
    failures = play(plan).failures
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}.yaml"
    path.write_text(dump(plan, "; ".join(failures)))
    return path, len(plan.steps), failures


def text_of(report: Report) -> str:
    """Return what people want to read of a run."""
    lines = [
        f"{report.seeds} seeds, {report.steps} steps in {report.elapsed_s:.0f} s "
        f"({report.steps / max(report.elapsed_s, 0.001):.0f} steps/s, {report.cpu_s / max(report.seeds, 1):.2f} s of "
        f"processor a seed), {report.records} records, {report.bound} bound",
        "what was played: " + ", ".join(f"{count} {name}" for name, count in sorted(report.work.items())),
        "faults that fired:",
    ]
    lines += [f"  {count:7} {name}" for name, count in sorted(report.faults.items())]
    lines += [f"never fired: {name}" for name in report.missing]
    return "\n".join(lines) + "\n"


__all__ = ["Report", "expected_faults", "keep", "play_seeds", "run", "text_of"]
