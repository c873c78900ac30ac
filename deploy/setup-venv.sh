#!/usr/bin/env bash
# Make the virtual environment with exactly the packages of requirements.lock. Needs Python 3.11 or newer.
set -euo pipefail
venv=$1
say() { printf '%s\n' "$*" >&2; }

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { say "gpuledger needs Python 3.11 or newer"; exit 1; }
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  # Debian keeps the venv module's parts in a package of their own.
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing python3-venv ..."
    apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-venv >/dev/null
  else
    say "the Python module venv is missing: install Debian's package python3-venv"; exit 1
  fi
fi
say "[1/3] making $venv ..."
python3 -m venv --clear "$venv"
say "[2/3] installing the locked packages ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
say "[3/3] installing gpuledger ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
