"""Scenario files: read, judged, and ready to be played.

``read_plays`` reads all files of a command line and judges them before anything is played. Each problem becomes one
line that names file, document and field. A ``Play`` is one file (or, together, all of them as one): its steps with
their bodies as written, its assertions, and the documents behind them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from services.simulator import yamltext
from services.simulator.document import Document, holders
from services.simulator.itemshapes import check_items
from services.simulator.judge import Judge, anything, list_of, one_of, shape, text, whole
from services.simulator.objectshapes import check_document
from services.simulator.stepshapes import check_steps

API_VERSION = "gpuledger.dev/v1"
#: How a Scenario shows in text that cannot be read.
_SCENARIO = re.compile(r"^kind: *[\"']?Scenario\b", re.MULTILINE)


class Malformed(Exception):
    """Files that cannot be played: one line per problem."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its place in the file (``steps[4]``), its verb and its body as written."""

    place: str
    verb: str
    body: Any


@dataclass(frozen=True)
class Play:
    """One independent file to be played. ``manifests`` is true for a file without a Scenario document."""

    file: str
    documents: tuple[Document, ...]
    steps: tuple[Step, ...]
    expect: tuple[Any, ...]
    rules: tuple[str, ...] = ()
    manifests: bool = False

    def document(self, ref: int | str) -> Document:
        """Return the document of this number, or the one that holds the object of this name."""
        return self._numbered[ref if isinstance(ref, int) else self._holders[ref][0]]

    @cached_property
    def _numbered(self) -> dict[int, Document]:
        return {document.number: document for document in self.documents}

    @cached_property
    def _holders(self) -> dict[str, list[int]]:
        return holders(self.documents)


def read_plays(paths: Sequence[str], *, together: bool = False) -> list[Play]:
    """Read and judge files. Raises ``Malformed`` with the problems of all of them."""
    problems: list[str] = []
    files = [_read_file(path, problems) for path in paths]
    groups = [[content for file in files for content in file]] if together and files else files
    plays = [_judge(_name(paths, index, together), group, problems) for index, group in enumerate(groups) if group]
    for path, file in zip(paths, files, strict=True):
        if not file and not any(line.startswith(f"{path}: ") for line in problems) and not (together and any(files)):
            problems.append(f"{path}: holds no document")
    if problems:
        raise Malformed(problems)
    return plays


def _name(paths: Sequence[str], index: int, together: bool) -> str:
    return paths[0] if together else paths[index]


def _read_file(path: str, problems: list[str]) -> list[tuple[str, Any]]:
    """Return the documents of a file that are not empty, each with the file's name."""
    try:
        if os.path.getsize(path) > yamltext.SIZE_MAX_BYTES:
            problems.append(f"{path}: is larger than {yamltext.SIZE_MAX_BYTES} bytes")
            return []
        content = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror or error}")
        return []
    except UnicodeDecodeError as error:
        problems.append(f"{path}: document 0: line {_line_of(error)}: is not UTF-8 text")
        return []
    found: list[tuple[str, Any]] = []
    try:
        found.extend((path, value) for value in yamltext.documents(content) if value is not None)
    except yamltext.YamlProblem as error:
        scenario = _is_scenario(found[0][1]) if found else _SCENARIO.search(content) is not None
        number = len(found) + (0 if scenario else 1)
        problems.append(f"{path}: document {number}: {error}")
        return []
    return found


def _line_of(error: UnicodeDecodeError) -> int:
    return error.object[: error.start].count(b"\n") + 1


def _is_scenario(content: Any) -> bool:
    if not isinstance(content, dict):
        return False
    version = content.get("apiVersion")
    return content.get("kind") == "Scenario" or (isinstance(version, str) and version.startswith("gpuledger.dev/"))


def _judge(file: str, contents: list[tuple[str, Any]], problems: list[str]) -> Play:
    first = 0 if _is_scenario(contents[0][1]) else 1
    documents = tuple(Document(number, path, value) for number, (path, value) in enumerate(contents, first))
    before = len(problems)
    judge = Judge(documents)
    for document in documents:
        if document.number == 0:
            _check_head(document.content, judge)
        elif _is_scenario(document.content):
            judge.say("kind", "a Scenario must be the first document")
        else:
            check_document(document, judge)
        problems.extend(_line(document, at, said) for at, said in judge.problems)
        judge.problems.clear()
    if first == 1:
        return _manifests(file, documents)
    if len(problems) == before:
        problems.extend(_unused(documents, judge.used))
    return _scenario(file, documents)


def _line(document: Document, at: str, said: str) -> str:
    where = f"{document.file}: {document.label}"
    return f"{where}: {at}: {said}" if at else f"{where}: {said}"


def _document_numbers(value: Any, at: str, judge: Judge) -> None:
    list_of(whole(1))(value, at, judge)
    last = len(judge.documents) - 1
    for index, number in enumerate(value if isinstance(value, list) else []):
        if isinstance(number, int) and number > last:
            judge.say(f"{at}[{index}]", f"there is no document {number}")


_HEAD = shape(
    {"apiVersion": one_of(API_VERSION), "kind": one_of("Scenario")},
    {
        "title": text, "steps": check_steps, "expect": check_items, "id": anything, "area": anything,
        "basis": anything, "level": anything, "note": anything, "rules": list_of(text),
        "malformed": _document_numbers,
    },
)  # fmt: skip


def _check_head(content: Any, judge: Judge) -> None:
    _HEAD(content, "", judge)
    if "steps" not in content:
        judge.used.update(document.number for document in judge.documents)


def _unused(documents: tuple[Document, ...], used: set[int]) -> list[str]:
    return [
        f"{document.file}: {document.label}: no step uses it"
        for document in documents
        if document.number and document.number not in used
    ]


def _scenario(file: str, documents: tuple[Document, ...]) -> Play:
    head = documents[0].content
    default: list[Any] = [{"settle": True}]
    if len(documents) > 1:
        default.insert(0, {"add": [document.number for document in documents[1:]]})
    steps, expect, rules = head.get("steps", default), head.get("expect"), head.get("rules")
    return Play(
        file,
        documents,
        _steps(steps if isinstance(steps, list) else []),
        tuple(expect if isinstance(expect, list) else []),
        tuple(rule for rule in (rules if isinstance(rules, list) else []) if isinstance(rule, str)),
    )


def _steps(steps: list[Any]) -> tuple[Step, ...]:
    found = []
    for index, step in enumerate(steps):
        if isinstance(step, dict) and len(step) == 1:
            ((verb, body),) = step.items()
            found.append(Step(f"steps[{index}]", verb, body))
    return tuple(found)


def _manifests(file: str, documents: tuple[Document, ...]) -> Play:
    numbers = [document.number for document in documents]
    steps: list[Any] = [{"apply": numbers}, {"settle": True}]
    return Play(file, documents, _steps(steps), (), manifests=True)
