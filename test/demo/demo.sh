#!/usr/bin/env bash
# A tour of five minutes. kubectl creates a VM of four lines, and presets complete it. The control
# plane is real, and is removed when the script ends.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/demo/lib.sh
. test/demo/lib.sh

build
start

say "1. A platform team adds presets"
presets
run kubectl get cvmpreset

say "2. A user creates a sparse VM"
run cat examples/vms/tiny.yaml
run kubectl create -f examples/vms/tiny.yaml

say "3. The stored VM is complete"
run kubectl get vm tiny -n lab -o yaml

say "4. The origin of each field, read from the stored VM"
kubectl get vm tiny -n lab -o json >"$WORK/tiny.json"
echo '$ kubectl get vm tiny -n lab -o json | virtwright explain -f -'
bin/virtwright explain -f "$WORK/tiny.json"

say "5. The same offline, before the VM is created: which presets act, and why the others do not"
run bin/virtwright explain -f examples/vms/tiny.yaml -f examples/presets -f examples/namespaces.yaml spec.template.spec.domain

say "6. A VM with host devices is rejected by a rule of its namespace"
run kubectl create -f examples/refused/passthrough.yaml && exit 1 || true

say "7. A preset with an unknown field is rejected"
run kubectl create -f examples/refused/misspelt.yaml && exit 1 || true

say "8. Only controllers may change a VM's owner references, because garbage collection deletes by them"
OWNER='{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "1"}]}}'
run kubectl patch vm tiny -n lab --type merge -p "$OWNER" && exit 1 || true

say "9. A VM that could not start is rejected when it is created"
run kubectl create -f examples/refused/volume-name.yaml && exit 1 || true

say "10. The same check without a cluster"
run bin/virtwright validate -f examples/refused/volume-name.yaml -f examples/presets && exit 1 || true

say "11. A VM starts and stops. No guest runs: a stand-in simulates the node, and sets the phases of the VMI"
node
run kubectl create -f examples/vms/netboot.yaml
run bin/virtwright start netboot -n lab --wait
run kubectl get vm,vmi netboot -n lab
run bin/virtwright stop netboot -n lab --wait
run kubectl events -n lab --for virtualmachine/netboot

say "12. The VM becomes a template with its values as parameters, verified before it is published. Another VM is created from the template"
run bin/virtwright template create netboot -n lab --name netboot-golden --format configMap
kubectl get configmap netboot-golden -n lab -o yaml >"$WORK/netboot-golden.yaml"
echo '$ kubectl get configmap netboot-golden -n lab -o yaml | virtwright template process -f - -p CPU_CORES=2 | kubectl create -n lab -f -'
bin/virtwright template process -f "$WORK/netboot-golden.yaml" -p CPU_CORES=2 >"$WORK/netboot.yaml"
kubectl create -n lab -f "$WORK/netboot.yaml"
run kubectl get vm,vmtreq -n lab

say "Done. 'make dev' starts such a system to try by hand."
