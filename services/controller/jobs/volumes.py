"""The volumes of a VolcanoJob: claims that it brings along, mounted in every container of every pod."""

from __future__ import annotations

import copy

from events.canonical import Json
from events.kinds import PERSISTENT_VOLUME_CLAIM, VOLCANO_JOB
from events.reading import items, mapping, text
from services.controller.actions import Action, Create, Emit
from services.controller.jobs.model import VolcanoJob
from services.controller.objects import Ref, owner_reference


def _named(job: VolcanoJob) -> list[tuple[str, Json]]:
    """Each volume with the name of its claim; one that names none gets a name by its place."""
    found = []
    for index, volume in enumerate(job.volumes):
        name = text(volume.get("volumeClaimName")) or f"{job.name}-volume-{index}"
        found.append((name, volume))
    return found


def marks(job: VolcanoJob) -> dict[str, str]:
    """The entries of ``status.controlledResources`` for the claims that the job made."""
    return {f"volume-pvc-{name}": name for name, volume in _named(job) if mapping(volume.get("volumeClaim"))}


def claims(job: VolcanoJob) -> list[Action]:
    """The claims that the job asks for and that were not made yet."""
    made = mapping(job.now.get("controlledResources"))
    actions: list[Action] = []

    def refused(why: str) -> list[Action]:
        return _refused(job, why)

    for name, volume in _named(job):
        content = mapping(volume.get("volumeClaim"))
        if content and f"volume-pvc-{name}" not in made:
            actions.append(Create(PERSISTENT_VOLUME_CLAIM, _claim(job, name, content), refused, must=True))
    return actions


def _claim(job: VolcanoJob, name: str, content: Json) -> Json:
    about = {
        "name": name,
        "namespace": job.namespace,
        "ownerReferences": [owner_reference(VOLCANO_JOB, job.item)],
    }
    kind = PERSISTENT_VOLUME_CLAIM
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": about,
        "spec": copy.deepcopy(content),
    }


def _refused(job: VolcanoJob, why: str) -> list[Action]:
    ref = Ref(VOLCANO_JOB, job.namespace, job.name)
    return [Emit(ref, job.uid, "Warning", "PVCError", f"Failed to create PVC for job: {why}", once=True)]


def mount(job: VolcanoJob, pod: Json) -> None:
    """Mount the job's volumes in every container of a new pod."""
    content = pod["spec"]
    for index, (name, volume) in enumerate(_named(job)):
        path = text(volume.get("mountPath"))
        if not path:
            continue
        known = f"job-volume-{index}"
        source = {"name": known, "persistentVolumeClaim": {"claimName": name}}
        content["volumes"] = [*items(content.get("volumes")), source]
        for container in [*items(content.get("initContainers")), *items(content.get("containers"))]:
            container["volumeMounts"] = [
                *items(container.get("volumeMounts")),
                {"name": known, "mountPath": path},
            ]
