"""The verbs of a plan that let something go wrong: each draws from its number what happens, to whom, and where."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from adapters.log.port import LogError
from events.codec import MESSAGE_BYTES_MAX, Message, record_id, to_message
from events.kinds import POD
from events.records import Batch, Record
from scheduling.decide import ENGINE
from scheduling.state.model import Term
from services.simulator.chaos import apilink, loglink
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.world import CLUSTER, DOUBLED, ROLES, World

#: Where the processes of a role can be killed or held: every kind of request that they make.
PLACES: Final[dict[str, tuple[str, ...]]] = {
    "watcher": ("append of a term", "append of observations", "read of the log", "list", "watch"),
    "scheduler": ("append of a term", "append of a batch", "append of a batch", "append of a tick", "read of the log"),
    "binder": (
        "append of a term", "append of an outcome", "append of an outcome", "read of the log", "bind", "bind", "get",
        "patch", "delete", "create",
    ),
    "status": ("read of the log", "get", "patch", "create"),
    "controller": ("list", "create", "patch", "delete"),
    "agents": ("list", "patch", "delete"),
}  # fmt: skip
PAIRS: Final = tuple(
    (role, peer) for role in ROLES for peer in ("log", "api")
    if (peer == "api" or role in ("watcher", "scheduler", "binder", "status")) and (role, peer) != ("scheduler", "api")
)  # fmt: skip
POISON: Final = ("unknown type", "future version", "truncated", "huge", "wrong hash")
HOUR_MS: Final = 3_600_000
RESTORED, UNBOUND, UNDELETED = (
    "restore: the API server has an older state", "restore: a Binding of ours is undone",
    "restore: a pod that was deleted is back",
)  # fmt: skip
RESTORE_FAULTS: Final = (RESTORED, UNBOUND, UNDELETED)


class Mishaps:
    """Plays the verbs of faults on a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._network = world.network
        self.tampered: list[int] = []
        self._verbs: dict[str, Callable[[Random], None]] = {
            "kill": self._kill, "kill at": partial(self._at, "kill"), "hold at": partial(self._at, "hold"),
            "start": self._start, "second": self._second, "append fault": self._append, "read fault": self._read,
            "api fault": self._api, "bind fault": self._bind, "watch fault": self._watch, "stale list": self._stale,
            "restore": self._restore, "cut": self._cut, "clock": self._clock, "poison": self._poison,
            "snapshot": self._snapshot,
        }  # fmt: skip

    def knows(self, verb: str) -> bool:
        return verb in self._verbs

    def play(self, verb: str, rng: Random) -> None:
        self._verbs[verb](rng)

    # --- processes ---

    def _kill(self, rng: Random) -> None:
        if not self._world.processes:
            return
        stuck = [process for process in self._world.processes if process.task is not None]
        process = rng.choice(stuck if stuck and rng.random() < 0.7 else self._world.processes)
        held = "while held" if process.task is not None else "between steps"
        self._network.fired[f"kill {held}: {process.role}"] += 1
        self._world.kill(process)

    def _at(self, what: str, rng: Random) -> None:
        role = rng.choice(("scheduler", "binder", "binder", "agents", *ROLES))
        place = rng.choice(PLACES[role])
        side = rng.choice(("before ", "after "))
        if place in ("read of the log", "watch"):
            side = "before "
        self._network.arm(what, role, side + place)

    def _start(self, rng: Random) -> None:
        down = [role for role in ROLES if not self._world.of(role)]
        for role in down if rng.random() < 0.6 else down[:1]:
            self._world.start(role)

    def _second(self, rng: Random) -> None:
        """Another one takes over while the first still believes that it is in charge."""
        self._take_over(rng.choice(DOUBLED))

    def _take_over(self, role: str) -> None:
        if len(self._world.of(role)) == 1:
            self._world.start(role)
            self._network.fired[f"two leaders: {role}"] += 1

    # --- requests ---

    def _append(self, rng: Random) -> None:
        self._network.arm(rng.choice(loglink.APPEND_FAULTS), rng.choice(DOUBLED))

    def _read(self, rng: Random) -> None:
        role = rng.choice(("watcher", "scheduler", "binder", "status"))
        self._network.arm(rng.choice(loglink.READ_FAULTS), role)

    def _api(self, rng: Random) -> None:
        role = rng.choice(("binder", "status", "controller", "agents", "watcher"))
        faults = apilink.READ_FAULTS if role == "watcher" else apilink.WRITE_FAULTS
        self._network.arm(rng.choice(faults), role)

    def _bind(self, rng: Random) -> None:
        """One bad answer, or no answer and then a final no while the first request is still under way."""
        if rng.random() < 0.3:
            self._network.arm(apilink.TIMEOUT_LATE, "binder", "bind")
            self._network.arm(apilink.INVALID, "binder", "bind")
            return
        self._network.arm(rng.choice(apilink.WRITE_FAULTS), "binder", "bind")

    def _watch(self, rng: Random) -> None:
        role = rng.choice(("watcher", "watcher", "watcher", "controller", "agents"))
        kind = rng.choice(("pods", "pods", "nodes", "podgroups", ""))
        self._network.arm(rng.choice(apilink.WATCH_FAULTS), role, f"watch of {kind}")

    def _stale(self, rng: Random) -> None:
        self._network.arm(apilink.STALE, rng.choice(("watcher", "watcher", "controller", "agents")), "list")

    def _cut(self, rng: Random) -> None:
        """A role, or one process of it, is cut off; from one process another may take over, as it seems dead."""
        role, peer = rng.choice(PAIRS)
        ways = rng.choice((("to",), ("from",), ("to", "from")))
        steps = [rng.choice((5, 20, 80)) for _ in ways]
        living = self._world.of(role)
        alone = rng.choice(living).name if living and rng.random() < 0.5 else ""
        for way, long in zip(ways, steps, strict=True):
            self._network.cut(alone or role, peer, way, long)
        if alone and role in DOUBLED and rng.random() < 0.5:
            self._take_over(role)

    def _restore(self, rng: Random) -> None:
        """The API server's store is restored from a backup: objects and resource versions go back."""
        world, store = self._world, self._world.store
        older = [backup for backup in world.backups if backup.version < store.version]
        if not older:
            return
        backup = rng.choice(older)
        there = {item["metadata"]["uid"] for item in store.items(POD)}
        came = {item["metadata"]["uid"] for item in backup.objects.get(POD, {}).values()}
        self._network.fired[RESTORED] += 1
        self._network.fired[UNBOUND] += len(came & store.bindings.keys() - backup.bindings.keys())
        self._network.fired[UNDELETED] += len(came - there)
        world.restore(backup)
        world.clock.time_ms += rng.choice((1_000, 30_000, 120_000))

    # --- clocks ---

    def _clock(self, rng: Random) -> None:
        world = self._world
        if not world.processes:
            return
        schedulers = world.of("scheduler")
        process = rng.choice(schedulers if schedulers and rng.random() < 0.4 else world.processes)
        clock = process.clock
        what = rng.choice(("an hour ahead", "an hour behind", "back a little", "frozen", "right again"))
        self._network.fired[f"clock: {what}"] += 1
        clock.frozen_ms = None
        if what == "frozen":
            clock.frozen_ms = clock.now_ms()
        else:
            clock.offset_ms = {
                "an hour ahead": HOUR_MS, "an hour behind": -HOUR_MS, "back a little": clock.offset_ms - 7_000,
                "right again": 0,
            }[what]  # fmt: skip
        if process.role == "scheduler" and what == "an hour ahead":
            world.inspect()
            # The log's time may be ahead already; only a jump beyond it needs ticks.
            clock.offset_ms += max(0, world.inspector.state.model.time_ms - world.clock.time_ms)
            what, side = rng.choice(("kill", "hold")), rng.choice(("before", "after"))
            self._network.arm(what, "scheduler", f"{side} append of a tick")

    # --- the log ---

    def _poison(self, rng: Random) -> None:
        kind = rng.choices(POISON, (4, 4, 4, 1, 1))[0]
        message = self._bad_message(kind, rng)
        if message is None:
            return
        self._network.fired[f"poison: {kind}"] += 1
        place = at_once(self._world.log.bounds())[1]
        if kind == "wrong hash":
            self.tampered.append(place)
        try:
            at_once(self._world.log.append([message]))
        except LogError:
            self._network.fired["poison: huge, refused by the log"] += 1

    def _bad_message(self, kind: str, rng: Random) -> Message | None:
        model = self._world.inspector.state.model
        if kind == "wrong hash":
            return self._wrong_hash()
        first, end = at_once(self._world.log.bounds())
        if end - first < 3 or not model.incarnation:
            return None
        ((_, message),) = at_once(self._world.log.read(rng.randrange(first + 1, end), 1))
        headers = dict(message.headers)
        if kind == "truncated":
            return Message(message.headers, message.value[: len(message.value) // 2])
        if kind == "huge":
            return Message(message.headers, b" " * (MESSAGE_BYTES_MAX + 1))
        if kind == "unknown type":
            headers["ce_type"] = b"gpuledger.unknown.thing.v1"
        else:
            headers |= {"ce_type": b"gpuledger.decided.batch.v9", "ce_ignorable": b"true"}
        return Message(tuple(headers.items()), message.value)

    def _wrong_hash(self) -> Message | None:
        """A batch in the name of the scheduler in charge that rests on another history than the one that is there."""
        self._world.inspect()
        follower = self._world.inspector
        term = follower.state.model.terms.get("scheduler", Term())
        if not term.number:
            return None
        base, state = follower.state.mark()
        body = Batch(batch=1_000_000, base=base, chain="0" * 64, state=state, time_ms=follower.state.model.time_ms,
                     engine=ENGINE)  # fmt: skip
        name = record_id(CLUSTER, follower.state.model.incarnation, "scheduler", term.number, term.next_record)
        return to_message(Record(name, "scheduler", term.number, term.next_record, "", body.time_ms, body), CLUSTER)

    def _snapshot(self, rng: Random) -> None:
        """Snapshots and read models: see ``bookkeeping``."""
        if self._world.projection is not None:
            self._world.projection.play(rng)
