"""The schema table is current: the core kinds as the client library has them, the custom resources as deploy/crds.

``python tests/cluster/test_schema.py`` writes ``services/cluster/schema/core.json`` anew.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from events.kinds import ALL_KINDS, COMMAND, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.cluster import openapi, schema

ROOT = Path(__file__).parents[2]
CORE = ROOT / "services" / "cluster" / "schema" / "core.json"
#: The models of everything that is served or sent, in the library's names.
MODELS = (
    "V1Pod", "V1Node", "V1Namespace", "V1ConfigMap", "V1Secret", "V1Service", "CoreV1Event", "V1ResourceQuota",
    "V1PersistentVolume", "V1PersistentVolumeClaim", "V1StorageClass", "V1PriorityClass", "V1Lease", "V1NetworkPolicy",
    "V1ReplicaSet", "V1StatefulSet", "V1DaemonSet", "V1Job", "V1Scale", "V1DeleteOptions", "V1Status", "V1Binding",
    "V1Eviction", "V1PodTemplateSpec", "V1LabelSelector",
)  # fmt: skip
#: Fields that the library calls strings or objects, and the API quantities or numbers or names of ports.
QUANTITIES = {
    "limits", "requests", "capacity", "allocatable", "hard", "used", "overhead", "divisor", "sizeLimit",
    "defaultRequest",
}  # fmt: skip
EITHER = {"port", "targetPort", "maxUnavailable", "maxSurge", "minAvailable"}
SCALARS = {"int": "integer", "bool": "boolean", "float": "number", "datetime": "time", "object": "any"}


def short(model: str) -> str:
    return re.sub(r"^(CoreV1|V\d+(?:alpha\d+|beta\d+)?)(?=[A-Z])", "", model)


def type_of(text: str, field: str, model: str) -> str:
    if text.startswith("list["):
        return "[]" + type_of(text[5:-1], field, model)
    if text.startswith("dict("):
        return "{}" + type_of(text.split(", ", 1)[1][:-1], field, model)
    if text == "str":
        return "quantity" if field in QUANTITIES and model != "V1PersistentVolumeClaimSpec" else "string"
    if text == "object" and field in EITHER:
        return "intstr"
    return SCALARS.get(text) or f"&{short(text)}"


def derived() -> dict[str, dict[str, str]]:
    """Return the core definitions as the library's models give them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kubernetes_asyncio.client import models

    found: dict[str, dict[str, str]] = {}
    todo = list(MODELS)
    while todo:
        model = todo.pop()
        if short(model) in found:
            continue
        class_: Any = getattr(models, model)
        definition: dict[str, str] = {}
        for attribute, text in class_.openapi_types.items():
            field = class_.attribute_map[attribute]
            definition[field] = "[]any" if field == "managedFields" else type_of(text, field, model)
            inner = re.sub(r"^(list\[|dict\(str, )+", "", text).rstrip("])")
            if inner[:1].isupper() and field != "managedFields":
                todo.append(inner)
        found[short(model)] = definition
    return found


def written(definitions: dict[str, dict[str, str]]) -> str:
    return json.dumps(definitions, sort_keys=True, indent=0, separators=(",", ":")) + "\n"


def test_core_definitions_are_those_of_the_client_library() -> None:
    assert json.loads(CORE.read_text()) == derived()


@pytest.mark.parametrize(
    ("kind", "file"), [(QUEUE, "queues"), (POD_GROUP, "podgroups"), (VOLCANO_JOB, "jobs"), (COMMAND, "commands")]
)
def test_custom_definitions_hold_every_field_of_the_crds(kind: Kind, file: str) -> None:
    body = yaml.safe_load((ROOT / "deploy" / "crds" / f"{file}.yaml").read_text())
    assert (body["spec"]["group"], body["spec"]["names"]["plural"]) == (kind.group, kind.plural)
    problems: list[str] = []
    compare(f"&{schema.name_of(kind)}", body["spec"]["versions"][0]["schema"]["openAPIV3Schema"], kind.name, problems)
    assert problems == []


def compare(type_: str, given: dict[str, Any], path: str, problems: list[str]) -> None:
    """Note where a CRD's schema has a field that the table lacks, or another type."""
    if given.get("x-kubernetes-preserve-unknown-fields") or path.endswith(".metadata"):
        return
    if type_.startswith("&"):
        definition = schema.definitions()[type_[1:]]
        for name, inner in (given.get("properties") or {}).items():
            if name in definition:
                compare(definition[name], inner, f"{path}.{name}", problems)
            else:
                problems.append(f"{path}.{name} is not in the table")
    elif type_.startswith("[]"):
        compare(type_[2:], given["items"], f"{path}[]", problems)
    elif type_.startswith("{}"):
        compare(type_[2:], given["additionalProperties"], f"{path}{{}}", problems)
    elif type_ == "quantity":
        if not given.get("x-kubernetes-int-or-string"):
            problems.append(f"{path} is no quantity")
    elif given.get("type") != {"time": "string"}.get(type_, type_):
        problems.append(f"{path} is {given.get('type')}, not {type_}")


def test_every_reference_leads_somewhere() -> None:
    known = schema.definitions()
    for definition in known.values():
        for type_ in definition.values():
            assert "&" not in type_ or type_.rpartition("&")[2] in known


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: f"{kind.name}.{kind.group}")
def test_openapi_has_every_kind(kind: Kind) -> None:
    document = openapi.document(f"/openapi/v3{kind.prefix}")
    assert document is not None
    schemas = document["components"]["schemas"]
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.name}
    assert [name for name, found in schemas.items() if gvk in found.get("x-kubernetes-group-version-kind", [])]
    text = json.dumps(document)
    for name in re.findall(r'"#/components/schemas/([^"]+)"', text):
        assert name in schemas
    older = openapi.document("/openapi/v2")
    assert older is not None
    assert schema.name_of(kind) in older["definitions"]


@pytest.mark.parametrize("path", ["/openapi/v2", *sorted({f"/openapi/v3{kind.prefix}" for kind in ALL_KINDS})])
def test_openapi_declares_what_stands_in_a_path(path: str) -> None:
    """Tools that read the document (schemathesis) take one without them for no document at all."""
    document = openapi.document(path)
    assert document is not None
    for template, item in document["paths"].items():
        declared = [found["name"] for found in item["parameters"] if (found["in"], found["required"]) == ("path", True)]
        assert declared == re.findall(r"{(\w+)}", template)


if __name__ == "__main__":
    CORE.write_text(written(derived()))
