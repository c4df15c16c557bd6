#!/usr/bin/env bash
# Starts a system to try by hand: control plane, manager, the example presets and a stand-in for the
# node. It runs until it is interrupted.
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

  kubectl create -f examples/vms/tiny.yaml               # presets complete it
  kubectl get vm tiny -n lab -o yaml | virtwright explain -f -

  kubectl create -f examples/vms/netboot.yaml            # is created halted
  kubectl get vm -A -w                                   # in a third terminal, after both lines above
  virtwright start netboot -n lab --wait
  virtwright restart netboot -n lab --wait
  virtwright stop netboot -n lab --wait
  kubectl describe vm netboot -n lab

Next, write presets of your own: docs/writing-presets.md.

No guest runs here. A stand-in simulates scheduler and kubelet: it only changes the phases of the
pods of VMIs. So consoles, displays, pause and reset do not work. The stand-in can simulate failures
(crash, shutdown or hang, within 10 s):

  kubectl annotate pod virt-launcher-tiny -n lab standin.virtwright.dev/behaviour=crash

The manager's log follows (the stand-in's is $NODE_LOG); Ctrl-C stops everything.
TEXT
# In the background, so that a signal ends the wait.
tail -n 0 -f "$LOG" --pid "$MANAGER" &
wait $!
