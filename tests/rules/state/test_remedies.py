"""The least change that would let a group run, and who is ahead of it."""

from __future__ import annotations

from typing import Any

import pytest
from history import START_MS, History, node, pod

from events.names import GROUP_NAME
from scheduling.remedies import ahead, least_change

VOLCANO = "scheduling.volcano.sh/v1beta1"


def queue(capability: dict[str, str] | None = None, name: str = "default") -> dict[str, Any]:
    spec = {"weight": 1, **({"capability": capability} if capability else {})}
    meta = {"name": name, "uid": f"queue-{name}"}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": meta, "spec": spec, "status": {"state": "Open"}}


def group(name: str, min_member: int = 1, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    meta = {"namespace": "ns", "name": name, "uid": f"group-{name}", "creationTimestamp": created}
    spec = {"minMember": min_member, "queue": "default"}
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}}


def member(name: str, of: str, memory: int = 4000, **more: Any) -> dict[str, Any]:
    return pod(name, f"uid-{name}", memory=memory, **{GROUP_NAME: of}, **more)


@pytest.fixture
def history() -> History:
    found = History()
    found.listed()
    found.see(node())
    found.see(group("g"))
    return found


def help_for(history: History, name: str = "ns/g") -> str:
    remedy = least_change(history.fold.model, name, START_MS)
    return remedy.text if remedy else ""


def test_a_group_that_runs_anyway_needs_no_change(history: History) -> None:
    history.see(queue())
    history.see(member("p", "g"))
    assert help_for(history) == ""


def test_a_queues_capability(history: History) -> None:
    history.see(queue({"volcano.sh/vgpu-memory": "3000"}))
    history.see(member("p", "g"))
    assert help_for(history) == "queue default's capability volcano.sh/vgpu-memory were 4000 (is 3000)"


def test_memory_on_a_card(history: History) -> None:
    history.see(queue())
    record = {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,6000,0:"}
    history.see(pod("there", "uid-there", "n1", 6000, **record))
    history.see(member("p", "g"))
    assert help_for(history) == "1808 MiB freed up on GPU-a of node n1"


def test_a_cordoned_node(history: History) -> None:
    history.see(queue())
    history.see({**node(), "spec": {"unschedulable": True}}, "7")
    history.see(member("p", "g"))
    assert help_for(history) == "node n1 were schedulable"


def test_the_end_of_a_pod(history: History) -> None:
    """All cores of the card are taken: only the end of the one who has them helps."""
    history.see(queue())
    item = pod("there", "uid-there", "n1", 100, **{"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,100,100:"})
    history.see(item)
    history.see(member("p", "g"))
    assert help_for(history) == "pod ns/there on node n1 ended"


def test_what_nothing_helps_has_no_remedy(history: History) -> None:
    history.see(queue())
    history.lose(node())
    history.see(member("p", "g"))
    assert help_for(history) == ""


def test_asking_changes_nothing(history: History) -> None:
    history.see(queue({"volcano.sh/vgpu-memory": "3000"}))
    history.see(member("p", "g"))
    before = history.fold.digest()
    help_for(history)
    assert history.fold.digest() == before == history.again().digest()


def test_who_is_ahead(history: History) -> None:
    """scheduling section 4.7: older groups of the same queue first."""
    history.see(queue({"volcano.sh/vgpu-memory": "1"}))
    history.see(group("older", created="2025-01-01T00:00:00Z"))
    history.see(group("younger", created="2026-02-01T00:00:00Z"))
    for name in ("g", "older", "younger"):
        history.see(member(f"p-{name}", name))
    assert ahead(history.fold.model, "ns/g", START_MS) == ["ns/older"]
    assert ahead(history.fold.model, "ns/older", START_MS) == []
