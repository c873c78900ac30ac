"""What is malformed (scenario format, *Results and exit codes*): one line each, all files first, nothing played."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from services.cli.simulate import simulate
from services.simulator.scenario import Malformed, read_plays

HEAD = "apiVersion: gpuledger.dev/v1\nkind: Scenario\n"
POD = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: team-a}\nspec: {schedulerName: volcano}\n"
POD_OTHER = POD.replace("name: x", "name: y")
DOCS = POD + POD_OTHER


def problems(tmp_path: Path, text: str | bytes, name: str = "field.yaml") -> list[str]:
    """Return the problem lines of one file, paths cut to the file's name."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        read_plays([str(path)])
    except Malformed as problem:
        return [line.removeprefix(f"{tmp_path}/") for line in problem.lines]
    return []


CASES = {
    "broken YAML": (HEAD + "steps: [\n", "field.yaml: document 0: line 4: "),
    "broken YAML later": (HEAD + POD + "---\na: b: c\n", "field.yaml: document 2: line 9: "),
    "duplicate key": (HEAD + "title: a\ntitle: b\n", "field.yaml: document 0: line 4: key 'title' is there twice"),
    "unknown head key": (HEAD + "stepps: []\n", "field.yaml: document 0 (Scenario): stepps: unknown key"),
    "another version": (
        "apiVersion: gpuledger.dev/v2\nkind: Scenario\n",
        "field.yaml: document 0 (Scenario): apiVersion: must be one of gpuledger.dev/v1",
    ),
    "scenario second": (
        POD[4:] + "---\n" + HEAD,
        "field.yaml: document 2 (Scenario): kind: a Scenario must be the first",
    ),
    "unknown kind": (
        HEAD + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n",
        "field.yaml: document 1 (Deployment d): kind: unknown kind Deployment",
    ),
    "wrong version of a kind": (
        HEAD + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: d}\n",
        "field.yaml: document 1 (Job default/d): apiVersion: must be batch.volcano.sh/v1alpha1 for a Job",
    ),
    "no name": (
        HEAD + "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: a}\n",
        "field.yaml: document 1 (Pod): metadata.name: is missing",
    ),
    "no metadata": (
        HEAD + "---\napiVersion: v1\nkind: Pod\n",
        "field.yaml: document 1 (Pod): metadata.name: is missing",
    ),
    "limits of the wrong type": (
        HEAD + POD.replace("{schedulerName: volcano}", "{containers: [{resources: {limits: 5}}]}"),
        "field.yaml: document 1 (Pod team-a/x): spec.containers[0].resources.limits: must be a mapping",
    ),
    "a number beyond its field": (
        HEAD + POD.replace("{schedulerName: volcano}", "{priority: 3000000000}"),
        "field.yaml: document 1 (Pod team-a/x): spec.priority: must be a whole number of 32 bits",
    ),
    "item of a list": (
        HEAD + "---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n",
        "field.yaml: document 1 (List): items[0].metadata.name: is missing",
    ),
    "annotation that is no text": (
        HEAD + POD.replace("name: x", "name: x, annotations: {a: 5}"),
        "field.yaml: document 1 (Pod team-a/x): metadata.annotations.a: must be text",
    ),
    "document is no mapping": (HEAD + "---\n- 1\n", "field.yaml: document 1: must be a mapping"),
    "steps no list": (HEAD + "steps: {}\n", "field.yaml: document 0 (Scenario): steps: must be a list"),
    "unknown verb": (
        HEAD + "steps: [{adds: [1]}]\n" + POD,
        "field.yaml: document 0 (Scenario): steps[0].adds: unknown verb",
    ),
    "two verbs": (
        HEAD + "steps: [{add: [1], settle: true}]\n" + POD,
        "field.yaml: document 0 (Scenario): steps[0]: must be a mapping with one verb",
    ),
    "no such document": (
        HEAD + "steps: [{add: [1, 2]}]\n" + POD,
        "field.yaml: document 0 (Scenario): steps[0].add[1]: there is no document 2",
    ),
    "document 0 is no object": (
        HEAD + "steps: [{add: [0, 1]}]\n" + POD,
        "field.yaml: document 0 (Scenario): steps[0].add[0]: there is no document 0",
    ),
    "no such name": (
        HEAD + "steps: [{add: [1]}, {delete: Pod/team-a/z}]\n" + POD,
        "field.yaml: document 0 (Scenario): steps[1].delete: no document holds Pod/team-a/z",
    ),
    "ambiguous name": (
        HEAD + "steps: [{add: [1, 2]}, {delete: Pod/team-a/x}]\n" + POD + POD,
        "field.yaml: document 0 (Scenario): steps[1].delete: Pod/team-a/x is in documents 1, 2: use a number",
    ),
    "unused": (
        HEAD + "steps: [{add: [1]}]\n" + DOCS,
        "field.yaml: document 2 (Pod team-a/y): no step uses it",
    ),
    "clock backwards": (
        HEAD + "steps: [{advance: 1h}, {clock: '2026-01-01T00:30:00Z'}]\n",
        "field.yaml: document 0 (Scenario): steps[1].clock: goes backwards, the clock stands at 2026-01-01T01:00:00Z",
    ),
    "bad duration": (
        HEAD + "steps: [{advance: 5 minutes}]\n",
        "field.yaml: document 0 (Scenario): steps[0].advance: must be a duration such as 30s or 1h30m",
    ),
    "settle false": (
        HEAD + "steps: [{settle: false}]\n",
        "field.yaml: document 0 (Scenario): steps[0].settle: must be true or {rounds: N}",
    ),
    "settle rounds text": (
        HEAD + "steps: [{settle: {rounds: '3'}}]\n",
        "field.yaml: document 0 (Scenario): steps[0].settle.rounds: must be a whole number",
    ),
    "unknown role": (
        HEAD + "steps: [{pause: watcher}]\n",
        "field.yaml: document 0 (Scenario): steps[0].pause: must be one of scheduler, binder",
    ),
    "missing key": (
        HEAD + "steps: [{bindResult: {pod: team-a/x}}]\n",
        "field.yaml: document 0 (Scenario): steps[0].bindResult.result: is missing",
    ),
    "unknown assertion": (
        HEAD + "expect: [{pod: team-a/x, phse: bound}]\n" + POD,
        "field.yaml: document 0 (Scenario): expect[0].phse: unknown assertion",
    ),
    "no subject": (
        HEAD + "expect: [{phase: bound}]\n" + POD,
        "field.yaml: document 0 (Scenario): expect[0]: names nothing to look at",
    ),
    "key of another subject": (
        HEAD + "expect: [{queue: default, allocated: {cpu: 1}, phase: bound}]\n" + POD,
        "field.yaml: document 0 (Scenario): expect[0].phase: does not belong to queue",
    ),
    "unknown phase": (
        HEAD + "expect: [{pod: team-a/x, phase: Bound}]\n" + POD,
        "field.yaml: document 0 (Scenario): expect[0].phase: must be one of bound, pending, notBound, absent",
    ),
    "assertion inside anyOf": (
        HEAD + "expect: [{anyOf: [[{pod: team-a/x, gpu: GPU-1}]]}]\n" + POD,
        "field.yaml: document 0 (Scenario): expect[0].anyOf[0][0].gpu: must be a list",
    ),
    "unknown invariant": (
        HEAD + "expect: [{invariants: [no-crashes]}]\n",
        "field.yaml: document 0 (Scenario): expect[0].invariants[0]: must be one of no-oversubscription,",
    ),
    "not UTF-8": (b"a: \xff\n", "field.yaml: document 0: line 1: is not UTF-8 text"),
    "empty": ("---\n---\n", "field.yaml: holds no document"),
    "alias bomb": (
        HEAD
        + "title: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"note{i}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)),
        "field.yaml: document 0: line 9: more than 4000000 values, aliases counted",
    ),
    "alias of itself": (HEAD + "title: &a [*a]\n", "field.yaml: document 0: line 3: alias *a has no anchor before it"),
    "depth": ("a: " + "[" * 500, "field.yaml: document 1: line 1: nested deeper than 100 levels"),
    "tag": (HEAD + "title: !!python/object:os.system x\n", "field.yaml: document 0: line 3: tag "),
}


@pytest.mark.parametrize("case", CASES)
def test_each_problem_is_one_line_with_file_document_and_field(tmp_path: Path, case: str) -> None:
    text, wanted = CASES[case]
    found = problems(tmp_path, text)
    assert len(found) == 1, found
    assert found[0].startswith(wanted)
    assert "\n" not in found[0]


GOOD = {
    "timestamps stay text": POD.replace("name: x", "name: x, creationTimestamp: 2026-01-01T00:00:00Z"),
    "content is for the cluster": POD.replace(
        "{schedulerName: volcano}", "{containers: [{name: c, resources: {limits: {cpu: 1x, memory: .nan, a/b: true}}}]}"
    ),
    "empty documents are not counted": "---\n---\n" + POD + "---\n~\n" + POD_OTHER,
    "a null field is absent": POD.replace("name: x", "name: x, labels: null"),
    "aliases and merge keys": POD.replace("name: x", "name: x, labels: &l {a: b}, annotations: {<<: *l, c: d}"),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_only_the_cluster_can_judge_is_accepted(tmp_path: Path, case: str) -> None:
    assert problems(tmp_path, GOOD[case]) == []
    assert problems(tmp_path, HEAD + "---\n" + GOOD[case]) == []


def test_all_problems_of_all_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + "expect: [{}]\nsteps: [{add: [7]}]\n")
    (tmp_path / "b.yaml").write_text(HEAD + "x: 1\n")
    (tmp_path / "c.yaml").write_text(POD)
    with pytest.raises(Malformed) as found:
        read_plays([str(tmp_path / name) for name in ("a.yaml", "b.yaml", "c.yaml", "d.yaml")])
    assert [line.removeprefix(f"{tmp_path}/").split(":")[0] for line in found.value.lines] == [
        "d.yaml", "a.yaml", "a.yaml", "b.yaml",
    ]  # fmt: skip


def test_together_the_documents_of_all_files_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + "steps: [{add: [1, 2]}]\n" + POD)
    (tmp_path / "b.yaml").write_text(POD_OTHER)
    (play,) = read_plays([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")], together=True)
    assert [document.number for document in play.documents] == [0, 1, 2]
    with pytest.raises(Malformed, match="a Scenario must be the first document"):
        read_plays([str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")], together=True)


def run(*arguments: str) -> tuple[int, str, str]:
    app = Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_one_malformed_file_and_nothing_is_played(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(POD)
    (tmp_path / "bad.yaml").write_text(HEAD + "x: 1\n")
    code, out, err = run(str(tmp_path / "good.yaml"), str(tmp_path / "bad.yaml"), "-o", "json")
    assert (code, out) == (2, "")
    assert err == f"{tmp_path}/bad.yaml: document 0 (Scenario): x: unknown key\n"


@pytest.mark.parametrize("arguments", [(), ("-o", "xml", "a.yaml"), ("--nope",), ("missing.yaml",)])
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err
