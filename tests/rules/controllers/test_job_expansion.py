"""What a VolcanoJob becomes (scheduling/J-4 to J-9)."""

from __future__ import annotations

import base64

import pytest
from control_room import NS, TEMPLATE, ControlRoom, job, queue
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from events.kinds import (
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    SECRET,
    SERVICE,
    VOLCANO_JOB,
)
from services.controller.jobs import sshkeys
from services.controller.usage import Role, of_job, of_pod

UID = "uid: job-uid"


@pytest.fixture
def room() -> ControlRoom:
    return ControlRoom()


def test_the_group_of_a_job(room: ControlRoom) -> None:
    """scheduling/J-4: name, owner, labels and annotations, minima, queue"""
    room.apply(queue("q"))
    room.apply(
        job(
            metadata=f"{UID}, labels: {{a: b}}, annotations: {{volcano.sh/preemptable: 'true'}}",
            spec="queue: q, minAvailable: 3, priorityClassName: system-node-critical, networkTopology: {mode: soft}",
            tasks=f"{{name: m, replicas: 1, template: {TEMPLATE}}}, "
            f"{{name: w, replicas: 4, minAvailable: 2, template: {TEMPLATE}}}",
        )
    )
    room.settle()
    group = room.one(POD_GROUP, "j-job-uid")
    assert group["metadata"]["labels"] == {"a": "b"}
    assert group["metadata"]["annotations"]["volcano.sh/preemptable"] == "true"
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "job-uid", True)
    assert group["spec"] == {
        "minMember": 3,
        "minTaskMember": {"m": 1, "w": 2},
        "queue": "q",
        "priorityClassName": "system-node-critical",
        "networkTopology": {"mode": "soft"},
        "minResources": {"pods": "3", "count/pods": "3"},
    }


def test_limits_of_a_template_are_no_requests(room: ControlRoom) -> None:
    """scheduling/AS-8, J-9: limits alone give pods and count/pods; requests count"""
    limits = TEMPLATE.replace("image: none", "image: none, resources: {limits: {volcano.sh/vgpu-memory: 3000}}")
    asked = limits.replace("limits", "requests")
    for name, template, extra in (
        ("l", limits, {}),
        ("r", asked, {"volcano.sh/vgpu-memory": "6k", "requests.volcano.sh/vgpu-memory": "6k"}),
    ):
        room.apply(job(name, metadata=f"uid: {name}", tasks=f"{{name: w, replicas: 2, template: {template}}}"))
        room.settle()
        group = room.one(POD_GROUP, f"{name}-{name}")
        assert group["spec"]["minResources"] == {"pods": "2", "count/pods": "2", **extra}


def test_no_pod_before_the_group_is_admitted(room: ControlRoom) -> None:
    """scheduling/J-5"""
    room.apply(job(metadata=UID))
    room.settle()
    assert room.names(POD) == []
    room.phase_of_group("j-job-uid", "Inqueue")
    room.settle()
    assert room.names(POD) == ["j-w-0", "j-w-1"]


def test_names_annotations_and_labels_of_pods(room: ControlRoom) -> None:
    """scheduling/J-6, J-7"""
    template = "{metadata: {annotations: {volcano.sh/vgpu-mode: mig}, labels: {mine: x}}, " + TEMPLATE[1:]
    room.run_job(
        job(
            metadata=f"{UID}, annotations: "
            "{volcano.sh/jdb-min-available: '1', volcano.sh/revocable-zone: '*', other: x}",
            spec="schedulerName: volcano, priorityClassName: system-node-critical",
            tasks=f"{{name: w, replicas: 2, topologyPolicy: best-effort, template: {template}}}",
        )
    )
    pod = room.one(POD, "j-w-1")
    notes = pod["metadata"]["annotations"]
    assert notes == {
        "volcano.sh/vgpu-mode": "mig",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "w",
        "scheduling.k8s.io/group-name": "j-job-uid",
        "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "default",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "j-w",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/jdb-min-available": "1",
        "volcano.sh/revocable-zone": "*",
        "volcano.sh/numa-topology-policy": "best-effort",
    }
    assert pod["metadata"]["labels"] == {
        "mine": "x",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-name": "j",
        "volcano.sh/task-spec": "w",
        "volcano.sh/job-namespace": NS,
        "volcano.sh/queue-name": "default",
    }
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["spec"]["priorityClassName"] == "system-node-critical"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_partitions(room: ControlRoom) -> None:
    """scheduling/J-1, J-6, PG-1: partition labels, and sub-groups of the PodGroup"""
    policy = "partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1}"
    room.run_job(job(metadata=UID, tasks=f"{{name: w, replicas: 4, {policy}, template: {TEMPLATE}}}"))
    parts = [room.one(POD, f"j-w-{i}")["metadata"]["labels"]["volcano.sh/partition-id"] for i in range(4)]
    assert parts == ["0", "0", "1", "1"]
    spec = room.one(POD_GROUP, "j-job-uid")["spec"]
    assert spec["minMember"] == 2
    (group,) = spec["subGroupPolicy"]
    assert (group["name"], group["subGroupSize"], group["minSubGroups"]) == ("w", 2, 1)


def test_depends_on_waits_for_the_other_task(room: ControlRoom) -> None:
    """scheduling/J-5"""
    room.apply(
        job(
            metadata=UID,
            spec="minAvailable: 1",
            tasks=f"{{name: m, replicas: 1, template: {TEMPLATE}}}, "
            f"{{name: w, replicas: 1, dependsOn: {{name: [m]}}, template: {TEMPLATE}}}",
        )
    )
    room.settle()
    room.admit_groups()
    assert room.names(POD) == ["j-m-0"]
    room.bind_all()
    assert room.names(POD) == ["j-m-0", "j-w-0"]


def test_plugin_env(room: ControlRoom) -> None:
    """scheduling/J-8"""
    room.run_job(job(metadata=UID, spec="plugins: {env: []}"))
    env = room.one(POD, "j-w-1")["spec"]["containers"][0]["env"]
    assert env == [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert room.job("j")["status"]["controlledResources"] == {"plugin-env": "env"}


def test_plugin_svc(room: ControlRoom) -> None:
    """scheduling/J-8"""
    room.run_job(
        job(metadata=UID, spec="plugins: {svc: []}", tasks=f"{{name: a-b, replicas: 2, template: {TEMPLATE}}}")
    )
    data = room.one(CONFIG_MAP, "j-svc")["data"]
    assert data["a-b.host"] == "j-a-b-0.j\nj-a-b-1.j"
    assert (data["VC_A_B_HOSTS"], data["VC_A_B_NUM"]) == ("j-a-b-0.j,j-a-b-1.j", "2")
    service = room.one(SERVICE, "j")["spec"]
    assert service["clusterIP"] == "None"
    assert service["selector"] == {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": NS}
    assert room.one(NETWORK_POLICY, "j")["spec"]["policyTypes"] == ["Ingress"]
    spec = room.one(POD, "j-a-b-0")["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("j-a-b-0", "j")
    assert {"name": "j-svc", "mountPath": "/etc/volcano"} in spec["containers"][0]["volumeMounts"]
    assert {item["name"] for item in spec["containers"][0]["env"]} == {"VC_A_B_HOSTS", "VC_A_B_NUM"}


def test_the_hosts_follow_the_replicas(room: ControlRoom) -> None:
    """scheduling/J-3, J-8: before the new pod is made, which reads them"""
    room.run_job(job(metadata=UID, spec="plugins: {svc: []}, minAvailable: 1"))
    for replicas, hosts in ((3, "j-w-0.j,j-w-1.j,j-w-2.j"), (1, "j-w-0.j")):
        tasks = room.job("j")["spec"]["tasks"]
        tasks[0] |= {"replicas": replicas, "minAvailable": 1}
        room.patch(VOLCANO_JOB, "j", {"spec": {"tasks": tasks}})
        room.settle()
        data = room.one(CONFIG_MAP, "j-svc")["data"]
        assert (data["VC_W_HOSTS"], data["VC_W_NUM"]) == (hosts, str(replicas))
        assert data["w.host"] == hosts.replace(",", "\n")


def test_names_that_a_template_gives_are_the_names_of_its_pods(room: ControlRoom) -> None:
    """scheduling/J-8: hostname and subdomain of the template stay, and are what others read"""
    template = "{spec: {hostname: head, subdomain: ring, containers: [{name: c, image: none}]}}"
    room.run_job(job(metadata=UID, spec="plugins: {svc: []}", tasks=f"{{name: m, replicas: 1, template: {template}}}"))
    data = room.one(CONFIG_MAP, "j-svc")["data"]
    assert (data["m.host"], data["VC_M_HOSTS"], data["VC_M_NUM"]) == ("head.ring", "head.ring", "1")
    found = room.one(POD, "j-m-0")["spec"]
    assert (found["hostname"], found["subdomain"]) == ("head", "ring")


def test_plugin_svc_without_network_policy(room: ControlRoom) -> None:
    """scheduling/J-8"""
    room.run_job(job(metadata=UID, spec="plugins: {svc: [--disable-network-policy]}"))
    assert room.names(NETWORK_POLICY) == []


def test_plugin_ssh(room: ControlRoom) -> None:
    """scheduling/J-8"""
    room.run_job(job(metadata=UID, spec="plugins: {ssh: []}"))
    data = {key: base64.b64decode(value).decode() for key, value in room.one(SECRET, "j-ssh")["data"].items()}
    assert data["id_rsa"] == "private"
    assert data["id_rsa.pub"] == data["authorized_keys"] == "public job-uid"
    assert "Host j-w-1\n  HostName j-w-1.j\n" in data["config"]
    spec = room.one(POD, "j-w-0")["spec"]
    (volume,) = [item for item in spec["volumes"] if "secret" in item]
    assert volume["secret"]["defaultMode"] == 0o600
    assert {"name": "j-ssh", "mountPath": "/root/.ssh"} in spec["containers"][0]["volumeMounts"]
    assert room.job("j")["status"]["controlledResources"] == {"plugin-ssh": "ssh"}


def test_what_plugins_made_goes_with_the_job(room: ControlRoom) -> None:
    """scheduling/J-8: owner references"""
    room.run_job(job(metadata=UID, spec="plugins: {ssh: [], svc: []}"))
    room.delete(VOLCANO_JOB, "j")
    room.settle()
    for kind in (POD, POD_GROUP, SECRET, SERVICE, CONFIG_MAP, NETWORK_POLICY):
        assert room.names(kind) == []


def test_claims_of_a_job(room: ControlRoom) -> None:
    claim = "{mountPath: /data, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
    room.run_job(job(metadata=UID, spec=f"volumes: [{claim}]"))
    assert room.names(PERSISTENT_VOLUME_CLAIM) == ["j-volume-0"]
    spec = room.one(POD, "j-w-0")["spec"]
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == "j-volume-0"
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/data"


def usage(cpu: int) -> dict[str, object]:
    return {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}


def test_min_resources_takes_the_first_by_priority() -> None:
    """scheduling/J-9: fewer than the tasks' minima: the first pods by priority"""
    low, high = Role(0, 4, 4, of_pod(usage(1))), Role(10, 2, 2, of_pod(usage(8)))
    assert of_job([low, high], 3)["cpu"] == 17
    assert of_job([low, high], 1)["cpu"] == 8


def test_min_resources_fills_up_with_spare_replicas() -> None:
    """scheduling/J-9: the minima, then spare replicas by priority"""
    low, high = Role(0, 4, 1, of_pod(usage(1))), Role(10, 2, 1, of_pod(usage(8)))
    assert of_job([low, high], 2)["cpu"] == 9
    assert of_job([low, high], 4)["cpu"] == 18
    assert of_job([low, high], 4)["pods"] == 4


def test_key_pairs_are_rsa_in_the_forms_that_openssh_reads() -> None:
    """scheduling/J-8"""
    pair, other = sshkeys.system("job-uid"), sshkeys.system("job-uid")
    assert pair.private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert pair.private.endswith("-----END RSA PRIVATE KEY-----\n")
    assert pair.public.startswith("ssh-rsa ")
    assert pair.public.endswith("\n")
    private = serialization.load_pem_private_key(pair.private.encode(), None)
    public = serialization.load_ssh_public_key(pair.public.encode())
    assert isinstance(private, rsa.RSAPrivateKey)
    assert private.key_size == 2048
    assert private.public_key() == public
    assert pair != other
