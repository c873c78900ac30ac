#!/usr/bin/env bash
# base.sh FILE: a root file system for local images, as a tarball: Debian with Python, a Java runtime and PostgreSQL 15.
# It comes from the mirror that apt is set to, in this machine's own release.
set -euo pipefail
# In memory, behind a mount that nobody else sees: quicker than a disk, and nothing has to be deleted.
if [ -z "${APART:-}" ]; then APART=1 exec unshare --mount bash "$0" "$1"; fi
file=$1
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:?not a Debian release}")
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' "Codename: $codename" | head -1)
[ -n "$mirror" ] || { echo "apt names no mirror of $codename main" >&2; exit 1; }

root=$(mktemp -d)
trap 'umount "$root"; rmdir "$root"' EXIT
mount -t tmpfs -o mode=755 base "$root"
debootstrap --variant=minbase --include=python3,python3-venv,openjdk-17-jre-headless,postgresql-15 \
  "$codename" "$root" "$mirror" >&2
tar -C "$root" --numeric-owner --one-file-system -cf "$file.partial" \
  --exclude=./var/cache/apt --exclude=./var/lib/apt/lists --exclude=./var/lib/postgresql/15 \
  --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale .
mv "$file.partial" "$file"
