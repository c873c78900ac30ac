"""Admission: defaults and refusals of jobs, PodGroups, queues and pods (scheduling/J-1 to J-3, Q-5, AS-13)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from events.canonical import Json
from events.kinds import NAMESPACE, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.cluster.admission import Admission, admit
from services.cluster.refusal import Refused

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "none"}]}}


class Cluster:
    """What admission looks things up in."""

    def __init__(self, *queues: Json) -> None:
        self.queues = {item["metadata"]["name"]: item for item in (queue("root"), queue("default"), *queues)}
        self.namespaces: dict[str, Json] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return {QUEUE: self.queues, NAMESPACE: self.namespaces}.get(kind, {}).get(name)

    def items(self, kind: Kind, namespace: str = "") -> list[Json]:
        return [self.queues[name] for name in sorted(self.queues)] if kind == QUEUE else []


def queue(name: str, spec: str = "", state: str = "Open", allocated: str = "") -> Json:
    parent = {} if name == "root" or "parent" in spec else {"parent": "root"}
    status = {"state": state, "allocated": yaml.safe_load(f"{{{allocated}}}")}
    return {"metadata": {"name": name}, "spec": parent | yaml.safe_load(f"{{{spec}}}"), "status": status}


def task(**parts: Any) -> Json:
    return {"name": "w", "replicas": 2, "template": copy.deepcopy(TEMPLATE), **parts}


def job(*tasks: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "j", "namespace": "n"}, "spec": {"tasks": list(tasks or (task(),)), **spec}}


def create(kind: Kind, item: Json, cluster: Cluster | None = None) -> Json:
    done = admit("create", kind, item, None, cluster or Cluster())
    assert done is not None
    return done


def why(verb: str, kind: Kind, new: Json | None, old: Json | None = None, cluster: Cluster | None = None) -> str:
    with pytest.raises(Refused) as refused:
        admit(verb, kind, new, old, cluster or Cluster())
    assert refused.value.status == 403
    return refused.value.message


def test_defaults_of_a_job() -> None:
    """scheduling/J-1"""
    spec = create(VOLCANO_JOB, job(task(), task(name="", replicas=3, minAvailable=1), maxRetry=0))["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "gpuledger",
        3,
        3,
    )
    assert [item["name"] for item in spec["tasks"]] == ["w", "default1"]
    assert [item["minAvailable"] for item in spec["tasks"]] == [2, 1]
    assert [item["maxRetry"] for item in spec["tasks"]] == [3, 3]


def test_a_task_with_partitions_needs_the_least_of_them() -> None:
    """scheduling/J-1"""
    parts = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    spec = create(VOLCANO_JOB, job(task(replicas=6, partitionPolicy=parts)))["spec"]
    assert spec["tasks"][0]["minAvailable"] == spec["minAvailable"] == 4


def test_host_network_resolves_in_the_cluster() -> None:
    """scheduling/J-1"""
    wanted = task()
    wanted["template"]["spec"]["hostNetwork"] = True
    spec = create(VOLCANO_JOB, job(wanted))["spec"]
    assert spec["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"metadata": {"name": "j"}, "spec": {}}, "No task specified in job spec"),
        (job(task(minAvailable=3)), " 'minAvailable' is greater than 'replicas' in task: w, job: j;"),
        (job(task(), task()), " duplicated task name w;"),
        (job(minAvailable=3), " job 'minAvailable' should not be greater than total replicas in tasks;"),
        (job(plugins={"hovercraft": []}), " unable to find job plugin: hovercraft;"),
        (job(queue="none"), ' unable to find job queue: queues.scheduling.volcano.sh "none" not found;'),
        (job(queue="shut"), " can only submit job to queue with state `Open`, queue `shut` status is `Closed`;"),
        (job(queue="root"), " can not submit job to root queue;"),
        (job(queue="up"), " can only submit job to leaf queue, queue `up` has 1 child queues;"),
        (job(minAvailable=-1), "'minAvailable' cannot be less than zero."),
        (job(task(name="W")), " task name W must be a lower case RFC 1123 label;"),
        (job(task(template={})), " spec.task[0].template.spec.containers: Required value;"),
        (
            job(networkTopology={"highestTierAllowed": 1, "highestTierName": "x"}),
            "must not specify 'highestTierAllowed'",
        ),
        (job(task(dependsOn={"name": ["w"]})), "doesn't form a directed acyclic graph(DAG);"),
        (job(task(dependsOn={"name": ["gone"]})), "doesn't form a directed acyclic graph(DAG);"),
        (job(task(partitionPolicy={"totalPartitions": 2, "partitionSize": 2})), "must be equal to 'replicas'"),
        (job(volumes=[{"mountPath": "/a"}]), "either VolumeClaim or VolumeClaimName must be specified"),
        (job(volumes=[{"mountPath": "/a", "volumeClaimName": "x"}] * 2), "duplicated mountPath: /a"),
    ],
)
def test_refused_jobs(item: Json, text: str) -> None:
    """scheduling/J-2"""
    cluster = Cluster(queue("shut", state="Closed"), queue("up"), queue("down", "parent: up"))
    assert text in why("create", VOLCANO_JOB, item, cluster=cluster)


def test_all_findings_are_told_at_once() -> None:
    """scheduling/J-2"""
    text = why("create", VOLCANO_JOB, job(minAvailable=9, plugins={"x": []}, queue="none"))
    assert text.endswith(
        " job 'minAvailable' should not be greater than total replicas in tasks; unable to find job plugin: x; "
        'unable to find job queue: queues.scheduling.volcano.sh "none" not found;'
    )


def test_a_circle_of_dependencies() -> None:
    """scheduling/J-2"""
    ring = [task(name=a, dependsOn={"name": [b]}) for a, b in (("a", "b"), ("b", "c"), ("c", "a"))]
    assert "directed acyclic graph" in why("create", VOLCANO_JOB, job(*ring))
    create(VOLCANO_JOB, job(task(name="a"), task(name="b", dependsOn={"name": ["a"]})))


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        ([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}], "event and exitCode simultaneously"),
        ([{"action": "AbortJob"}], "either event and exitCode should be specified"),
        ([{"exitCode": 0, "action": "AbortJob"}], "0 is not a valid error code"),
        ([{"exitCode": 1, "action": "AbortJob"}] * 2, "duplicate exitCode 1"),
        ([{"event": "PodFailed", "action": "AbortJob"}] * 2, "duplicate event PodFailed"),
        (
            [{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "AbortJob"}],
            "if there's * here, no other policy should be here",
        ),
        ([{"event": "PodRunning", "action": "AbortJob"}], "invalid policy event"),
        ([{"event": "OutOfSync", "action": "AbortJob"}], "invalid policy event"),
        ([{"event": "CommandIssued", "action": "AbortJob"}], "invalid policy event"),
        ([{"event": "PodFailed", "action": "SyncJob"}], "invalid policy action"),
        ([{"event": "PodPending", "action": "AbortJob"}], "event PodPending needs a timeout"),
    ],
)
def test_bad_policies(policies: list[Json], text: str) -> None:
    """scheduling/J-2, J-14"""
    assert text in why("create", VOLCANO_JOB, job(policies=policies))
    assert text in why("create", VOLCANO_JOB, job(task(policies=policies)))


def test_good_policies() -> None:
    """scheduling/J-14"""
    policies = [
        {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"},
        {"event": "PodPending", "action": "AbortJob", "timeout": "1m"},
        {"exitCode": 3, "action": "TerminateJob"},
    ]
    create(VOLCANO_JOB, job(policies=policies))


def updated(change: Any) -> tuple[Json, Json]:
    old = create(VOLCANO_JOB, job(task(), task(name="x"), minAvailable=2))
    new = copy.deepcopy(old)
    change(new["spec"])
    return new, old


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(minAvailable=3),
        lambda spec: spec.update(priorityClassName="high"),
        lambda spec: spec["tasks"][0].update(replicas=5),
        lambda spec: spec["tasks"][0].update(minAvailable=1),
    ],
)
def test_what_an_update_may_change(change: Any) -> None:
    """scheduling/J-3"""
    new, old = updated(change)
    admit("update", VOLCANO_JOB, new, old, Cluster())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda spec: spec.update(queue="other"), "job updates may not change fields other than `minAvailable`"),
        (lambda spec: spec["tasks"][0].update(template={}), "job updates may not change fields other than"),
        (lambda spec: spec["tasks"].pop(), "job updates may not add or remove tasks"),
        (lambda spec: spec.update(minAvailable=9), "job 'minAvailable' must not be greater than total replicas"),
        (lambda spec: spec["tasks"][0].update(minAvailable=9), "'minAvailable' must be <= 'replicas' in task: w;"),
        (lambda spec: spec["tasks"][0].update(replicas=-1), "'replicas' must be >= 0 in task: w"),
    ],
)
def test_what_an_update_may_not_change(change: Any, text: str) -> None:
    """scheduling/J-3"""
    new, old = updated(change)
    assert text in why("update", VOLCANO_JOB, new, old)


def test_a_manifest_that_is_applied_again_changes_nothing() -> None:
    """scheduling/J-3: what was filled in is filled in again"""
    old = create(VOLCANO_JOB, job(task(), minAvailable=2))
    new = job(task(replicas=4), minAvailable=2)
    new["spec"] |= {key: old["spec"][key] for key in ("queue", "schedulerName", "maxRetry")}
    done = admit("update", VOLCANO_JOB, new, old, Cluster())
    assert done is not None
    assert done["spec"]["tasks"][0]["minAvailable"] == 2


def group(**spec: Any) -> Json:
    return {"metadata": {"name": "g", "namespace": "n"}, "spec": spec}


def test_pod_groups_need_an_open_queue() -> None:
    """scheduling/AS-13"""
    cluster = Cluster(queue("shut", state="Closing"))
    closed = "can only submit PodGroup to queue with state `Open`, queue `shut` status is `Closing`."
    assert closed in why("create", POD_GROUP, group(queue="shut"), cluster=cluster)
    missing = 'unable to find queue: queues.scheduling.volcano.sh "none" not found'
    assert missing in why("create", POD_GROUP, group(queue="none"))
    assert create(POD_GROUP, group())["spec"]["queue"] == "default"


def test_a_queue_without_state_counts_as_open() -> None:
    """scheduling/Q-1"""
    cluster = Cluster(queue("fresh", state=""))
    create(POD_GROUP, group(queue="fresh"), cluster)
    create(VOLCANO_JOB, job(queue="fresh"), cluster)


def test_the_namespace_names_the_queue() -> None:
    """scheduling/AS-4"""
    cluster = Cluster(queue("q"))
    cluster.namespaces["n"] = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}}
    assert create(POD_GROUP, group(), cluster)["spec"]["queue"] == "q"


def test_a_running_group_may_be_changed_in_a_closed_queue() -> None:
    """scheduling/AS-13: only creation is refused"""
    cluster = Cluster(queue("shut", state="Closed"))
    admit("update", POD_GROUP, group(queue="shut", minMember=2), group(queue="shut"), cluster)


def test_bad_groups() -> None:
    """scheduling/PG-1"""
    assert "spec.minMember" in why("create", POD_GROUP, group(minMember=-1))
    both = {"highestTierAllowed": 1, "highestTierName": "x"}
    assert "simultaneously" in why("create", POD_GROUP, group(networkTopology=both))
    assert "simultaneously" in why("create", POD_GROUP, group(subGroupPolicy=[{"name": "s", "networkTopology": both}]))


def pod(scheduler: str = "volcano", **notes: str) -> Json:
    given = {f"volcano.sh/jdb-{key.replace('_', '-')}": value for key, value in notes.items()}
    return {"metadata": {"name": "p", "annotations": given}, "spec": {"schedulerName": scheduler}}


@pytest.mark.parametrize("value", ["1", "12", "1%", "99%"])
def test_good_budgets(value: str) -> None:
    """scheduling/AS-13"""
    create(POD, pod(min_available=value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "it must be a positive integer"),
        ("-1", "it must be a positive integer"),
        ("0%", "it must between 1% ~ 99%"),
        ("100%", "it must between 1% ~ 99%"),
        ("some", "invalid value"),
        ("", "invalid value"),
    ],
)
def test_bad_budgets(value: str, text: str) -> None:
    """scheduling/AS-13"""
    assert text in why("create", POD, pod(max_unavailable=value))
    create(POD, pod("default-scheduler", max_unavailable=value))


def test_one_budget_only() -> None:
    """scheduling/AS-13"""
    assert "not allow configure multiple annotations" in why("create", POD, pod(min_available="1", max_unavailable="1"))


def test_defaults_of_a_queue() -> None:
    """scheduling/Q-1, Q-2"""
    assert create(QUEUE, {"metadata": {"name": "q"}})["spec"] == {"weight": 1, "reclaimable": True, "parent": "root"}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (queue("q", "weight: 0"), "queue weight must be a positive integer"),
        (queue("q", "weight: 65536"), "queue weight must be a positive integer"),
        (queue("q", state="Closing"), "queue state must be in [Open Closed]"),
        (
            queue("q", "guarantee: {resource: {cpu: 2}}, deserved: {cpu: 1}"),
            "deserved[cpu]=1 must be >= guarantee[cpu]=2",
        ),
        (queue("q", "guarantee: {resource: {cpu: 2}}"), "deserved[cpu]=0 must be >= guarantee[cpu]=2"),
        (
            queue("q", "deserved: {volcano.sh/vgpu-memory: 5000}, capability: {volcano.sh/vgpu-memory: 4000}"),
            "deserved[volcano.sh/vgpu-memory]=5k must be <= capability[volcano.sh/vgpu-memory]=4k",
        ),
        (queue("q", "deserved: {cpu: many}"), "must be a quantity >= 0"),
        (queue("q", "parent: q"), "queue q cannot use itself as parent"),
        (
            queue("q", "parent: none"),
            'failed to get parent queue of queue q: queues.scheduling.volcano.sh "none" not found',
        ),
        (queue("q", "parent: d5"), "the depth of the queue hierarchy exceeds 5"),
        (
            queue("q", "parent: busy"),
            "queue busy cannot be the parent queue of queue q because it has allocated Pods: 3",
        ),
        (
            queue("q", "parent: d2, capability: {cpu: 9}"),
            "queue q capability[cpu]=9 must be <= capability[cpu]=8 of its ancestor queue d1",
        ),
        (
            queue("q", "parent: d1, deserved: {cpu: 3}"),
            "the sum of the children's deserved[cpu] must be <= deserved[cpu]=4",
        ),
    ],
)
def test_refused_queues(item: Json, text: str) -> None:
    """scheduling/Q-5"""
    cluster = Cluster(
        queue("d1", "capability: {cpu: 8}, deserved: {cpu: 4}"),
        queue("d2", "parent: d1, deserved: {cpu: 2}"),
        queue("d3", "parent: d2"),
        queue("d4", "parent: d3"),
        queue("d5", "parent: d4"),
        queue("busy", allocated="pods: '3'"),
    )
    assert text in why("create", QUEUE, item, cluster=cluster)


def test_limits_that_fit() -> None:
    """scheduling/Q-5, Q-10: deserved without capability is fine, zero cpu in a capability is no limit"""
    create(QUEUE, queue("q", "deserved: {cpu: 5}"))
    create(QUEUE, queue("q", "deserved: {cpu: 5}, capability: {cpu: 0, memory: 1Gi}"))
    create(QUEUE, queue("q", "guarantee: {resource: {cpu: 1}}, deserved: {cpu: 1}, capability: {cpu: 1}"))


def test_a_parent_may_not_shrink_below_its_children() -> None:
    """scheduling/Q-5"""
    cluster = Cluster(queue("up", "capability: {cpu: 8}"), queue("down", "parent: up, capability: {cpu: 6}"))
    new = queue("up", "capability: {cpu: 4}")
    assert "queue down capability[cpu]=6 must be <=" in why("update", QUEUE, new, cluster.queues["up"], cluster)


def test_a_queue_does_not_hang_below_itself() -> None:
    """scheduling/Q-5"""
    cluster = Cluster(queue("a"), queue("b", "parent: a"))
    assert "below itself" in why("update", QUEUE, queue("a", "parent: b"), cluster.queues["a"], cluster)


@pytest.mark.parametrize("name", ["root", "default"])
def test_the_first_queues_stay(name: str) -> None:
    """scheduling/Q-2"""
    assert f"`{name}` queue can not be deleted" in why("delete", QUEUE, None, queue(name))


def test_deleting_a_queue() -> None:
    """scheduling/Q-5"""
    cluster = Cluster(queue("up"), queue("down", "parent: up"), queue("busy", allocated="pods: '3'"))
    assert "because it has 1 child queues: [down]" in why("delete", QUEUE, None, cluster.queues["up"], cluster)
    admit("delete", QUEUE, None, cluster.queues["busy"], cluster)
    with pytest.raises(Refused, match="queue busy cannot be deleted because it has allocated Pods: 3"):
        Admission(check_allocated_pods=True)("delete", QUEUE, None, cluster.queues["busy"], cluster)


def test_opening_under_a_closed_parent() -> None:
    """scheduling/Q-3"""
    cluster = Cluster(queue("up", state="Closed"), queue("down", "parent: up", state="Closed"))
    text = why("status", QUEUE, queue("down", "parent: up"), cluster.queues["down"], cluster)
    assert "queue down cannot be opened: its parent queue up is Closed" in text
    admit("status", QUEUE, queue("down", "parent: up", state="Closing"), queue("down", "parent: up"), cluster)


def test_root_is_not_closed() -> None:
    """scheduling/Q-2"""
    assert "root queue can not be closed" in why("status", QUEUE, queue("root", state="Closed"), queue("root"))


def test_what_lies_on_the_limit_is_accepted() -> None:
    """scheduling/PG-1, J-2: a group that needs nobody; a pod name as long as a hostname may be"""
    made = create(POD_GROUP, {"metadata": {"name": "g", "namespace": "n"}, "spec": {"minMember": 0}})
    assert made["spec"]["minMember"] == 0
    assert create(VOLCANO_JOB, job(task(name="t" * 59)))["spec"]["tasks"][0]["name"] == "t" * 59
    assert "must be no more than 63 characters" in why("create", VOLCANO_JOB, job(task(name="t" * 60)))


def test_a_parent_that_holds_pods_may_have_another_child() -> None:
    """scheduling/Q-5: what it holds is its children's; so it is with root, which has children from the first"""
    cluster = Cluster(queue("up", allocated="pods: '3'"), queue("old", "parent: up", allocated="pods: '3'"))
    cluster.queues["root"]["status"]["allocated"] = {"pods": "3"}
    assert create(QUEUE, queue("new", "parent: up"), cluster)["spec"]["parent"] == "up"
    assert create(QUEUE, queue("other"), cluster)["spec"]["parent"] == "root"
    only = Cluster()
    only.queues = {"root": queue("root", allocated="pods: '3'")}
    assert create(QUEUE, queue("first"), only)["spec"]["parent"] == "root"
