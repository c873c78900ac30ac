"""Validation of what decides where a pod may go: affinity, tolerations, spread constraints, gates; and taints.

The words are the real server's, so that a manifest which it would refuse is refused here and not found odd later.
"""

from __future__ import annotations

from typing import Final

from events.canonical import Json
from services.cluster import metadata
from services.cluster.reading import mapping, mappings, texts
from services.cluster.refusal import Problems

EFFECTS: Final = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE: Final = ["DoNotSchedule", "ScheduleAnyway"]


def check(spec: Json, problems: Problems) -> None:
    """Judge the spec of a pod or of a pod template."""
    _affinity(mapping(spec.get("affinity")), problems)
    _tolerations(mappings(spec.get("tolerations")), problems)
    _spread(mappings(spec.get("topologySpreadConstraints")), problems)
    _gates([gate.get("name") or "" for gate in mappings(spec.get("schedulingGates"))], problems)


def taints(found: list[Json], problems: Problems) -> None:
    """Judge a node's taints: of one key and effect there is one."""
    seen = set()
    for place, taint in enumerate(found):
        field, key, effect = f"metadata.taints[{place}]", taint.get("key") or "", taint.get("effect")
        if not key:
            problems.required(f"{field}.key", "name part must be non-empty")
        else:
            metadata.qualified(key, f"{field}.key", problems)
        metadata.label_value(taint.get("value") or "", f"{field}.value", problems)
        if effect not in EFFECTS:
            problems.unsupported(f"{field}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            problems.duplicate(field, f"{key}:{effect}: taints must be unique by key and effect pair")
        seen.add((key, effect))


def _tolerations(tolerations: list[Json], problems: Problems) -> None:
    for place, toleration in enumerate(tolerations):
        field, operator = f"spec.tolerations[{place}]", toleration.get("operator") or "Equal"
        key, value, effect = (toleration.get(name) or "" for name in ("key", "value", "effect"))
        if key:
            metadata.qualified(key, f"{field}.key", problems)
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            problems.invalid(f"{field}.operator", toleration.get("operator") or "", why)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            problems.invalid(f"{field}.effect", effect, why)
        if operator not in ("Equal", "Exists"):
            problems.unsupported(f"{field}.operator", operator, ["Equal", "Exists"])
        elif operator == "Equal":
            metadata.label_value(value, f"{field}.operator", problems)
        elif value:
            problems.invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
        if (effect or "NoSchedule") not in EFFECTS:
            problems.unsupported(f"{field}.effect", effect, EFFECTS)


def _spread(constraints: list[Json], problems: Problems) -> None:
    for place, constraint in enumerate(constraints):
        field, otherwise = f"spec.topologySpreadConstraints[{place}]", constraint.get("whenUnsatisfiable") or ""
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            problems.invalid(f"{field}.maxSkew", skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            problems.required(f"{field}.topologyKey", "can not be empty")
        else:
            metadata.qualified(constraint["topologyKey"], f"{field}.topologyKey", problems)
        if otherwise not in _UNSATISFIABLE:
            problems.unsupported(f"{field}.whenUnsatisfiable", otherwise, _UNSATISFIABLE)
        _requirements(f"{field}.labelSelector", mapping(constraint.get("labelSelector")), problems)


def _gates(names: list[str], problems: Problems) -> None:
    for place, name in enumerate(names):
        metadata.qualified(name, f"spec.schedulingGates[{place}]", problems)
        if name in names[:place]:
            problems.duplicate(f"spec.schedulingGates[{place}]", name)


# Affinity.


def _affinity(affinity: Json, problems: Problems) -> None:
    node = mapping(affinity.get("nodeAffinity"))
    field = "spec.affinity.nodeAffinity"
    if isinstance(node.get(_REQUIRED), dict):
        inner = f"{field}.{_REQUIRED}.nodeSelectorTerms"
        terms = mappings(node[_REQUIRED].get("nodeSelectorTerms"))
        if not terms:
            problems.required(inner, "must have at least one node selector term")
        for place, term in enumerate(terms):
            _node_term(f"{inner}[{place}]", term, problems)
    for place, weighed in enumerate(mappings(node.get(_PREFERRED))):
        _weight(f"{field}.{_PREFERRED}[{place}]", weighed, problems)
        _node_term(f"{field}.{_PREFERRED}[{place}].preference", mapping(weighed.get("preference")), problems)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods, field = mapping(affinity.get(kind)), f"spec.affinity.{kind}"
        for place, term in enumerate(mappings(pods.get(_REQUIRED))):
            _pod_term(f"{field}.{_REQUIRED}[{place}]", term, problems)
        for place, weighed in enumerate(mappings(pods.get(_PREFERRED))):
            _weight(f"{field}.{_PREFERRED}[{place}]", weighed, problems)
            inner = f"{field}.{_PREFERRED}[{place}].podAffinityTerm"
            _pod_term(inner, mapping(weighed.get("podAffinityTerm")), problems)


def _weight(field: str, weighed: Json, problems: Problems) -> None:
    weight = weighed.get("weight") or 0
    if not 1 <= weight <= 100:
        problems.invalid(f"{field}.weight", weight, "must be in the range 1-100")


def _pod_term(field: str, term: Json, problems: Problems) -> None:
    key = term.get("topologyKey") or ""
    if not key:
        problems.required(f"{field}.topologyKey", "can not be empty")
    else:
        metadata.qualified(key, f"{field}.topologyKey", problems)
    for name in texts(term.get("namespaces")):
        if not metadata.LABEL.fullmatch(name):
            problems.invalid(f"{field}.namespace", name, metadata.LABEL_TEXT)
    for selector in ("labelSelector", "namespaceSelector"):
        _requirements(f"{field}.{selector}", mapping(term.get(selector)), problems)


def _requirements(field: str, selector: Json, problems: Problems) -> None:
    """Judge a label selector."""
    metadata.selector(f"{field}.matchLabels", mapping(selector.get("matchLabels")), problems)
    for place, wanted in enumerate(mappings(selector.get("matchExpressions"))):
        _expression(f"{field}.matchExpressions[{place}]", wanted, problems, orders=False)


def _node_term(field: str, term: Json, problems: Problems) -> None:
    for place, wanted in enumerate(mappings(term.get("matchExpressions"))):
        _expression(f"{field}.matchExpressions[{place}]", wanted, problems, orders=True)
    for place, wanted in enumerate(mappings(term.get("matchFields"))):
        inner, operator = f"{field}.matchFields[{place}]", wanted.get("operator") or ""
        if operator not in ("In", "NotIn"):
            problems.invalid(f"{inner}.operator", operator, "not a valid selector operator")
        elif len(texts(wanted.get("values"))) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            problems.required(f"{inner}.values", why)
        if wanted.get("key") != "metadata.name":
            problems.invalid(f"{inner}.key", wanted.get("key") or "", "not a valid field selector key")


def _expression(field: str, wanted: Json, problems: Problems, *, orders: bool) -> None:
    """Judge one requirement; ``orders``: of a node selector, which can compare."""
    operator, values = wanted.get("operator") or "", texts(wanted.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            problems.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.forbidden(f"{field}.values", why)
    elif orders and operator in ("Gt", "Lt"):
        if len(values) != 1:
            problems.required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        problems.invalid(f"{field}.operator", operator, "not a valid selector operator")
    metadata.qualified(wanted.get("key") or "", f"{field}.key", problems)
    for place, value in enumerate(values):
        metadata.label_value(value, f"{field}.values[{place}]", problems)
