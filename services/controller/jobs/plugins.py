"""The plugins of a VolcanoJob (scheduling/J-8): what they make once for the job, and what they add to each pod.

    env    VK_TASK_INDEX and VC_TASK_INDEX in every container
    svc    a headless Service, a ConfigMap with the hosts of each task, a NetworkPolicy; hostname and subdomain
    ssh    a Secret with a key pair, so that the pods reach each other

What was made is marked in ``status.controlledResources`` and is not made again; only the hosts follow the replicas.
Keys come from outside (``KeyMaker``), since making them needs randomness.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from events.canonical import Json
from events.kinds import CONFIG_MAP, NETWORK_POLICY, SECRET, SERVICE, VOLCANO_JOB, Kind
from events.reading import items, mapping, spec, text
from services.controller.actions import Action, Create, Emit, Patch
from services.controller.jobs.expand import JOB_NAME, NAMESPACE_LABEL
from services.controller.jobs.model import Task, VolcanoJob, pod_name
from services.controller.objects import Ref, owner_reference

KNOWN = ("env", "svc", "ssh")
_HOSTS_PATH = "/etc/volcano"
#: More names fill more than the MiB that a ConfigMap or Secret takes: the API server says so, whatever the replicas.
_NAMES_MAX = 65_536
_SSH_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


@dataclass(frozen=True)
class KeyPair:
    """An SSH key pair as it stands in files."""

    private: str
    public: str


#: Makes a key pair for the job with this uid.
KeyMaker = Callable[[str], KeyPair]


def marks(job: VolcanoJob) -> dict[str, str]:
    """The entries of ``status.controlledResources`` for the job's plugins."""
    return {f"plugin-{name}": name for name in job.plugins if name in KNOWN}


def objects(job: VolcanoJob, keys: KeyMaker) -> list[Action]:
    """What the job's plugins make once and have not made yet."""
    made = mapping(job.now.get("controlledResources"))
    actions: list[Action] = []
    if "svc" in job.plugins and "plugin-svc" not in made:
        actions += [_create(job, kind, item) for kind, item in _services(job)]
    if "ssh" in job.plugins and "plugin-ssh" not in made:
        actions.append(_create(job, SECRET, _secret(job, keys(job.uid))))
    return actions


def renewed(job: VolcanoJob) -> list[Action]:
    """What changes with a job's replicas: the hosts, before pods that read them are made."""
    if "svc" not in job.plugins:
        return []
    return [Patch(Ref(CONFIG_MAP, job.namespace, f"{job.name}-svc"), {"data": _hosts(job)})]


def _failure(job: VolcanoJob, why: str) -> Emit:
    ref = Ref(VOLCANO_JOB, job.namespace, job.name)
    return Emit(ref, job.uid, "Warning", "PluginError", why, once=True)


def _create(job: VolcanoJob, kind: Kind, item: Json) -> Create:
    return Create(kind, item, lambda why: [_failure(job, f"Execute plugin when job add failed, err: {why}")], must=True)


def _object(job: VolcanoJob, kind: Kind, name: str, content: Json) -> Json:
    about = {
        "name": name,
        "namespace": job.namespace,
        "ownerReferences": [owner_reference(VOLCANO_JOB, job.item)],
    }
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": about, **content}


def _selector(job: VolcanoJob) -> dict[str, str]:
    return {JOB_NAME: job.name, NAMESPACE_LABEL: job.namespace}


def _services(job: VolcanoJob) -> list[tuple[Kind, Json]]:
    service = {
        "clusterIP": "None",
        "selector": _selector(job),
        "publishNotReadyAddresses": True,
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    found = [
        (CONFIG_MAP, _object(job, CONFIG_MAP, f"{job.name}-svc", {"data": _hosts(job)})),
        (SERVICE, _object(job, SERVICE, job.name, {"spec": service})),
    ]
    if not any(item.lstrip("-").split("=")[0] == "disable-network-policy" for item in _flags_on(job.plugins["svc"])):
        peers = {"matchLabels": _selector(job)}
        policy = {"podSelector": peers, "ingress": [{"from": [{"podSelector": peers}]}], "policyTypes": ["Ingress"]}
        found.append((NETWORK_POLICY, _object(job, NETWORK_POLICY, job.name, {"spec": policy})))
    return found


def _flags_on(arguments: tuple[str, ...]) -> list[str]:
    return [item for item in arguments if not item.endswith("=false")]


def _variable(task: str) -> str:
    return task.upper().replace("-", "_")


def _fqdns(job: VolcanoJob, task: Task, at_most: int) -> list[str]:
    """The names of a task's pods in DNS; a hostname in the template is one name for all of them."""
    template = spec(task.template)
    subdomain = text(template.get("subdomain")) or job.name
    if text(template.get("hostname")):
        return [f"{template['hostname']}.{subdomain}"][: task.replicas]
    return [f"{pod_name(job.name, task.name, index)}.{subdomain}" for index in range(min(task.replicas, at_most))]


def _hosts(job: VolcanoJob) -> dict[str, str]:
    data: dict[str, str] = {}
    left = _NAMES_MAX
    for task in job.tasks:
        hosts = _fqdns(job, task, left)
        left -= len(hosts)
        data[f"{task.name}.host"] = "\n".join(hosts)
        data[f"VC_{_variable(task.name)}_HOSTS"] = ",".join(hosts)
        data[f"VC_{_variable(task.name)}_NUM"] = str(len(hosts))
    return data


def _secret(job: VolcanoJob, pair: KeyPair) -> Json:
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    left = _NAMES_MAX
    for task in job.tasks:
        hosts = _fqdns(job, task, left)
        left -= len(hosts)
        for index, host in enumerate(hosts):
            lines += [f"Host {pod_name(job.name, task.name, index)}", f"  HostName {host}"]
    contents = (pair.private, pair.public, pair.public, "\n".join(lines) + "\n")
    encoded = [base64.b64encode(content.encode()).decode() for content in contents]
    return _object(
        job, SECRET, f"{job.name}-ssh", {"type": "Opaque", "data": dict(zip(_SSH_FILES, encoded, strict=True))}
    )


def apply(job: VolcanoJob, task: Task, index: int, pod: Json) -> None:
    """Add to a new pod what the job's plugins give every pod."""
    if "env" in job.plugins:
        value = str(index)
        _add_env(pod, [{"name": "VK_TASK_INDEX", "value": value}, {"name": "VC_TASK_INDEX", "value": value}])
    if "svc" in job.plugins:
        _apply_svc(job, pod)
    if "ssh" in job.plugins:
        _apply_ssh(job, pod)


def _containers(pod: Json) -> list[Json]:
    return [*items(pod["spec"].get("initContainers")), *items(pod["spec"].get("containers"))]


def _add_env(pod: Json, variables: list[Json]) -> None:
    for container in _containers(pod):
        known = {text(item.get("name")) for item in items(container.get("env"))}
        added = [dict(item) for item in variables if item["name"] not in known]
        container["env"] = [*items(container.get("env")), *added]


def _mount(pod: Json, volume: Json, path: str) -> None:
    pod["spec"]["volumes"] = [*items(pod["spec"].get("volumes")), volume]
    for container in _containers(pod):
        mount = {"name": volume["name"], "mountPath": path}
        container["volumeMounts"] = [*items(container.get("volumeMounts")), mount]


def _apply_svc(job: VolcanoJob, pod: Json) -> None:
    content = pod["spec"]
    content["hostname"] = text(content.get("hostname")) or pod["metadata"]["name"]
    content["subdomain"] = text(content.get("subdomain")) or job.name
    config = f"{job.name}-svc"
    keys = [f"VC_{_variable(task.name)}_{what}" for task in job.tasks for what in ("HOSTS", "NUM")]
    _add_env(pod, [{"name": key, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}} for key in keys])
    _mount(pod, {"name": config, "configMap": {"name": config}}, _HOSTS_PATH)


def _apply_ssh(job: VolcanoJob, pod: Json) -> None:
    secret = f"{job.name}-ssh"
    path = "/root/.ssh"
    for argument in job.plugins["ssh"]:
        name, _, value = argument.lstrip("-").partition("=")
        if name == "ssh-key-file-path" and value:
            path = value
    files = [{"key": name, "path": name} for name in _SSH_FILES]
    _mount(pod, {"name": secret, "secret": {"secretName": secret, "items": files, "defaultMode": 0o600}}, path)
