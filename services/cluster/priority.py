"""Priority admission: a pod's priority is that of its class, and there is one default class."""

from __future__ import annotations

from events.canonical import Json
from events.kinds import POD, PRIORITY_CLASS, Kind
from services.cluster.refusal import forbidden
from services.cluster.validation import SYSTEM_PRIORITIES
from services.cluster.writes import Lister

_PREEMPT = "PreemptLowerPriority"


def admit(verb: str, kind: Kind, new: Json | None, old: Json | None, lister: Lister) -> Json | None:
    """Complete a new pod's priority from its class; refuse an unknown class and a second default. Raises Refused."""
    if new is None or verb not in ("create", "update"):
        return new
    if kind == PRIORITY_CLASS and new.get("globalDefault") is True:
        _only_default(new, lister)
    if kind == POD and verb == "create":
        return _with_priority(new, lister)
    return new


def _only_default(new: Json, lister: Lister) -> None:
    name = new["metadata"]["name"]
    for other in lister.items(PRIORITY_CLASS):
        if other.get("globalDefault") is True and other["metadata"]["name"] != name:
            why = f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can exist"
            raise forbidden(PRIORITY_CLASS, name, why)


def _with_priority(pod: Json, lister: Lister) -> Json:
    spec = dict(pod["spec"])
    class_name, value, policy = _class_of(pod, str(spec.get("priorityClassName") or ""), lister)
    if class_name:
        spec["priorityClassName"] = class_name
    if spec.get("priority") is not None and spec["priority"] != value:
        why = (f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
               f"admission controller computed {value} from the given PriorityClass name")  # fmt: skip
        raise forbidden(POD, pod["metadata"]["name"], why)
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        why = (f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission "
               f"controller computed {policy} from the given PriorityClass name")  # fmt: skip
        raise forbidden(POD, pod["metadata"]["name"], why)
    spec["priority"], spec["preemptionPolicy"] = value, policy
    return {**pod, "spec": spec}


def _class_of(pod: Json, name: str, lister: Lister) -> tuple[str, int, str]:
    """Return name, value and preemption policy of a pod's class; without a name, of the default class (or 0)."""
    if not name:
        defaults = [item for item in lister.items(PRIORITY_CLASS) if item.get("globalDefault") is True]
        if not defaults:
            return "", 0, _PREEMPT
        found = min(defaults, key=lambda item: (_value(item), item["metadata"]["name"]))
        return found["metadata"]["name"], _value(found), str(found.get("preemptionPolicy") or _PREEMPT)
    known = lister.get(PRIORITY_CLASS, "", name)
    if known is not None:
        return name, _value(known), str(known.get("preemptionPolicy") or _PREEMPT)
    if name in SYSTEM_PRIORITIES:
        return name, SYSTEM_PRIORITIES[name], _PREEMPT
    raise forbidden(POD, pod["metadata"]["name"], f"no PriorityClass with name {name} was found")


def _value(item: Json) -> int:
    value = item.get("value")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
