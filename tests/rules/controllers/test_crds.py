"""The custom resource definitions agree with the table of kinds and what users see (scheduling/PG-2, J-15, Q-1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from events.canonical import Json
from events.kinds import COMMAND, POD_GROUP, QUEUE, VOLCANO_JOB, Kind

CRDS = Path(__file__).parents[3] / "deploy" / "crds"


def definition(kind: Kind) -> Json:
    found: Json = yaml.safe_load((CRDS / f"{kind.plural}.yaml").read_text(encoding="utf-8"))
    return found


def version(kind: Kind) -> Json:
    (only,) = definition(kind)["spec"]["versions"]
    return dict(only)


def properties(kind: Kind, part: str) -> Json:
    schema = version(kind)["schema"]["openAPIV3Schema"]
    return dict(schema["properties"][part]["properties"])


@pytest.mark.parametrize("kind", [POD_GROUP, QUEUE, VOLCANO_JOB, COMMAND], ids=lambda kind: kind.plural)
def test_coordinates(kind: Kind) -> None:
    crd = definition(kind)
    spec, names = crd["spec"], crd["spec"]["names"]
    assert crd["metadata"]["name"] == f"{kind.plural}.{kind.group}"
    assert (spec["group"], names["kind"], names["plural"]) == (kind.group, kind.name, kind.plural)
    assert spec["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
    assert tuple(names.get("shortNames", [])) == kind.short_names
    assert (version(kind)["name"], version(kind)["served"], version(kind)["storage"]) == (kind.version, True, True)
    assert version(kind).get("subresources") == (None if kind == COMMAND else {"status": {}})


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (POD_GROUP, ["STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"]),
        (VOLCANO_JOB, ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"]),
        (COMMAND, ["ACTION", "TARGET", "AGE"]),
    ],
)
def test_columns(kind: Kind, columns: list[str]) -> None:
    """scheduling/PG-2, J-15"""
    shown = [column["name"] for column in version(kind)["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == columns


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        (POD_GROUP, ["queue"], "default"),
        (QUEUE, ["weight"], 1),
        (QUEUE, ["reclaimable"], True),
        (QUEUE, ["priority"], 0),
        (QUEUE, ["dequeueStrategy"], "traverse"),
        (VOLCANO_JOB, ["queue"], "default"),
        (VOLCANO_JOB, ["maxRetry"], 3),
    ],
)
def test_defaults(kind: Kind, path: list[str], value: Any) -> None:
    """scheduling/PG-1, Q-1, J-1"""
    found = properties(kind, "spec")
    for key in path:
        found = found[key]
    assert found["default"] == value


def test_bounds_of_a_weight() -> None:
    """scheduling/Q-1"""
    weight = properties(QUEUE, "spec")["weight"]
    assert (weight["minimum"], weight["maximum"]) == (1, 65535)
