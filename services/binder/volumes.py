"""Claims that wait for their first consumer: what must happen before the Binding (scheduling/F-3, section 9 no. 28).

Such a claim is provisioned only once somebody says on which node it will be used. The binder says so and waits, in the
command's own place and for a limited time; nobody else waits with it. If it takes too long the choice is taken back and
the command is refused, so that the pod is decided anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import PERSISTENT_VOLUME_CLAIM
from events.reading import mapping
from events.records import Member
from scheduling.objects import Pod
from scheduling.state.model import Command

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
LIMIT_MS: Final = 10 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Waits:
    """Why the Binding cannot be sent: something was asked for (``acted``), is awaited, or has ``failed``."""

    why: str
    acted: bool = False
    failed: bool = False


class Volumes:
    """Sees to the claims of pods before they are bound."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._since: dict[str, int] = {}

    def begin(self, commands: Mapping[str, Command]) -> None:
        """A step begins: forget what commands waited for that are no more."""
        self._since = {key: since for key, since in self._since.items() if key in commands}

    async def prepare(self, command: Command, member: Member, pod: Pod) -> Waits | None:
        """Choose the node for the pod's unbound claims; None if all are bound. Raises ApiError, ApiUnknown."""
        waiting: Waits | None = None
        for name in claims_of(pod):
            claim = await self._claim(pod.namespace, name)
            if claim is None:
                return Waits(f'persistentvolumeclaim "{name}" not found', failed=True)
            if _bound(claim):
                continue
            since = self._since.setdefault(command.id, self._clock.now_ms())
            if self._clock.now_ms() - since > LIMIT_MS:
                await self._choose(claim, member.node, None)
                return Waits(f"timed out waiting for persistentvolumeclaim {name} to be bound", failed=True)
            acted = await self._choose(claim, member.node, member.node)
            before = waiting is not None and waiting.acted
            waiting = Waits(f"persistentvolumeclaim {name} is not bound yet", acted=acted or before)
        return waiting

    async def _claim(self, namespace: str, name: str) -> Json | None:
        """Return a claim, None if it does not exist: it went after the decision, and nobody knows if it comes back."""
        try:
            return await self._api.get(PERSISTENT_VOLUME_CLAIM, namespace, name)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def _choose(self, claim: Json, node: str, chosen: str | None) -> bool:
        """Set or take back the choice of a node; True if something had to be written."""
        meta = claim["metadata"]
        present = mapping(meta.get("annotations")).get(SELECTED_NODE)
        if present == chosen or (chosen is None and present != node):
            return False
        merge = {
            "metadata": {
                "uid": meta.get("uid", ""),
                "resourceVersion": meta.get("resourceVersion", ""),
                "annotations": {SELECTED_NODE: chosen},
            }
        }
        await self._api.patch(PERSISTENT_VOLUME_CLAIM, meta["namespace"], meta["name"], merge)
        return True


def claims_of(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that a pod uses."""
    volumes = pod.spec.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        claim = mapping(mapping(volume).get("persistentVolumeClaim")).get("claimName")
        if isinstance(claim, str) and claim:
            yield claim
        elif isinstance(mapping(volume).get("ephemeral"), dict):
            yield f"{pod.name}-{volume.get('name')}"


def _bound(claim: Json) -> bool:
    return bool(mapping(claim.get("spec")).get("volumeName"))
