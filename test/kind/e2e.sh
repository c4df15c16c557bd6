#!/bin/sh
# Creates a kind cluster, runs the named parts in it (stories: test/kind; suite: test/e2e; soak:
# test/soak; release: test/kind/release.sh) and deletes the cluster. Default: stories, release and
# suite. KEEP=1 keeps the cluster, KIND_CLUSTER names it, and ARGS are passed to go test.
set -eu
cd "$(dirname "$0")/../.."
export KIND_CLUSTER="${KIND_CLUSTER:-virtwright}"

kind() { bin/kind --name "$KIND_CLUSTER" "$@"; }

finish() {
	code=$?
	trap - EXIT INT TERM
	if [ -n "${KEEP:-}" ]; then
		echo "the cluster is kept: use it with eval \"\$(bin/kind --name $KIND_CLUSTER env)\", delete it with bin/kind --name $KIND_CLUSTER down"
	else
		kind down
	fi
	exit $code
}

go build -o bin/kind ./test/kind/cmd/kind
trap finish EXIT
trap 'exit 130' INT TERM
settings=$(kind up)
eval "$settings"
for image in manager launcher guest; do go run ./test/kind/cmd/image $image; done

stories() { go test -count=1 -timeout 30m ./test/kind ${ARGS:-}; }

soak() { go test -count=1 -timeout 60m -v -run TestKind ./test/soak ${ARGS:-}; }

release() {
	go run ./test/release -host -o bin/dist
	test/kind/release.sh bin/dist
}

suite() {
	kind load bin/virtwright-manager.tar
	helm install virtwright charts/virtwright --namespace virtwright-system --create-namespace \
		--values test/kind/e2e-values.yaml --wait --timeout 3m >/dev/null
	KUBECONFIG_E2E="$KUBECONFIG" E2E_ADDRESS="$(kind host)" go test -count=1 -timeout 30m ./test/e2e ${ARGS:-}
}

[ $# -gt 0 ] || set -- stories release suite
for part in "$@"; do "$part"; done
