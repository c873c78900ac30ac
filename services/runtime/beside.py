"""Life beside Volcano (design section 7): its scheduler name is served only where its own scheduler does not run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import LEASE

VOLCANO: Final = "volcano"
NAMESPACE: Final = "volcano-system"
#: The names under which Volcano's scheduler holds its leadership, in its older and newer releases.
LEASES: Final = ("vc-scheduler", "volcano")
_DURATION_S: Final = 15


async def refusal(api: ClusterApi, clock: Clock, scheduler_names: Sequence[str]) -> str:
    """Say why these scheduler names may not be served, or nothing. Raises ApiUnknown; ApiError but for 404."""
    if VOLCANO not in scheduler_names:
        return ""
    for name in LEASES:
        try:
            lease = await api.get(LEASE, NAMESPACE, name)
        except ApiError as error:
            if error.status != 404:
                raise
            continue
        holder = alive(lease, clock.now_ms())
        if holder:
            return (
                f"scheduler name {VOLCANO} is served by Volcano itself: {holder} holds Lease {NAMESPACE}/{name}; "
                "stop it first, or leave the name out of scheduler_names"
            )
    return ""


def alive(lease: Json, now_ms: int) -> str:
    """Return who holds a Lease now, empty if nobody does."""
    found = lease.get("spec")
    spec: dict[str, Any] = found if isinstance(found, dict) else {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    duration = spec.get("leaseDurationSeconds")
    seconds = duration if isinstance(duration, int) else _DURATION_S
    if not isinstance(holder, str) or not holder or not isinstance(renewed, str):
        return ""
    try:
        since = datetime.fromisoformat(renewed.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return ""
    return holder if now_ms / 1000 < since + seconds else ""
