"""ResourceQuota: what a namespace uses, shown in the quota's status, and the refusal of what would exceed it.

Pods count by their requests and limits as the real server counts them: cpu, memory and ephemeral-storage under their
plain and their ``requests.`` names, extended resources only as ``requests.<name>``. Finished pods count no more. Other
objects count as ``count/<resource>``, the older ones also by their plain name.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from events.canonical import Json
from events.kinds import ALL_KINDS, CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_QUOTA, SECRET, SERVICE, Kind
from scheduling import quantity
from services.cluster.reading import mapping, mappings, texts
from services.cluster.refusal import forbidden, resource_of
from services.cluster.store import Store
from services.cluster.validation import is_extended
from services.cluster.writes import Lister

Usage = dict[str, Fraction]

_PLAIN_COUNTS = {CONFIG_MAP, SECRET, SERVICE, PERSISTENT_VOLUME_CLAIM, RESOURCE_QUOTA}
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def _plus(left: Usage, right: Usage) -> Usage:
    return {name: left.get(name, Fraction(0)) + right.get(name, Fraction(0)) for name in left | right}


def _most(left: Usage, right: Usage) -> Usage:
    return {name: max(left.get(name, Fraction(0)), right.get(name, Fraction(0))) for name in left | right}


def _amounts(container: Json, side: str) -> Usage:
    listed = mapping(mapping(container.get("resources")).get(side))
    parsed = {name: quantity.parse(value) for name, value in listed.items()}
    return {name: value for name, value in parsed.items() if value is not None}


def _pod_amounts(pod: Json, side: str) -> Usage:
    spec = mapping(pod.get("spec"))
    total: Usage = {}
    for container in mappings(spec.get("containers")):
        total = _plus(total, _amounts(container, side))
    beside: Usage = {}
    peak: Usage = {}
    for container in mappings(spec.get("initContainers")):
        asked = _amounts(container, side)
        if container.get("restartPolicy") == "Always":
            beside = _plus(beside, asked)
            peak = _most(peak, beside)
        else:
            peak = _most(peak, _plus(beside, asked))
    total = _most(_plus(total, beside), peak)
    if spec.get("overhead"):
        total = _plus(total, _amounts({"resources": {side: spec["overhead"]}}, side))
    return total


def usage(kind: Kind, item: Json) -> Usage:
    """Return what an object counts, under every name that a quota may limit."""
    one = Fraction(1)
    used: Usage = {f"count/{resource_of(kind)}": one}
    if kind in _PLAIN_COUNTS:
        used[kind.plural] = one
    if kind != POD:
        return used
    if mapping(item.get("status")).get("phase") in ("Succeeded", "Failed"):
        return used
    used["pods"] = one
    for name, amount in _pod_amounts(item, "requests").items():
        if name in _COMPUTE:
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended(name):
            used[f"requests.{name}"] = amount
        elif name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
    for name, amount in _pod_amounts(item, "limits").items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def _tracked(kind: Kind, name: str) -> bool:
    """Whether objects of this kind count towards a limited name."""
    if name == f"count/{resource_of(kind)}" or (kind in _PLAIN_COUNTS and name == kind.plural):
        return True
    if kind != POD:
        return False
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return name == "pods" or plain in _COMPUTE or plain.startswith("hugepages-") or (
        name.startswith("requests.") and is_extended(plain))  # fmt: skip


def _known(name: str, kinds: Iterable[Kind]) -> bool:
    return name.startswith("count/") or any(_tracked(kind, name) for kind in kinds)


def _in_scope(quota: Json, pod: Json) -> bool:
    """Whether a pod is of the kind that the quota's scopes single out."""
    spec = mapping(quota.get("spec"))
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in texts(spec.get("scopes"))]
    scopes += mappings(mapping(spec.get("scopeSelector")).get("matchExpressions"))
    return all(_matches(scope, pod) for scope in scopes)


def _matches(scope: Json, pod: Json) -> bool:
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    name, operator = scope.get("scopeName"), scope.get("operator")
    if name == "PriorityClass":
        own, values = spec.get("priorityClassName") or "", texts(scope.get("values"))
        return {"In": own in values, "NotIn": own not in values, "Exists": bool(own), "DoesNotExist": not own}.get(
            str(operator), False)  # fmt: skip
    best_effort = status.get("qosClass") == "BestEffort"
    terminating = spec.get("activeDeadlineSeconds") is not None
    holds = {"BestEffort": best_effort, "NotBestEffort": not best_effort, "Terminating": terminating,
             "NotTerminating": not terminating}  # fmt: skip
    return holds.get(str(name), False)


def _hard(quota: Json) -> Usage:
    parsed = {name: quantity.parse(value) for name, value in mapping(mapping(quota.get("spec")).get("hard")).items()}
    return {name: value for name, value in parsed.items() if value is not None}


def used_by(lister: Lister, quota: Json) -> Usage:
    """Return what is used now of each name that a quota limits."""
    hard, namespace = _hard(quota), quota["metadata"].get("namespace") or ""
    total: Usage = dict.fromkeys(hard, Fraction(0))
    kinds = [POD, *sorted(_PLAIN_COUNTS, key=lambda kind: kind.name)]
    for kind in [*kinds, *(_counted_kinds(hard, kinds))]:
        if not any(_tracked(kind, name) for name in hard):
            continue
        for item in lister.items(kind, namespace):
            if kind != POD or _in_scope(quota, item):
                for name, amount in usage(kind, item).items():
                    if name in total:
                        total[name] += amount
    return total


def _counted_kinds(hard: Usage, known: list[Kind]) -> list[Kind]:
    return [kind for kind in ALL_KINDS if kind not in known and f"count/{resource_of(kind)}" in hard]


def _shown(name: str, amount: Fraction, like: object) -> str:
    """Return an amount as text, in the notation of the limit beside it."""
    if isinstance(like, str) and like[-1:] == "i" and amount.denominator == 1 and amount % 1024 == 0:
        return quantity.from_bytes(amount.numerator)
    if "memory" in name.split("/")[0] and amount.denominator == 1 and amount % 1024 == 0:
        return quantity.from_bytes(amount.numerator)
    return quantity.from_milli(-(-(amount * 1000).numerator // (amount * 1000).denominator))


def refresh(store: Store, changed: Kind | None = None) -> None:
    """Write the status of the quotas that a change of this kind (None: of any) may have moved."""
    for quota in store.items(RESOURCE_QUOTA):
        hard = mapping(mapping(quota.get("spec")).get("hard"))
        if changed not in (None, RESOURCE_QUOTA) and not any(_tracked(changed, name) for name in hard):
            continue
        used = used_by(store, quota)
        names = [name for name in hard if _known(name, [POD, *_PLAIN_COUNTS]) and name in used]
        status = {"hard": {name: hard[name] for name in names},
                  "used": {name: _shown(name, used[name], hard[name]) for name in names}}  # fmt: skip
        if quota.get("status") != status:
            store.write(RESOURCE_QUOTA, {**quota, "status": status})


def admit(verb: str, kind: Kind, new: Json | None, old: Json | None, lister: Lister) -> Json | None:
    """Refuse a creation that would exceed a quota of its namespace. Raises Refused (403)."""
    if verb != "create" or new is None or not kind.namespaced:
        return new
    meta = new["metadata"]
    asked = usage(kind, new)
    for quota in lister.items(RESOURCE_QUOTA, meta.get("namespace") or ""):
        hard = mapping(mapping(quota.get("spec")).get("hard"))
        limits = {name: value for name, value in _hard(quota).items() if _tracked(kind, name)}
        if not limits or (kind == POD and not _in_scope(quota, new)):
            continue
        _must_specify(kind, new, quota, limits, asked)
        used = used_by(lister, quota)
        over = [name for name in sorted(limits) if asked.get(name) and used[name] + asked[name] > limits[name]]
        if over:

            def listed(amounts: Usage, names: list[str] = over, hard: Json = hard) -> str:
                return ",".join(f"{name}={_shown(name, amounts[name], hard[name])}" for name in names)

            raise forbidden(kind, meta["name"], f"exceeded quota: {quota['metadata']['name']}, requested: "
                            f"{listed(asked)}, used: {listed(used)}, limited: {listed(limits)}")  # fmt: skip
    return new


def _must_specify(kind: Kind, new: Json, quota: Json, limits: Usage, asked: Usage) -> None:
    """A quota on cpu or memory makes every container say what it asks for."""
    if kind != POD:
        return
    missing: set[str] = set()
    for container in mappings(mapping(new.get("spec")).get("containers")):
        for name in limits:
            side = "limits" if name.startswith("limits.") else "requests"
            plain = name.removeprefix("requests.").removeprefix("limits.")
            if plain in _COMPUTE[:2] and plain not in _amounts(container, side):
                missing.add(f"{name} for: {container.get('name', '')}")
    if missing:
        why = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(sorted(missing))}"
        raise forbidden(kind, new["metadata"]["name"], why)
