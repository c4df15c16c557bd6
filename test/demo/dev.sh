#!/usr/bin/env bash
# A working system to play with: control plane, manager, the example presets and a
# stand-in for the node, until interrupted.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/demo/lib.sh
. test/demo/lib.sh

build
start
presets
node

say "Ready. In another terminal, from this folder:"
cat <<TEXT
  export KUBECONFIG=$KUBECONFIG
  alias kubectl='$PWD/bin/controlplane --name $NAME kubectl' virtwright=$PWD/bin/virtwright

  kubectl create -f examples/vms/tiny.yaml               # comes back whole
  kubectl get vm tiny -n lab -o yaml | virtwright explain -f -

  kubectl create -f examples/vms/netboot.yaml            # comes back halted
  kubectl get vm -A -w                                   # in a third terminal
  virtwright start netboot -n lab --wait
  virtwright restart netboot -n lab --wait
  virtwright stop netboot -n lab --wait
  kubectl describe vm netboot -n lab

docs/writing-presets.md goes on from here, with presets of your own.

No guest runs here. A stand-in plays scheduler and kubelet: it moves the pods of VMIs from phase to phase, and that is all
it does. It also plays trouble:

  kubectl annotate pod virt-launcher-tiny -n lab standin.virtwright.dev/behaviour=crash     # or shutdown, hang; it takes 10 s

The manager's log follows (the stand-in's is $NODE_LOG); Ctrl-C ends everything.
TEXT
tail -n 0 -f "$LOG" --pid "$MANAGER"
