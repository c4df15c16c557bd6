#!/usr/bin/env bash
# A working system to play with: control plane, manager and the example presets,
# until interrupted.
set -euo pipefail
cd "$(dirname "$0")/../.."
NAME=dev
# shellcheck source=test/demo/lib.sh
. test/demo/lib.sh

build
start
presets

say "Ready. In another terminal, from this folder:"
cat <<TEXT
  export KUBECONFIG=$KUBECONFIG
  alias kubectl='bin/controlplane --name dev kubectl'
  kubectl create -f examples/vms/tiny.yaml
  kubectl get vm tiny -n lab -o yaml | bin/virtwright explain -f -

The manager's log follows; Ctrl-C ends everything.
TEXT
tail -n +1 -f "$LOG" --pid "$MANAGER"
