#!/usr/bin/env bash
# A tour of five minutes. kubectl creates a VM with a name and a label, and presets complete it. The
# control plane is real, and is removed when the script ends. On a terminal, the tour waits for
# Enter before each chapter; DEMO_PAUSE=0 turns this off.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/demo/lib.sh
. test/demo/lib.sh

# chapter waits for the reader, and prints a heading.
chapter() {
  if [ "${DEMO_PAUSE:-1}" != 0 ] && [ -t 0 ] && [ -t 1 ]; then
    read -rp $'\nPress Enter to continue ' || true
  fi
  say "$@"
}

build
start

chapter "1. A platform team adds presets"
presets
run kubectl get cvmpreset

chapter "2. A user creates a sparse VM"
run cat examples/vms/tiny.yaml
run kubectl create -f examples/vms/tiny.yaml

chapter "3. The stored VM is complete"
run kubectl get vm tiny -n lab -o yaml

chapter "4. The origin of each field, read from the stored VM"
pipe 'kubectl get vm tiny -n lab -o json | bin/virtwright explain -f -'

chapter "5. The same offline, before the VM is created: which presets act, and why the others do not"
run bin/virtwright explain -f examples/vms/tiny.yaml -f examples/presets -f examples/namespaces.yaml --all spec.template.spec.domain

chapter "6. A VM with host devices is rejected by a rule of its namespace"
run kubectl create -f examples/rejected/passthrough.yaml && exit 1 || true

chapter "7. A preset with an unknown field is rejected"
run kubectl create -f examples/rejected/misspelt.yaml && exit 1 || true

chapter "8. Only controllers may change a VM's owner references, because garbage collection deletes by them"
OWNER='{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "1"}]}}'
run kubectl patch vm tiny -n lab --type merge -p "$OWNER" && exit 1 || true

chapter "9. A VM that could not start is rejected when it is created"
run kubectl create -f examples/rejected/volume-name.yaml && exit 1 || true

chapter "10. The same check without a cluster"
run bin/virtwright validate -f examples/rejected/volume-name.yaml -f examples/presets && exit 1 || true

chapter "11. A VM starts and stops. No guest runs: a stand-in simulates the node, and sets the phases of the VMI"
node
run kubectl create -f examples/vms/netboot.yaml
run bin/virtwright start netboot -n lab --wait
run kubectl get vm,vmi netboot -n lab
run bin/virtwright stop netboot -n lab --wait
run kubectl events -n lab --for virtualmachine/netboot

chapter "12. The VM becomes a template with its values as parameters, verified before it is published. Another VM is created from the template"
run bin/virtwright template create netboot -n lab --name netboot-golden --format configMap
pipe 'kubectl get configmap netboot-golden -n lab -o yaml | bin/virtwright template process -f - -p CPU_CORES=2 | kubectl create -n lab -f -'
run kubectl get vm,vmtreq -n lab

say "Done. The control plane ends with this tour. Three things to try next:"
cat <<TEXT
  make dev                     # a system to try by hand: docs/first-steps.md
  bin/virtwright playground    # edit VMs and presets in a browser: docs/playground.md
  docs/writing-presets.md      # a tutorial: write, test and roll out a preset
TEXT
