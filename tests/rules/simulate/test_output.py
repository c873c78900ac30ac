"""Results, exit codes and output of the command (scenario format, *Results and exit codes*, *Output*)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner

from services.cli.simulate import simulate
from tests.rules.simulate.playing import group, node, pod, text


def run(*arguments: str) -> tuple[int, str, str]:
    app = Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def manifests(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False)


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yaml"
    path.write_text(manifests(node(), pod("one")))
    return str(path)


def test_json_is_one_list_sorted_by_kind_namespace_and_name(good: str) -> None:
    code, out, err = run(good, "-o", "json")
    found = json.loads(out)
    assert (code, err, found["apiVersion"], found["kind"]) == (0, "", "v1", "List")
    places = [
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in found["items"]
    ]
    assert places == sorted(places)
    assert {"Event", "Namespace", "Node", "Pod", "PodGroup", "Queue"} == {kind for kind, _, _ in places}
    assert out == json.dumps(found, indent=2, sort_keys=True) + "\n"


def test_every_object_carries_what_a_server_gives(good: str) -> None:
    for item in json.loads(run(good, "-o", "json")[1])["items"]:
        meta = item["metadata"]
        assert item["apiVersion"]
        assert meta["uid"]
        assert meta["resourceVersion"].isdigit()
        assert meta["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_several_files_are_several_lists_in_the_order_given(good: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(manifests(node("gpu-02")))
    code, out, _ = run(str(other), good, "-o", "yaml")
    lists = list(yaml.safe_load_all(out))
    names = [[item["metadata"]["name"] for item in found["items"] if item["kind"] == "Node"] for found in lists]
    assert (code, names) == (0, [["gpu-02"], ["gpu-01"]])
    decoder, rest = json.JSONDecoder(), run(str(other), good, "-o", "json")[1]
    first, end = decoder.raw_decode(rest)
    assert [first, decoder.raw_decode(rest[end:].lstrip())[0]] == lists


def test_together_they_are_one_cluster(good: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(manifests(node("gpu-02")))
    found = json.loads(run(str(other), good, "--together", "-o", "json")[1])
    assert [item["metadata"]["name"] for item in found["items"] if item["kind"] == "Node"] == ["gpu-01", "gpu-02"]


def test_a_refused_manifest_is_exit_code_1_and_the_others_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(manifests(node(), group("lost", 1, queue="nowhere"), pod("one")))
    code, out, err = run(str(path), "-o", "json")
    kinds = [item["kind"] for item in json.loads(out)["items"]]
    assert (code, kinds.count("Pod"), kinds.count("Node")) == (1, 1, 1)
    assert err.startswith(f"{path}: document 2 (PodGroup team-a/lost): refused: ")
    assert err.count("\n") == 1


def test_a_failed_assertion_is_exit_code_1_and_the_output_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "field.yaml"
    path.write_text(text(None, [{"pod": "team-a/one", "phase": "absent"}], node(), pod("one")))
    code, out, err = run(str(path), "-o", "json")
    assert (code, json.loads(out)["kind"]) == (1, "List")
    assert err.splitlines()[0].startswith(
        f"{path}: expect[0]: pod team-a/one phase: want absent, found bound (node gpu-01"
    )
    assert err.splitlines()[1] == f"{path}: FAILED (1 of 1 assertions)"


def test_the_probe_of_the_last_question_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "field.yaml"
    path.write_text(text(None, [{"invariants": ["no-crash"]}], node()))
    code, out, _ = run(str(path), "-o", "json")
    assert (code, "probe" in out) == (0, False)


def test_the_crash_points_are_listed() -> None:
    code, out, _ = run("--crash-points")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:2] == ["before-command", "after-command"]


def test_a_table_for_people(good: str) -> None:
    code, out, _ = run(good)
    assert code == 0
    assert "team-a/one  Running  gpu-01  GPU-00000000-0000-4000-8000-000000000001 4000" in out
