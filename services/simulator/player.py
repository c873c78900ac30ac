"""Plays one file: step after step on an embedded system, then the end; says what did not hold.

Every failure is one line: file, place, item, what was wanted, what was found. A run goes on after a failure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from events.kinds import NODE, POD
from services.cluster.direct import DirectApi
from services.simulator import clocktext, possible, zombie
from services.simulator.assertions import failures
from services.simulator.delivery import WATCHER, Delivery
from services.simulator.facts import Facts
from services.simulator.faults import BindFault
from services.simulator.invariants import Invariants
from services.simulator.output import render
from services.simulator.probe import still_serves
from services.simulator.replaying import refold, replay
from services.simulator.scenario import Play, Step
from services.simulator.stepshapes import clock_after
from services.simulator.system import NotAtRest, System, kind_named
from services.simulator.truth import Truth, node_of


@dataclass
class Outcome:
    """What came of a play: failure lines, and the final cluster as text."""

    lines: list[str]
    printed: str


class Player:
    """One play on its own cluster."""

    def __init__(self, play: Play, seed: int) -> None:
        self.play = play
        self.system = System(seed)
        self.truth = Truth(self.system.store)
        self.delivery = Delivery(self.system.store, DirectApi(self.system.api, "kubectl"))
        self.invariants = Invariants(self.truth, self.system.binder_api, self.system.inspector.state)
        self.facts = Facts(
            self.truth,
            lambda: self.system.model,
            possible.references(play.documents),
            self.delivery.refusals,
            breaches=self.invariants.breaches,
        )
        self.lines: list[str] = []
        self.failed_items = 0
        self.items = 0
        self._wanted: set[str] = set()
        self._refolded = -1
        self._invariant_items: list[tuple[str, dict[str, Any]]] = []

    async def run(self, form: str) -> Outcome:
        """Play the file to its end; the final cluster is printed as ``form`` says (json, yaml, table)."""
        self._collect_invariants(self.play.expect, "expect")
        for step in self.play.steps:
            if step.verb == "assert":
                self._collect_invariants(step.body, f"{step.place}.assert")
        self.delivery.begin(self.play.documents)
        await self.system.deliver()
        for step in self.play.steps:
            await self._step(step)
        await self._settle("the end", None)
        self._assert(self.play.expect, "expect")
        printed = render(self.play.file, self.system.store, form)
        await self._finish()
        return Outcome(self._report(), printed)

    def say(self, place: str, text: str) -> None:
        self.lines.append(f"{self.play.file}: {place}: {text}")

    # --- steps ---

    async def _step(self, step: Step) -> None:
        if step.verb == "assert":
            self._assert(step.body, f"{step.place}.assert")
        elif step.verb == "settle":
            await self._settle(step.place, step.body["rounds"] if isinstance(step.body, dict) else None)
        else:
            said = _VERBS[step.verb](self, step)
            if isinstance(said, Awaitable):
                said = await said
            for text in said or ():
                self.say(step.place, f"{step.verb}: {text}")
            await self.system.deliver()

    async def _settle(self, place: str, rounds: int | None) -> None:
        try:
            await self.system.settle(rounds)
        except NotAtRest as error:
            self.say(place, str(error))
        self.invariants.check(place, self.system.model)
        if "replay-equal" in self._wanted:
            await self._check_replay(place)
        for text in self.system.crashes:
            self.invariants.report("no-crash", place, text)
        self.system.crashes.clear()

    async def _check_replay(self, place: str) -> None:
        """Fold the log afresh, unless that was done for all that is on it."""
        _, end = await self.system.log.bounds()
        if end == self._refolded:
            return
        self._refolded = end
        said = await refold(self.system)
        if said:
            self.invariants.report("replay-equal", place, said)

    # --- assertions ---

    def _collect_invariants(self, items: Any, at: str) -> None:
        for index, item in enumerate(items):
            if "invariants" in item:
                self._wanted |= set(item["invariants"])
                self._invariant_items.append((f"{at}[{index}]", item))

    def _assert(self, items: Any, at: str) -> None:
        for index, item in enumerate(items):
            self.items += 1
            rest = {key: value for key, value in item.items() if key != "invariants"}
            found = failures(rest, self.facts)
            self.failed_items += bool(found)
            for text in found:
                self.say(f"{at}[{index}]", text)

    async def _finish(self) -> None:
        """Judge what holds for the whole run: the log folded afresh, the services alive, the invariants."""
        if not self.system.model.incarnation:
            self.invariants.report("no-crash", "the end", "nothing is on the log")
        await self._check_replay("the end")
        if "no-crash" in self._wanted and (said := await still_serves(self.system)):
            self.invariants.report("no-crash", "the end", said)
        named: set[str] = set()
        for place, item in self._invariant_items:
            found = failures({"invariants": item["invariants"]}, self.facts)
            named |= set(item["invariants"])
            self.failed_items += bool(found)
            for text in found:
                self.say(place, text)
        for name, breaches in self.invariants.breaches.items():
            for text in breaches if name not in named else ():
                self.say("invariants", f"invariant {name}: {text}")

    def _report(self) -> list[str]:
        if not self.lines or self.play.manifests:
            return self.lines
        rules = f"; rules {', '.join(self.play.rules)}" if self.play.rules else ""
        summary = f"{self.play.file}: FAILED ({self.failed_items} of {self.items} assertions{rules})"
        return [*self.lines, summary]

    # --- verbs ---

    def add(self, step: Step) -> None:
        for ref in step.body:
            self.delivery.add(self.play.document(ref))

    def apply(self, step: Step) -> None:
        """A refusal is what a scenario may be about; of a plain manifest it is said at once."""
        for document in map(self.play.document, step.body):
            refused = self.delivery.apply(document)
            for text in refused if self.play.manifests else ():
                self.say(document.label, f"refused: {text}")

    def modify(self, step: Step) -> None:
        self.delivery.modify(self.play.document(step.body))

    def patch(self, step: Step) -> list[str]:
        said = self.delivery.patch(step.body["object"], step.body["merge"])
        return [said] if said else []

    def delete(self, step: Step) -> list[str]:
        if isinstance(step.body, str):
            said = self.delivery.delete(step.body)
            return [said] if said else []
        self.delivery.delete_event(self.play.document(step.body))
        return []

    def finish(self, step: Step) -> list[str]:
        said = self.delivery.patch(f"Pod/{step.body['pod']}", {"status": {"phase": step.body["phase"]}})
        return [said] if said else []

    def clock(self, step: Step) -> None:
        clock = self.system.clock
        clock.time_ms = clock_after(clock.time_ms, step.verb, step.body) or clock.time_ms

    def restart(self, step: Step) -> None:
        self.system.restart(step.body)

    def pause(self, step: Step) -> None:
        self.system.pause(step.body)

    def resume(self, step: Step) -> None:
        self.system.resume(step.body)

    def failover(self, step: Step) -> None:
        self.system.failover()

    def crash(self, step: Step) -> None:
        self.system.faults.crashes.append((step.body["who"], step.body["at"]))

    def bind_result(self, step: Step) -> None:
        body = step.body
        fault = BindFault(body["result"], body.get("times", 1), bool((body.get("then") or {}).get("cordonChosenNode")))
        self.system.faults.bindings.setdefault(body["pod"], []).append(fault)

    def node_lost(self, step: Step) -> list[str]:
        name = step.body["ofPod"]
        node = node_of(self.truth.pod(name))
        if not node:
            return [f"pod {name} is on no node"]
        self.system.store.remove(NODE, "", node)
        namespace, _, rest = name.partition("/")
        self.system.store.remove(POD, namespace, rest)
        return []

    def stale(self, step: Step) -> None:
        self.delivery.stale(self.play.document(step.body))

    def redeliver(self, step: Step) -> None:
        ((verb, ref),) = step.body.items()
        self.delivery.redeliver(self.play.document(ref), verb)

    def watch_error(self, step: Step) -> None:
        """A 410 waits for the list that a later step brings; without such a step the real list is there at once."""
        word, code = step.body["kind"], step.body["code"]
        later = self.play.steps[self.play.steps.index(step) + 1 :]
        if code == 410 and any(other.verb == "relist" and other.body["kind"] == word for other in later):
            self.system.watcher_api.held.add(kind_named(word))
        self.system.store.break_watch(kind_named(word), code, WATCHER)

    def relist(self, step: Step) -> None:
        kind = kind_named(step.body["kind"])
        held = self.system.watcher_api.held
        if kind not in held:
            self.system.store.break_watch(kind, 410, WATCHER)
        held.discard(kind)
        self.delivery.relist(kind, [self.play.document(ref) for ref in step.body["objects"]])

    def bookmark(self, step: Step) -> None:
        self.system.store.bookmark(kind_named(step.body["kind"]), str(step.body["resourceVersion"]), WATCHER)

    async def rebalance(self, step: Step) -> None:
        await self.system.rebalance(step.body["who"], step.body["uncommitted"])

    async def zombie_command(self, step: Step) -> None:
        await zombie.command(self.system, step.body, self.truth.pod(step.body["pod"]))

    def truncate_log(self, step: Step) -> None:
        self.system.log.truncate(step.body["keepLast"])

    async def replay(self, step: Step) -> None:
        self.facts.replay = await replay(self.system, clocktext.time_ms(step.body["clock"]) or 0)


_VERBS: dict[str, Callable[[Player, Step], Any]] = {
    "add": Player.add, "apply": Player.apply, "modify": Player.modify, "patch": Player.patch,
    "delete": Player.delete, "finish": Player.finish, "podPhase": Player.finish, "advance": Player.clock,
    "clock": Player.clock, "restart": Player.restart, "pause": Player.pause, "resume": Player.resume,
    "failover": Player.failover, "crash": Player.crash, "bindResult": Player.bind_result,
    "nodeLost": Player.node_lost, "stale": Player.stale, "redeliver": Player.redeliver,
    "watchError": Player.watch_error, "relist": Player.relist, "bookmark": Player.bookmark,
    "rebalance": Player.rebalance, "zombieCommand": Player.zombie_command, "truncateLog": Player.truncate_log,
    "replay": Player.replay,
}  # fmt: skip
