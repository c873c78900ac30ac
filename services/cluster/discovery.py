"""Discovery: which groups, versions, kinds, verbs and subresources are served, in both forms that clients ask for."""

from __future__ import annotations

from itertools import groupby

from events.canonical import Json
from events.kinds import ALL_KINDS, BATCH_JOB, DAEMON_SET, POD, REPLICA_SET, SERVICE, STATEFUL_SET, Kind
from services.cluster.routes import subresources
from services.cluster.wire import accepts

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Json = {
    "major": "1", "minor": "32", "gitVersion": "v1.32.0", "gitCommit": "", "gitTreeState": "clean", "buildDate": "",
    "goVersion": "", "compiler": "", "platform": "linux/amd64",
}  # fmt: skip
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUB_VERBS = {"binding": ["create"], "eviction": ["create"], "log": ["get"]}
HEALTH = ("/healthz", "/livez", "/readyz")
_CATEGORIES = {kind: ["all"] for kind in (POD, SERVICE, REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB)}
#: Verbs and kind of a subresource that is not of its parent's kind.
_SUB_KINDS = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction"),
              "scale": ("autoscaling", "v1", "Scale")}  # fmt: skip

#: The order in which groups are offered: a short name means the first that knows it.
GROUP_ORDER = ("", "apps", "batch", "coordination.k8s.io", "networking.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
               "scheduling.volcano.sh", "batch.volcano.sh", "bus.volcano.sh")  # fmt: skip


def _key(kind: Kind) -> tuple[int, str, str]:
    order = GROUP_ORDER.index(kind.group) if kind.group in GROUP_ORDER else len(GROUP_ORDER)
    return order, kind.group, kind.version


def groups() -> list[tuple[str, str, list[Kind]]]:
    """Return group, version and kinds of everything that is served."""
    ordered = sorted(ALL_KINDS, key=_key)
    return [(key[1], key[2], list(kinds)) for key, kinds in groupby(ordered, _key)]


def document(path: str, accept: str, host: str) -> Json | None:
    """Return the discovery document at a path, None if there is none."""
    aggregated = bool(accepts(accept, "APIGroupDiscoveryList")) and "v=v2" in accepts(accept, "APIGroupDiscoveryList")
    if path == "/version":
        return VERSION
    if path == "":
        served = [kinds[0].prefix for _, _, kinds in groups()]
        return {"paths": ["/api", "/apis", *served, "/openapi/v2", "/openapi/v3", *HEALTH, "/version"]}
    if path in ("/api", "/apis") and aggregated:
        return _aggregated(core=path == "/api")
    if path == "/api":
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
    if path == "/apis":
        listed = [_group(group, version) for group, version, _ in groups() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    for group, version, kinds in groups():
        if path == f"/apis/{group}":
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, version)}
        if path == kinds[0].prefix:
            return _resources(kinds)
    return None


def _group(group: str, version: str) -> Json:
    served = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [served], "preferredVersion": served}


def _resources(kinds: list[Kind]) -> Json:
    listed: list[Json] = []
    for kind in sorted(kinds, key=lambda kind: kind.plural):
        entry: Json = {"name": kind.plural, "singularName": kind.name.lower(), "namespaced": kind.namespaced,
                       "kind": kind.name, "verbs": VERBS}  # fmt: skip
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind in _CATEGORIES:
            entry["categories"] = _CATEGORIES[kind]
        listed.append(entry)
        listed += [_subresource(kind, name) for name in subresources(kind)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version, "resources": listed}


def _subresource(kind: Kind, name: str) -> Json:
    entry: Json = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced,
                   "kind": kind.name, "verbs": _SUB_VERBS.get(name, ["get", "patch", "update"])}  # fmt: skip
    if name in _SUB_KINDS:
        group, version, other = _SUB_KINDS[name]
        entry["kind"] = other
        if group:
            entry |= {"group": group, "version": version}
    return entry


def _aggregated(*, core: bool) -> Json:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [{"version": version, "resources": [_aggregated_kind(kind) for kind in kinds],
                          "freshness": "Current"}],
        }
        for group, version, kinds in groups()
        if (not group) == core
    ]  # fmt: skip
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_kind(kind: Kind) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.name.lower(),
        "verbs": VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind in _CATEGORIES:
        entry["categories"] = _CATEGORIES[kind]
    if subresources(kind):
        entry["subresources"] = [_aggregated_sub(kind, name) for name in subresources(kind)]
    return entry


def _aggregated_sub(kind: Kind, name: str) -> Json:
    group, version, other = _SUB_KINDS.get(name, (kind.group, kind.version, kind.name))
    return {"subresource": name, "responseKind": {"group": group, "version": version, "kind": other},
            "verbs": _SUB_VERBS.get(name, ["get", "patch", "update"])}  # fmt: skip
