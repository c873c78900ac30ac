"""One Binding: node, allocation and the decision's id in one request, applied as a whole or not at all.

The Binding carries the pod's uid and resourceVersion as preconditions. Accepted, all of it is on the pod, and was made
on just that version (docs/adr/0007). What any other answer means is decided by the pod itself, which is read then
(devices/A-9a): assigned with our decision's id, the Binding was applied; assigned otherwise, somebody else was faster;
another uid or nothing, the pod is gone. A pod that was touched without
meaning for the decision (its status) is tried again with its new version; one that was changed otherwise is refused,
and decided anew. No answer is no failure: the command stays, its capacity stays held, and it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from events import names
from events.canonical import Json
from events.kinds import POD
from events.projection import project
from events.records import Member, Outcome
from scheduling import objects
from scheduling.objects import Pod
from scheduling.reasons import texts
from scheduling.reasons.outcomes import of_refusal
from scheduling.state.model import Command, Model
from services.binder.answers import Answer, Stands
from services.binder.crowding import no_room
from services.binder.fence import fence
from services.binder.gangs import Gangs, lost_cards
from services.binder.locks import NodeLocks, lock_key
from services.binder.nodes import NodeReads
from services.binder.observing import Progress
from services.binder.volumes import Volumes

Result = Literal["applied", "refused", "gone", "lost"]
#: Conflicts that are read and tried again within one step; then the other lanes have their turn.
TRIES = 2


class Bindings:
    """Carries out bind commands. It remembers only what saves a request; losing it loses nothing.

    ``stands`` says whether a command may still be carried out: our term counts and the command waits for an outcome,
    as of the log's present end.
    """

    def __init__(
        self, api: ClusterApi, clock: Clock, locks: NodeLocks, volumes: Volumes, stands: Stands, progress: Progress
    ) -> None:
        self._api, self._clock, self._locks, self._volumes, self._stands = api, clock, locks, volumes, stands
        self._decided: dict[str, Pod] = {}
        self._versions: dict[str, str] = {}
        #: Commands that hold a node's lock, and have no outcome yet.
        self._locked: dict[str, Member] = {}
        self._nodes = NodeReads(api)
        self._cordoned: dict[str, bool] = {}
        self._gangs = Gangs()
        self._progress = progress
        self._model = Model()

    def begin(self, commands: Mapping[str, Command], model: Model, place: Callable[[], int]) -> None:
        """A step begins: forget what was read of nodes; keep each command's pod and node as they were decided on.

        ``place`` is where the model stands on the log.
        """
        self._model = model
        self._nodes.begin()
        self._progress.keep(commands)
        self._cordoned = {key: cordoned for key, cordoned in self._cordoned.items() if key in commands}
        self._decided = {key: pod for key, pod in self._decided.items() if key in commands}
        self._versions = {key: version for key, version in self._versions.items() if key in commands}
        for key, command in commands.items():
            entry = model.pods.get(command.bind.uid) if command.bind else None
            if entry is not None:
                self._decided.setdefault(key, entry.pod)
            view = model.nodes.get(command.bind.node) if command.bind else None
            if view is not None and view.node is not None:
                self._cordoned.setdefault(key, view.node.unschedulable)
        self._volumes.begin(commands)
        self._gangs.begin(commands, model, place)

    def use_version(self, command: str, version: str) -> None:
        """Our own write has moved the pod's resourceVersion to this one."""
        self._versions[command] = version

    async def carry_out(self, command: Command, member: Member) -> Answer:
        """Do what can be done now for one command. Raises nothing."""
        try:
            self._progress.begins(command.id, self._clock.now_ms())
            answer = await self._prepared(command, member) or await self._bind(command, member)
            return await self._after(command, member, answer)
        except (ApiError, ApiUnknown) as error:
            return Answer(None, waits_for=str(error))

    async def _prepared(self, command: Command, member: Member) -> Answer | None:
        """See to gang, node, volumes and lock, in this order; None if the Binding may be sent."""
        refusal = self._given_up(member) or self._gangs.refusal(command) or await self._node_refusal(command, member)
        if refusal:
            return await self._refuse(command, member, refusal)
        decided = self._decided.get(command.id)
        waits = await self._volumes.prepare(command, member, decided) if decided else None
        if waits and waits.failed:
            return await self._refuse(command, member, waits.why, prebind=True)
        if waits:
            return Answer(None, acted=waits.acted, waits_for=waits.why)
        if not member.take_lock:
            return None
        if not self._locks.has(member.node, lock_key(member.allocation), command.id):
            # Made before a crash, the Binding needs no lock any more, and nobody would remove one that is taken now.
            _, outcome = await self._read(command, member)
            if outcome is not None:
                return Answer(outcome)
        taken, why = await self._locks.take(member.node, lock_key(member.allocation), command.id)
        if taken == "missing":
            return await self._refuse(command, member, why)
        if taken == "held":
            return Answer(None, acted=False, holds_lane=True, waits_for=self._lock_text(member, why))
        self._locked[command.id] = member
        return None

    async def _after(self, command: Command, member: Member, answer: Answer) -> Answer:
        """A lock of a Binding that came to nothing is removed again (A-20)."""
        if not member.take_lock or answer.outcome is None:
            return answer
        key = lock_key(member.allocation)
        if answer.outcome.result == "applied":
            self._locks.forget(member.node, key, command.id)
        else:
            await self._locks.release(member.node, key, command.id)
        self._locked.pop(command.id, None)
        return answer

    async def let_go(self, model: Model) -> bool:
        """Remove the locks of commands that wait no more, and came to nothing unseen: their pods are gone (A-20, F-5).

        A pod that was seen bound has left the lock to its node agent. True if anything was done. Raises nothing.
        """
        done = False
        for key in [key for key in self._locked if key not in model.commands]:
            member = self._locked[key]
            entry, lock = model.pods.get(member.uid), lock_key(member.allocation)
            try:
                if entry is not None and entry.pod.node:
                    self._locks.forget(member.node, lock, key)
                else:
                    await self._locks.release(member.node, lock, key)
            except (ApiError, ApiUnknown):
                continue  # the next step tries again
            del self._locked[key]
            done = True
        return done

    def _given_up(self, member: Member) -> str:
        """Say whether the place may be free: the pod was seen on a node, so it could end there (F-4).

        If it is there the Binding is reported; if a restore undid that, no other one may be under way to its old place.
        """
        entry = self._model.pods.get(member.uid)
        seen = entry is not None and (entry.lost or bool(entry.pod.node))
        return "its Binding was undone, and its place may be another's by now" if seen else ""

    async def _node_refusal(self, command: Command, member: Member) -> str:
        """Say why nothing may be bound to the node: it, or its cards, are gone or full, or it was cordoned (F-12a)."""
        found = await self._nodes.get(member.node)
        if found is None:
            return f"node {member.node} does not exist"
        if member.node_uid and str(found["metadata"].get("uid", "")) != member.node_uid:
            return f"node {member.node} is another object than the one that was decided on"
        if not self._cordoned.get(command.id, True) and (found.get("spec") or {}).get("unschedulable") is True:
            return f"node {member.node} was cordoned after the decision"
        lost = lost_cards((found["metadata"].get("annotations") or {}).get(names.NODE_REGISTER, ""), member.allocation)
        if lost:
            return f"node {member.node} does not register {', '.join(lost)} any more"
        return no_room(self._model, command, member)

    async def _bind(self, command: Command, member: Member) -> Answer:
        self._progress.sends(command.id, self._decided.get(command.id), self._clock.now_ms())
        answer = await self._sent(command, member)
        if answer.outcome is not None and answer.outcome.result == "applied":
            self._progress.applied(command.id, answer.outcome.time_ms)
        return answer

    async def _sent(self, command: Command, member: Member) -> Answer:
        for _ in range(TRIES):
            version = self._versions.get(command.id, member.version)
            error = await self._send(command, member, version)
            if error is None and version:
                return Answer(self._outcome(command, member, "applied", version=version))
            if error is not None and error.status == 429:
                return Answer(None, waits_for=str(error))
            item, outcome = await self._read(command, member)
            if item is None:
                return Answer(outcome)
            if error is not None and error.status != 409:
                return await self._refuse(command, member, error.message, error.status)
            if item["metadata"].get("deletionTimestamp") or not self._unchanged(command, item):
                return await self._refuse(command, member, "the pod was changed after the decision")
            self._versions[command.id] = str(item["metadata"].get("resourceVersion", ""))
            # The version was read before the log is asked: whoever gives the command up later moves it again.
            if self._versions[command.id] == version or not await self._stands(command.id):
                break
        return Answer(None, waits_for="conflict")

    async def _send(self, command: Command, member: Member, version: str) -> ApiError | None:
        try:
            await self._api.bind(member.namespace, member.name, binding(command, member, version, self._clock))
        except ApiError as error:
            return error
        return None

    async def _read(self, command: Command, member: Member) -> tuple[Json | None, Outcome | None]:
        """Read the pod back: either it says what came of the command, or it is there and not assigned."""
        try:
            item = await self._api.get(POD, member.namespace, member.name)
        except ApiError as missing:
            if missing.status != 404:
                raise
            return None, self._outcome(command, member, "gone", missing.message, status=missing.status)
        pod = objects.pod(item)
        if pod.uid != member.uid:
            return None, self._outcome(command, member, "gone", f"another pod has the name: uid {pod.uid}")
        if pod.node:
            ours = pod.node == member.node and pod.annotations.get(names.DECISION) == command.id
            return None, self._outcome(command, member, "applied" if ours else "lost", version=pod.version)
        return item, None

    async def _refuse(
        self, command: Command, member: Member, message: str, status: int = 0, *, prebind: bool = False
    ) -> Answer:
        """Give the command up: first the pod is written, so that no Binding of it can come late (``fence``)."""
        for _ in range(TRIES):
            item, outcome = await self._read(command, member)
            if item is None:
                return Answer(outcome)
            refused = self._outcome(command, member, "refused", message, status=status, prebind=prebind)
            try:
                await fence(self._api, self._clock, item, command.id, texts.text(of_refusal(refused)))
            except ApiError as error:
                if error.status != 409:
                    raise
                continue
            return Answer(refused)
        return Answer(None, waits_for="conflict")

    def _unchanged(self, command: Command, item: Json) -> bool:
        """Tell whether the pod differs from the one that was decided on only by its version and our own marks."""
        decided = self._decided.get(command.id)
        now = objects.pod(project(POD, item))
        return decided is None or _bare(now) == _bare(decided)

    def _outcome(
        self,
        command: Command,
        member: Member,
        result: Result,
        message: str = "",
        *,
        version: str = "",
        status: int = 0,
        prebind: bool = False,
    ) -> Outcome:
        return Outcome(
            command=command.id,
            verb="bind",
            namespace=member.namespace,
            name=member.name,
            uid=member.uid,
            result=result,
            node=member.node,
            version=version,
            status=status,
            message=message,
            prebind=prebind,
            time_ms=self._clock.now_ms(),
        )

    def _lock_text(self, member: Member, why: str) -> str:
        if member.allocation:
            return f"node {member.node} locked for {member.name} hamivgpu lockname {why}"
        return f"node {member.node} locked for lockname gpushare {why}"


def binding(command: Command, member: Member, version: str, clock: Clock) -> Json:
    """Return the Binding of a member: only our own keys (devices/A-6, A-7, A-9, A-9a, G-7)."""
    notes = {names.DECISION: command.id}
    if member.allocation:
        notes |= {
            names.VGPU_NODE: member.node,
            names.VGPU_TIME: str(member.vgpu_time),
            names.VGPU_IDS: member.allocation,
            names.DEVICES_TO_ALLOCATE: member.allocation,
            names.BIND_PHASE: "allocating",
            names.BIND_TIME: str(clock.now_ms() // 1000),
        }
    if member.gpu_index:
        notes |= {names.GPU_INDEX: member.gpu_index, names.PREDICATE_TIME: str(member.predicate_time_ns)}
    meta = {
        "namespace": member.namespace,
        "name": member.name,
        "uid": member.uid,
        "resourceVersion": version,
        "annotations": notes,
    }
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in meta.items() if value},
        "target": {"apiVersion": "v1", "kind": "Node", "name": member.node},
    }


def _bare(pod: Pod) -> Pod:
    """Return a pod without what our own writes move: version, nominated node, the marks of copied manifests."""
    kept = {
        key: value for key, value in pod.annotations.items() if key not in (names.VGPU_NODE, names.DEVICES_TO_ALLOCATE)
    }
    return replace(pod, version="", nominated_node="", annotations=kept)
