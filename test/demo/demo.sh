#!/usr/bin/env bash
# The five-minute tour: a VM of four lines, created with plain kubectl, comes
# back whole. Everything is real, and gone when this ends.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/demo/lib.sh
. test/demo/lib.sh

build
start

say "1. A platform team adds presets"
presets
run kubectl get cvmpreset

say "2. Somebody creates a sparse VM"
run cat examples/vms/tiny.yaml
run kubectl create -f examples/vms/tiny.yaml

say "3. It came back whole"
run kubectl get vm tiny -n lab -o yaml

say "4. Why? Where each field came from, read from the VM itself"
kubectl get vm tiny -n lab -o json >"$WORK/tiny.json"
echo '$ kubectl get vm tiny -n lab -o json | virtwright explain -f -'
bin/virtwright explain -f "$WORK/tiny.json"

say "5. The same before anything is created, offline: which presets acted, and why the others did not"
run bin/virtwright explain -f examples/vms/tiny.yaml -f examples/presets -f examples/namespaces.yaml spec.template.spec.domain

say "6. House rules: what a namespace forbids is refused"
run kubectl create -f examples/refused/passthrough.yaml && exit 1 || true

say "7. A preset that cannot be right is refused when it is written"
run kubectl create -f examples/refused/misspelt.yaml && exit 1 || true

say "8. Who owns a machine is not for people to say: garbage collection follows owners, and deletes"
OWNER='{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "1"}]}}'
run kubectl patch vm tiny -n lab --type merge -p "$OWNER" && exit 1 || true

say "9. What could never start is refused now, not when it starts"
run kubectl create -f examples/refused/volume-name.yaml && exit 1 || true

say "10. The same verdict without a cluster"
run bin/virtwright validate -f examples/refused/volume-name.yaml -f examples/presets && exit 1 || true

say "11. It starts and stops. No guest runs: a stand-in plays the node here, and takes the instance from phase to phase"
node
run kubectl create -f examples/vms/netboot.yaml
run bin/virtwright start netboot -n lab --wait
run kubectl get vm,vmi netboot -n lab
run bin/virtwright stop netboot -n lab --wait
run kubectl events -n lab --for virtualmachine/netboot

say "12. It becomes a template: every value a parameter, proven before it is published; and another machine is made of that"
run bin/virtwright template create netboot -n lab --name netboot-golden --format configMap
kubectl get configmap netboot-golden -n lab -o yaml >"$WORK/netboot-golden.yaml"
echo '$ kubectl get configmap netboot-golden -n lab -o yaml | virtwright template process -f - -p CPU_CORES=2 | kubectl create -n lab -f -'
bin/virtwright template process -f "$WORK/netboot-golden.yaml" -p CPU_CORES=2 >"$WORK/netboot.yaml"
kubectl create -n lab -f "$WORK/netboot.yaml"
run kubectl get vm,vmtr -n lab

say "Done. 'make dev' keeps such a system running to play with."
