"""The exact names that users, node agents and other schedulers know: annotations, resources, ConfigMaps.

Source: docs/spec/devices.md section 1 (C-numbers) and docs/spec/scheduling.md (AS-, PG-numbers).
"""

from __future__ import annotations

from typing import Final

# Resources (C-1 to C-6): defaults; the device ConfigMap may rename the first four.
VGPU_NUMBER: Final = "volcano.sh/vgpu-number"
VGPU_MEMORY: Final = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES: Final = "volcano.sh/vgpu-cores"
GPU_MEMORY: Final = "volcano.sh/gpu-memory"
GPU_NUMBER: Final = "volcano.sh/gpu-number"

# Pod annotations (C-8 to C-19).
VGPU_MODE: Final = "volcano.sh/vgpu-mode"
PODGROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"
USE_GPU_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
NOUSE_GPU_UUID: Final = "volcano.sh/vgpu-nouse-gpuuuid"
USE_GPU_TYPE: Final = "nvidia.com/use-gputype"
NOUSE_GPU_TYPE: Final = "nvidia.com/nouse-gputype"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
VGPU_IDS: Final = "volcano.sh/vgpu-ids-new"
DEVICES_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
BIND_PHASE: Final = "volcano.sh/bind-phase"
BIND_TIME: Final = "volcano.sh/bind-time"
GPU_INDEX: Final = "volcano.sh/gpu-index"
PREDICATE_TIME: Final = "volcano.sh/predicate-time"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
DECISION: Final = "gpuledger.dev/decision"
REFUSED: Final = "gpuledger.dev/refused"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

# Node annotations (C-21 to C-24).
NODE_REGISTER: Final = "volcano.sh/node-vgpu-register"
UNHEALTHY_IDS: Final = "volcano.sh/gpu-unhealthy-ids"
VGPU_NODE_LOCK: Final = "hamivgpu"
GPUSHARE_NODE_LOCK: Final = "gpu"
#: Which command of ours took a node lock, by the lock's annotation.
LOCK_MARKS: Final = {VGPU_NODE_LOCK: "gpuledger.dev/lock-hamivgpu", GPUSHARE_NODE_LOCK: "gpuledger.dev/lock-gpu"}

# ConfigMaps (C-27, C-29).
SCHEDULER_CONFIG: Final = ("volcano-system", "volcano-scheduler-configmap", "volcano-scheduler.conf")
DEVICE_CONFIG: Final = ("kube-system", "volcano-vgpu-device-config", "device-config.yaml")

#: The scheduler names that the embedded cluster serves (design section 7: on a real one only the first by default).
SCHEDULER_NAMES: Final = ("gpuledger", "volcano")
