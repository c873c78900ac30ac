"""The command of a scheduler that was replaced: one more batch, written under its superseded term from its old view."""

from __future__ import annotations

from typing import Any

from events.canonical import Json
from events.codec import record_id, to_message
from events.kinds import NODE
from events.records import Batch, BindCommand, Member, Record
from scheduling.decide import ENGINE
from scheduling.devices.record import Share, encode
from scheduling.state.model import Term
from services.simulator.system import CLUSTER, System

#: Far behind any number that the old term has used.
_NUMBER = 1_000_000


async def command(system: System, body: dict[str, Any], pod: Json | None) -> None:
    """Append the command to the log."""
    view = system.deposed[-1].follower if system.deposed else system.inspector
    base, state = view.state.mark()
    now = system.clock.now_ms()
    batch = Batch(
        batch=_NUMBER,
        base=base,
        chain=view.chain,
        state=state,
        time_ms=now,
        engine=ENGINE,
        binds=[BindCommand(group="", group_uid="", members=[_member(system, body, pod)])],
    )
    term = max(system.model.terms.get("scheduler", Term()).number - 1, 0)
    name = record_id(CLUSTER, system.model.incarnation, "scheduler", term, _NUMBER)
    record = Record(name, "scheduler", term, _NUMBER, "", now, batch)
    await system.log.append([to_message(record, CLUSTER)])


def _member(system: System, body: dict[str, Any], pod: Json | None) -> Member:
    namespace, _, name = body["pod"].partition("/")
    meta = pod["metadata"] if pod is not None else {}
    node = system.store.get(NODE, "", body["node"])
    shares = [Share(uuid, "", body["mem"], 0, 0, place) for place, uuid in enumerate(body["uuids"])]
    return Member(
        n=0,
        namespace=namespace,
        name=name,
        uid=meta.get("uid") or "",
        version=meta.get("resourceVersion") or "",
        node=body["node"],
        node_uid=node["metadata"]["uid"] if node is not None else "",
        allocation=encode(shares),
        vgpu_time=system.clock.now_ms() // 1000,
    )
