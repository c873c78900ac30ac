"""Judging metadata: names, labels, annotations, owners, finalizers, with the words of the real server."""

from __future__ import annotations

import re

from events.canonical import Json
from events.kinds import NAMESPACE, SERVICE, Kind
from services.cluster.reading import mapping, mappings, texts
from services.cluster.refusal import Problems

ANNOTATIONS_BYTES_MAX = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]", re.ASCII)
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?", re.ASCII)

LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def check(kind: Kind, meta: Json, problems: Problems) -> None:
    """Judge the metadata of a new object."""
    name = meta.get("name")
    if not name:
        problems.required("metadata.name", "name or generateName is required")
    else:
        label = kind in (NAMESPACE, SERVICE)
        pattern, text, longest = (LABEL, LABEL_TEXT, 63) if label else (_SUBDOMAIN, _SUBDOMAIN_TEXT, 253)
        if len(name) > longest:
            problems.invalid("metadata.name", name, f"must be no more than {longest} characters")
        elif not pattern.fullmatch(name):
            problems.invalid("metadata.name", name, text)
    namespace = meta.get("namespace")
    if kind.namespaced and not (isinstance(namespace, str) and LABEL.fullmatch(namespace)):
        problems.invalid("metadata.namespace", namespace, LABEL_TEXT)
    selector("metadata.labels", mapping(meta.get("labels")), problems)
    _annotations(mapping(meta.get("annotations")), problems)
    _owners(mappings(meta.get("ownerReferences")), problems)
    _finalizers(texts(meta.get("finalizers")), problems)


def check_update(new: Json, old: Json, problems: Problems) -> None:
    """Judge what changed in an object's metadata; what stands as it was is not judged again."""
    before = texts(old.get("finalizers"))
    added = [name for name in texts(new.get("finalizers")) if name not in before]
    if old.get("deletionTimestamp") and added:
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
        problems.forbidden("metadata.finalizers", why)
    _finalizers(added, problems)
    selector("metadata.labels", _changed(new, old, "labels"), problems)
    for key in _changed(new, old, "annotations"):
        qualified(key.lower(), "metadata.annotations", problems)
    size = _size(mapping(new.get("annotations")))
    if size > ANNOTATIONS_BYTES_MAX and size > _size(mapping(old.get("annotations"))):
        problems.too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX)
    if new.get("ownerReferences") != old.get("ownerReferences"):
        _owners(mappings(new.get("ownerReferences")), problems)


def _finalizers(names: list[str], problems: Problems) -> None:
    for place, name in enumerate(names):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            problems.invalid(f"metadata.finalizers[{place}]", name, why)


def _changed(new: Json, old: Json, key: str) -> Json:
    before = mapping(old.get(key))
    return {name: value for name, value in mapping(new.get(key)).items() if before.get(name) != value}


def qualified(key: str, field: str, problems: Problems) -> None:
    """Judge a qualified name: a name, or a prefix and a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        problems.invalid(field, key, f"prefix part {_SUBDOMAIN_TEXT}")
    if not _QUALIFIED.fullmatch(name):
        problems.invalid(field, key, "name part must consist of alphanumeric characters, '-', '_' or '.', and must "
                         "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
                         "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')")  # fmt: skip


def selector(field: str, labels: Json, problems: Problems) -> None:
    """Judge labels: keys that are qualified names, values that are label values."""
    for key, value in labels.items():
        qualified(key, field, problems)
        label_value(value, field, problems)


def label_value(value: str, field: str, problems: Problems) -> None:
    """Judge the value of a label."""
    if len(value) > 63:
        problems.invalid(field, value, "must be no more than 63 characters")
    elif not _LABEL_VALUE.fullmatch(value):
        problems.invalid(field, value, _LABEL_VALUE_TEXT)


def _annotations(annotations: Json, problems: Problems) -> None:
    for key in annotations:
        qualified(key.lower(), "metadata.annotations", problems)
    if _size(annotations) > ANNOTATIONS_BYTES_MAX:
        problems.too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX)


def _size(annotations: Json) -> int:
    return sum(len(str(text).encode("utf-8", "surrogatepass")) for pair in annotations.items() for text in pair)


def _owners(owners: list[Json], problems: Problems) -> None:
    controllers = 0
    for place, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                problems.required(f"metadata.ownerReferences[{place}].{key}", f"{key} must not be empty")
        controllers += owner.get("controller") is True
    if controllers > 1:
        problems.invalid("metadata.ownerReferences", controllers, "Only one reference can have Controller set to true")
