"""One VolcanoJob brought in line with its world (scheduling/J-4 to J-16).

The result is the list of what is missing; the last action is the status. Killing comes before the status, so that a
failure in between repeats the whole and loses nothing. No pod is made while the PodGroup is Pending (J-5).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from events.canonical import Json
from events.kinds import POD, POD_GROUP, VOLCANO_JOB, Kind
from events.reading import deleting, items, mapping, meta, name_of, phase_of, spec, status, text, uid_of
from scheduling.objects import seconds
from services.controller.actions import WRITES_MAX, Action, Create, Delete, Emit, Forget, Later, Patch
from services.controller.jobs import expand, phases, plugins, policies, volumes
from services.controller.jobs import status as job_status
from services.controller.jobs.model import FINISHED, Task, VolcanoJob, duration_text, pod_name, read
from services.controller.jobs.policies import SYNC, Decision, Request
from services.controller.jobs.roster import Counts, Roster
from services.controller.objects import Ref, lacking, ref_of
from services.controller.podgroups import group_phase
from services.controller.world import World

#: So many pods of a job are thought of at once.
_MISSING_MAX = 20 * WRITES_MAX


def reconcile(
    world: World, ref: Ref, request: Request | None, now_ms: int, scheduler: str, keys: plugins.KeyMaker
) -> list[Action]:
    """Return what is to be done for one job, given what happened to it (or None)."""
    item = world.at(ref)
    if item is None or deleting(item):
        return []
    job = read(item, scheduler)
    if not job.phase and (request is None or not request.action):
        return [_status(job, "Pending", Counts(), now_ms)]
    decision = policies.decide(job, request)
    if decision.timeout_ms and request is not None:
        return [*_delay(world, job, request, decision, now_ms), *_carry_out(world, job, SYNC, None, now_ms, keys)]
    return _carry_out(world, job, decision.action, request, now_ms, keys)


def worth_a_look(world: World, ref: Ref, waiting: Sequence[Request], scheduler: str) -> list[Request]:
    """Return the requests without those that only bring the job in line and are followed by another such one.

    A job of ten thousand pods has ten thousand of them when its pods appear; one look at the job answers them all.
    """
    item = world.at(ref)
    if item is None or len(waiting) < 2:
        return list(waiting)
    job = read(item, scheduler)
    plain = [policies.decide(job, request) == Decision(SYNC) for request in waiting]
    followed = [*plain[1:], False]
    return [request for request, sync, again in zip(waiting, plain, followed, strict=True) if not (sync and again)]


def _delay(world: World, job: VolcanoJob, request: Request, decision: Decision, now_ms: int) -> list[Action]:
    """Put an action off (J-14). A pod's waiting counts from its creation, so that a restart changes nothing."""
    since_ms = now_ms
    pod = world.get(POD, job.namespace, request.pod)
    if request.event == "PodPending" and pod is not None:
        since_ms = min(seconds(meta(pod).get("creationTimestamp")) * 1000 or now_ms, now_ms)
    later = Request(**{**_fields(request), "action": decision.action})
    delay = duration_text(decision.timeout_ms // 1000)
    message = f"Execute action {decision.action} after {delay}"
    return [
        Later(_ref(job), since_ms + decision.timeout_ms, later),
        Emit(_ref(job), job.uid, "Normal", "ExecuteAction", message),
    ]


def _fields(request: Request) -> Json:
    return {name: getattr(request, name) for name in Request.__dataclass_fields__}


def _ref(job: VolcanoJob) -> Ref:
    return Ref(VOLCANO_JOB, job.namespace, job.name)


def _carry_out(
    world: World, job: VolcanoJob, action: str, request: Request | None, now_ms: int, keys: plugins.KeyMaker
) -> list[Action]:
    roster = world.roster(job.namespace, job.uid)
    plan = phases.plan(job, roster, action, request)
    if plan.kill is None:
        return _sync(world, job, roster, now_ms, keys)
    actions: list[Action] = [_delete(job, POD, pod) for pod in plan.kill.pods]
    group = world.get(POD_GROUP, job.namespace, job.group_name) if plan.kill.whole else None
    if group is not None and not deleting(group):
        actions.append(_delete(job, POD_GROUP, group))
    whole = plan.kill.whole and (bool(actions) or bool(plan.phase))
    if plan.phase:
        message = f"Start to execute action {action} "
        actions += [Forget(_ref(job)), Emit(_ref(job), job.uid, "Normal", "ExecuteAction", message)]
    counts = roster.counts(plan.kill.pods)
    phase = plan.phase or phases.after(job, counts)
    patch = _status(
        job,
        phase,
        counts,
        now_ms,
        retries=job.retries + plan.retried,
        version=job.version + whole,
    )
    return [*actions, *_expiry(job, phase, now_ms), *([patch] if patch.merge["status"] else [])]


def _expiry(job: VolcanoJob, phase: str, now_ms: int) -> list[Action]:
    """Delete a finished job ``ttlSecondsAfterFinished`` after its end."""
    if job.ttl_s is None or phase not in FINISHED or job.phase not in FINISHED:
        return []
    due_ms = (seconds(mapping(job.now.get("state")).get("lastTransitionTime")) + job.ttl_s) * 1000
    return [Delete(_ref(job), job.uid)] if now_ms >= due_ms else [Later(_ref(job), due_ms)]


def _delete(job: VolcanoJob, kind: Kind, item: Json) -> Delete:
    def refused(why: str) -> list[Action]:
        return [_failure(job, "FailedDelete", f"Failed to delete {kind.name} {name_of(item)}: {why}")]

    return Delete(ref_of(kind, item), uid_of(item), refused)


def _sync(world: World, job: VolcanoJob, roster: Roster, now_ms: int, keys: plugins.KeyMaker) -> list[Action]:
    """Bring PodGroup and pods in line; the phase follows (J-4, J-5, J-10, J-11)."""
    actions = [*plugins.objects(job, keys), *volumes.claims(job)]
    group = world.get(POD_GROUP, job.namespace, job.group_name)
    actions += _group(world, job, group)
    if not roster.is_complete(spec(job.item)):
        actions += _pods(job, roster, admitted=group is not None and group_phase(group) != "Pending")
    counts = roster.counts()
    patch = _status(job, phases.after(job, counts), counts, now_ms, marks=plugins.marks(job) | volumes.marks(job))
    return [*actions, *([patch] if patch.merge["status"] else [])]


def _group(world: World, job: VolcanoJob, group: Json | None) -> list[Action]:
    """Create the PodGroup, or keep it in line (J-4); tell why it waits (E-9)."""
    if group is None:
        return [Create(POD_GROUP, expand.group(world, job), lambda why: [_failure(job, "PodGroupError", why)])]
    if deleting(group):
        return []
    merge = _out_of_line(group, expand.group(world, job))
    actions: list[Action] = [Patch(ref_of(POD_GROUP, group), merge, uid=uid_of(group))] if merge else []
    why = _waiting(group)
    if why:
        message = f"PodGroup {job.namespace}:{job.name} unschedulable, reason: {why}"
        actions.append(Emit(_ref(job), job.uid, "Warning", "PodGroupPending", message, once=True))
    return actions


def _out_of_line(group: Json, wanted: Json) -> Json:
    """Return the merge patch that brings a PodGroup in line with its job (J-4); other labels and annotations stay."""
    merge: Json = {}
    content: Json = {key: None for key in expand.GROUP_OPTIONS if key in spec(group)} | spec(wanted)
    changed = job_status.difference({key: spec(group).get(key) for key in content}, content)
    if changed:
        merge["spec"] = changed
    missing = lacking(group, wanted)
    if missing:
        merge["metadata"] = missing
    return merge


def _waiting(group: Json) -> str:
    """The message of the newest True condition that is not ``Scheduled``."""
    true = [item for item in items(status(group).get("conditions")) if item.get("status") == "True"]
    newest = max(true, key=lambda item: seconds(item.get("lastTransitionTime")), default=None)
    return text(newest.get("message")) if newest is not None and newest.get("type") != "Scheduled" else ""


def _failure(job: VolcanoJob, reason: str, why: str) -> Emit:
    return Emit(_ref(job), job.uid, "Warning", reason, why, once=True)


def _pods(job: VolcanoJob, roster: Roster, *, admitted: bool) -> list[Action]:
    """The pods that are missing (once the PodGroup is admitted, J-5), and those beyond what is wanted (J-3)."""
    surplus = [pod for pod in roster.pods if not job.wants(name_of(pod))]
    if not surplus and len(roster) == sum(job.sizes.values()):
        roster.set_complete(spec(job.item))
        return []
    missing = _missing(job, roster) if admitted else []
    changes = [*missing, *(_delete(job, POD, pod) for pod in surplus if not deleting(pod))]
    return [*plugins.renewed(job), *changes] if changes else []


def _missing(job: VolcanoJob, roster: Roster) -> list[Action]:
    """The pods that are not there yet, where the tasks that they depend on have begun (J-5).

    A job may want any number of them: of each task there are one more than are made in a row, so that it is known that
    there are more, and no task whose pods are refused stands in the way of the others.
    """
    actions: list[Action] = []
    for task in job.tasks:
        if _may_begin(job, task, roster):
            indexes = (index for index in range(task.replicas) if pod_name(job.name, task.name, index) not in roster)
            actions += [_new_pod(job, task, index) for index in islice(indexes, WRITES_MAX + 1)]
        if len(actions) > _MISSING_MAX:
            break
    return actions


def _new_pod(job: VolcanoJob, task: Task, index: int) -> Create:
    pod = expand.pod(job, task, index)
    plugins.apply(job, task, index, pod)
    volumes.mount(job, pod)
    return Create(POD, pod, lambda why: [_failure(job, "FailedCreate", why)])


def _may_begin(job: VolcanoJob, task: Task, roster: Roster) -> bool:
    needed = [_begun(job, name, roster.pods) for name in task.depends_on]
    if not needed:
        return True
    return any(needed) if task.depends_on_any and len(needed) > 1 else all(needed)


def _begun(job: VolcanoJob, name: str, pods: Sequence[Json]) -> bool:
    """Whether as many pods of a task run and are ready, or have succeeded, as it needs."""
    task = job.task(name)
    if task is None:
        return False
    prefix = pod_name(job.name, name, "")
    mine = [pod for pod in pods if name_of(pod).rpartition("-")[0] + "-" == prefix and job.wants(name_of(pod))]
    begun = [pod for pod in mine if phase_of(pod) == "Succeeded" or _is_ready(pod)]
    return len(begun) >= task.min_available


def _is_ready(pod: Json) -> bool:
    containers = items(status(pod).get("containerStatuses"))
    return phase_of(pod) == "Running" and all(container.get("ready") is not False for container in containers)


def _status(
    job: VolcanoJob,
    phase: str,
    counts: Counts,
    now_ms: int,
    *,
    retries: int | None = None,
    version: int | None = None,
    marks: dict[str, str] | None = None,
) -> Patch:
    """The patch of the status. ``marks`` are the things that were made once, before this patch (J-8)."""
    wanted = job_status.build(
        job,
        counts,
        phase,
        now_ms,
        retries=job.retries if retries is None else retries,
        version=job.version if version is None else version,
    )
    if marks:
        wanted["controlledResources"] = mapping(job.now.get("controlledResources")) | marks
    merge = {"status": job_status.difference(job.now, wanted)}

    def refused(why: str) -> list[Action]:
        return [_failure(job, "JobStatusError", f"Failed to update job status: {why}")]

    return Patch(_ref(job), merge, subresource="status", uid=job.uid, refused=refused, must=True)
