"""What lab 8 does and what each of its steps must show: manifests, questions to the cluster, expected answers.

Source: docs of the lab under tests/scenarios/labs/lab8, appendix A of docs/spec/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from events import names
from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.cli.labview import LabView

NAMESPACE = "volcano-demo"
CARD = "GPU-5f1c3a52-0b6e-4d5c-9c41-7a3070700001"
BLOCKED = (
    "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; "
    "Pending: 1 Schedulable, 1 Unschedulable"
)

Question = Callable[[LabView], Awaitable[str]]


@dataclass(frozen=True)
class Check:
    """One thing to see: what is asked, and the answer that must come. ``begins``: the answer may go on."""

    label: str
    question: Question
    expected: str
    begins: bool = False

    def holds(self, seen: str) -> bool:
        return seen.startswith(self.expected) if self.begins else seen == self.expected


@dataclass(frozen=True)
class Step:
    """One step of the lab: what is applied, what is seen, what is deleted before the next."""

    title: str
    manifests: tuple[str, ...]
    checks: tuple[Check, ...]
    deletes: tuple[tuple[Kind, str], ...] = field(default=())


def _phase(name: str) -> Question:
    async def ask(view: LabView) -> str:
        pod = await view.get(POD, NAMESPACE, name)
        node = pod.get("spec", {}).get("nodeName")
        phase = str(pod.get("status", {}).get("phase", "absent"))
        return f"{phase} on {node}" if node else phase

    return ask


def _record(name: str) -> Question:
    async def ask(view: LabView) -> str:
        pod = await view.get(POD, NAMESPACE, name)
        return str(pod.get("metadata", {}).get("annotations", {}).get(names.VGPU_IDS, "none"))

    return ask


def _environment(name: str) -> Question:
    async def ask(view: LabView) -> str:
        lines = (await view.container_log(NAMESPACE, name)).splitlines()
        wanted = ("CUDA_DEVICE_MEMORY_LIMIT_0=", "CUDA_DEVICE_SM_LIMIT=")
        return " ".join(line for line in lines if line.startswith(wanted)) or "none"

    return ask


async def _cards(view: LabView) -> str:
    return view.cards()


def _group_of(job: str) -> Callable[[LabView], Awaitable[Json]]:
    async def find(view: LabView) -> Json:
        uid = (await view.get(VOLCANO_JOB, NAMESPACE, job)).get("metadata", {}).get("uid", "")
        return await view.get(POD_GROUP, NAMESPACE, f"{job}-{uid}")

    return find


def _group(job: str) -> Question:
    async def ask(view: LabView) -> str:
        status = (await _group_of(job)(view)).get("status", {})
        return f"{status.get('phase', 'absent')}, {status.get('running', 0)} running"

    return ask


def _reason(job: str) -> Question:
    async def ask(view: LabView) -> str:
        conditions = (await _group_of(job)(view)).get("status", {}).get("conditions", [])
        standing = [item for item in conditions if item["type"] == "Unschedulable" and item["status"] == "True"]
        return f"{standing[-1]['reason']}: {standing[-1]['message']}" if standing else "none"

    return ask


def _job(name: str) -> Question:
    async def ask(view: LabView) -> str:
        status = (await view.get(VOLCANO_JOB, NAMESPACE, name)).get("status", {})
        phase = status.get("state", {}).get("phase", "absent")
        return f"{phase}, {status.get('running', 0)} running, {status.get('pending', 0)} pending"

    return ask


def _allocated(queue: str) -> Question:
    async def ask(view: LabView) -> str:
        allocated = (await view.get(QUEUE, "", queue)).get("status", {}).get("allocated", {})
        kinds = ("number", "memory", "cores")
        return ", ".join(f"{kind} {allocated.get(f'volcano.sh/vgpu-{kind}', '0')}" for kind in kinds)

    return ask


def _running(job: str, share: str) -> tuple[Check, ...]:
    pods = [f"{job}-vgpu-worker-{index}" for index in range(2)]
    return (
        Check(f"VolcanoJob {job}", _job(job), "Running, 2 running, 0 pending"),
        Check("its PodGroup", _group(job), "Running, 2 running"),
        *(Check(f"pod {pod}", _phase(pod), "Running on master-01") for pod in pods),
        *(Check("  its devices", _record(pod), f"{CARD},NVIDIA,{share}:") for pod in pods),
    )


def _waiting(job: str) -> tuple[Check, ...]:
    pods = [f"{job}-vgpu-worker-{index}" for index in range(2)]
    return (
        Check("PodGroup condition", _reason(job), f"NotEnoughResources: {BLOCKED}", begins=True),
        Check("its PodGroup", _group(job), "Inqueue, 0 running"),
        *(Check(f"pod {pod}", _phase(pod), "Pending") for pod in pods),
        *(Check("  its devices", _record(pod), "none") for pod in pods),
        Check("cards", _cards, f"{CARD} 0/8192 MiB, 0/100 cores, 0/10 shares"),
    )


STEPS: tuple[Step, ...] = (
    Step(
        "step 4: a single vGPU pod",
        ("00-cluster.yaml", "01-single-pod.yaml"),
        (
            Check("pod volcano-vgpu-single", _phase("volcano-vgpu-single"), "Running on master-01"),
            Check("  its devices", _record("volcano-vgpu-single"), f"{CARD},NVIDIA,2000,30:"),
            Check(
                "  its container's limits",
                _environment("volcano-vgpu-single"),
                "CUDA_DEVICE_MEMORY_LIMIT_0=2000m CUDA_DEVICE_SM_LIMIT=30",
            ),
            Check("cards", _cards, f"{CARD} 2000/8192 MiB, 30/100 cores, 1/10 shares"),
            Check("queue default allocated", _allocated("default"), "number 1, memory 2k, cores 30"),
        ),
        ((POD, "volcano-vgpu-single"),),
    ),
    Step(
        "step 5: a gang of two starts together",
        ("02-gang-job.yaml",),
        (
            *_running("vcjob-vgpu-gang", "2000,30"),
            Check("cards", _cards, f"{CARD} 4000/8192 MiB, 60/100 cores, 2/10 shares"),
        ),
        ((VOLCANO_JOB, "vcjob-vgpu-gang"),),
    ),
    Step(
        "step 6: a gang that does not fit must not start in part",
        ("03-gang-insufficient.yaml",),
        _waiting("vcjob-vgpu-gang-insufficient"),
        ((VOLCANO_JOB, "vcjob-vgpu-gang-insufficient"),),
    ),
    Step(
        "step 7: within the queue's limit",
        ("04-queue.yaml", "05-queue-fit-job.yaml"),
        (
            *_running("vcjob-vgpu-queue-fit", "1000,30"),
            Check("cards", _cards, f"{CARD} 2000/8192 MiB, 60/100 cores, 2/10 shares"),
            Check("queue gpu-small-queue allocated", _allocated("gpu-small-queue"), "number 2, memory 2k, cores 60"),
        ),
        ((VOLCANO_JOB, "vcjob-vgpu-queue-fit"),),
    ),
    Step(
        "step 7: beyond the queue's limit, though the node has room",
        ("06-queue-exceeds-job.yaml",),
        (
            *_waiting("vcjob-vgpu-queue-exceeds"),
            Check("queue gpu-small-queue allocated", _allocated("gpu-small-queue"), "number 0, memory 0, cores 0"),
        ),
    ),
)
