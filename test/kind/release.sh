#!/bin/sh
# Tests a release on the kind cluster that KIND_CLUSTER names, with the files of its folder only. It
# runs the commands of the release's README.md, then creates, starts and stops a VM with the
# release's CLI. The VM boots the guest of the tests.
set -eu
dist=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
cluster="$PWD/bin/kind --name $KIND_CLUSTER"
$cluster load bin/virtwright-guest.tar

# kind load of the README does not know how to reach this cluster, but bin/kind does.
commands=$(sed -n '/^```sh$/,/^```$/{/^```/!p}' "$dist/README.md" | sed "s|kind load image-archive|$cluster load|")
script=$(mktemp)
trap 'rm -f "$script"' EXIT
cat >"$script" <<SCRIPT
cd "$dist"
$commands
kubectl apply --filename "$PWD/test/kind/dev.yaml"
SCRIPT
cat >>"$script" <<'SCRIPT'
kubectl wait --for=condition=Ready --timeout=30s vmpreset/guest
kubectl get pods --namespace virtwright-system --output 'jsonpath={..image}' | grep 'virtwright/virtwright-manager@sha256:'
kubectl create --filename - <<VM
{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: hello, namespace: default}, spec: {runStrategy: Halted}}
VM
virtwright explain vm/hello spec.template.spec.domain.memory | grep 'guest *192Mi *guest (default)'
kubectl virtwright start hello --wait
kubectl get pod virt-launcher-hello --output 'jsonpath={..image}' | grep 'virtwright/virtwright-launcher@sha256:'
tries=180
until kubectl logs virt-launcher-hello --container compute | grep 'Log in as root'; do
	[ $((tries -= 1)) -gt 0 ] || { kubectl describe vmi/hello pod/virt-launcher-hello; exit 1; }
	sleep 1
done
virtwright stop hello --wait
kubectl delete vm hello
kubectl delete --filename "$OLDPWD/test/kind/dev.yaml"
helm uninstall virtwright --namespace virtwright-system --wait
SCRIPT
sh -eux "$script"
