"""Which files of a collection hold: ``python -m services.simulator.report DIR... [--update LIST]``.

Plays every YAML file below the folders and prints the counts and the failures. With ``--update`` the files that hold
are added to a list, which only ever grows: what held once must go on holding.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from services.simulator.run import play_all
from services.simulator.scenario import Malformed, read_plays


def files_below(folders: Iterable[Path]) -> list[Path]:
    """Return the YAML files of folders, sorted by path."""
    return sorted(path for folder in folders for path in folder.rglob("*.yaml"))


def failures_of(path: Path) -> list[str]:
    """Play one file and return its problem lines, empty if it holds."""
    try:
        plays = read_plays([str(path)])
    except Malformed as problem:
        return list(problem.lines)
    return asyncio.run(play_all(plays, output="table", seed=0)).problems


def read_list(path: Path) -> list[str]:
    """Return the names in a list of files; empty lines and comments are no names."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if line and not line.startswith("#")]


def update_list(path: Path, holding: Iterable[Path]) -> None:
    """Add files, named from the list's own folder, to a list of files that hold."""
    names = {file.resolve().relative_to(path.resolve().parent).as_posix() for file in holding}
    heading = "# Scenario files that hold; a file that is listed here must go on holding.\n"
    path.write_text(heading + "".join(f"{name}\n" for name in sorted(names | {*read_list(path)})), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if every file holds, else 1."""
    parser = argparse.ArgumentParser(prog="services.simulator.report", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--update", type=Path, metavar="LIST", help="add the files that hold to this list")
    options = parser.parse_args(arguments)
    holding: list[Path] = []
    files = files_below(options.folders)
    for path in files:
        problems = failures_of(path)
        if not problems:
            holding.append(path)
        for line in problems:
            print(line)
    for folder in options.folders:
        inside = [path for path in files if path.is_relative_to(folder)]
        print(f"{folder}: {sum(path in holding for path in inside)} of {len(inside)} hold")
    if options.update:
        update_list(options.update, holding)
    return 0 if len(holding) == len(files) else 1


if __name__ == "__main__":
    sys.exit(main())
