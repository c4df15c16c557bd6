#!/bin/sh
# Creates a kind cluster with virtwright and a running VM, and prints the next commands. Run it
# again to install changes. KIND_CLUSTER names the cluster.
set -eu
cd "$(dirname "$0")/../.."
cluster="${KIND_CLUSTER:-dev}"

kind() { bin/kind --name "$cluster" "$@"; }

go build -o bin/ ./cmd/virtwright ./test/kind/cmd/kind
settings=$(kind up)
eval "$settings"
for image in manager launcher guest; do go run ./test/kind/cmd/image $image; done
kind load bin/virtwright-manager.tar bin/virtwright-launcher.tar bin/virtwright-guest.tar
helm upgrade --install virtwright charts/virtwright --namespace virtwright-system --create-namespace \
	--set certs.mode=self-signed --wait --timeout 3m >/dev/null
kubectl rollout restart --namespace virtwright-system deployment/virtwright >/dev/null # the new image has the same tag
kubectl rollout status --namespace virtwright-system deployment/virtwright --timeout 3m >/dev/null
kubectl apply -f test/kind/dev.yaml
kubectl wait --for=condition=Ready --timeout=30s vmpreset/guest
kubectl get vm hello >/dev/null 2>&1 || kubectl create -f - <<VM
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: hello, namespace: default}
VM
echo "waiting for the login prompt of VM hello"
tries=180
until kubectl logs virt-launcher-hello --container compute 2>/dev/null | grep -q 'Log in as root'; do
	[ $((tries -= 1)) -gt 0 ] || { kubectl describe vmi/hello pod/virt-launcher-hello; exit 1; }
	sleep 1
done
kubectl get vm,vmi,pods -o wide
cat <<NEXT

VM hello is running. Next:

  eval "\$(bin/kind --name $cluster env)"   # kubectl and helm for this cluster
  bin/virtwright console hello            # log in as root, without a password; Ctrl-] leaves
  kubectl logs virt-launcher-hello        # the guest's output
  kubectl get vm hello -o yaml            # the VM, expanded by the preset "guest"
  bin/virtwright stop hello               # presses the guest's power button
  bin/virtwright start hello
  kubectl delete vm hello
  bin/kind --name $cluster down             # removes the cluster
NEXT
