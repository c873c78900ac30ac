"""The last question of a run: would one more plain pod still be served?

A node and a pod that asks for nothing but that node are added when everything else is over and printed; the pod must be
bound, or be told why not.
"""

from __future__ import annotations

from events.kinds import NAMESPACE, NODE, POD
from services.cluster import defaults
from services.simulator.system import NotAtRest, System
from services.simulator.truth import node_of

_NAME = "gpuledger-probe"


async def still_serves(system: System) -> str:
    """Return why one more plain pod was not served, empty if it was."""
    if any(not role.running for role in system.roles.values()) or system.model.config is None:
        return ""
    for kind, item in (
        (NAMESPACE, {"metadata": {"name": _NAME}}),
        (NODE, {"metadata": {"name": _NAME, "labels": {_NAME: "true"}},
                "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}}),
        (POD, {"metadata": {"name": _NAME, "namespace": _NAME},
               "spec": {"schedulerName": "gpuledger", "nodeSelector": {_NAME: "true"},
                        "containers": [{"name": "main", "image": "probe"}]}}),
    ):  # fmt: skip
        defaults.apply(kind, item)
        system.store.put(kind, item)
    try:
        await system.settle()
    except NotAtRest as error:
        return f"one more plain pod: {error}"
    pod = system.store.get(POD, _NAME, _NAME)
    told = [
        item for item in (pod or {}).get("status", {}).get("conditions") or [] if item.get("type") == "PodScheduled"
    ]
    return "" if node_of(pod) or told else "one more plain pod was not served"
