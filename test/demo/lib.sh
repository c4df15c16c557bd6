# Sourced by demo.sh and dev.sh, from the project's root: a real control plane,
# the manager and a stand-in for the node. All end with the script. Each run has
# its own, so several run side by side.

NAME=${NAME:-$(basename "$0" .sh)-$$}
STARTED=
WORK=$(mktemp -d)
LOG=$WORK/manager.log
NODE_LOG=$WORK/standin.log
MANAGER=
NODE=
CONTROLPLANE=bin/controlplane

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# run shows a command and runs it.
run() {
  printf '\033[36m$ %s\033[0m\n' "$*"
  "$@"
}

kubectl() { "$CONTROLPLANE" --name "$NAME" kubectl "$@"; }

stop() {
  local process
  for process in $NODE $MANAGER; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  if [ -n "$STARTED" ]; then
    "$CONTROLPLANE" --name "$NAME" stop >/dev/null 2>&1 || true
  fi
  rm -rf "$WORK"
}
trap stop EXIT
trap 'exit 130' INT TERM

build() {
  say "Building virtwright and its programs (the first time takes some minutes)"
  mkdir -p bin
  go build -o bin/ ./cmd/* ./test/controlplane/cmd/controlplane ./test/standin/cmd/standin
}

# identity prints a kubeconfig of the manager's service account: what virtwright
# writes itself is guarded, and its own name is what it is trusted by.
identity() {
  local file=$WORK/manager.kubeconfig
  {
    kubectl create namespace virtwright-system
    kubectl create serviceaccount virtwright-manager -n virtwright-system
    kubectl create clusterrolebinding virtwright-manager --clusterrole=cluster-admin --serviceaccount=virtwright-system:virtwright-manager
    cp "$KUBECONFIG" "$file"
    kubectl config --kubeconfig "$file" set-credentials manager --token "$(kubectl create token virtwright-manager -n virtwright-system)"
    kubectl config --kubeconfig "$file" set-context --current --user manager
  } >/dev/null
  echo "$file"
}

start() {
  say "Starting a real Kubernetes control plane"
  local exports
  exports=$("$CONTROLPLANE" --name "$NAME" start --new --while $$) || exit 1
  STARTED=yes # only what this run has started is stopped
  eval "$exports"
  kubectl apply --server-side -f charts/virtwright/files/crds >/dev/null 2>&1 || kubectl apply --server-side -f charts/virtwright/files/crds
  established 2>/dev/null || { sleep 1; established; } # it does not wait for a CRD of which nobody has said anything yet

  local self
  self=$(identity)
  kubectl create service externalname virtwright-subresources --external-name localhost -n virtwright-system >/dev/null
  say "Starting virtwright-manager (standalone mode), which registers its webhooks and serves start, stop and restart"
  for _ in 1 2 3; do # another process may take a port that was free
    launch "$self" && return
    grep -q "address already in use" "$LOG" || break
  done
  echo "virtwright-manager did not get ready; its log:" >&2
  cat "$LOG" >&2
  exit 1
}

# launch starts the manager on two free ports and waits until it answers.
launch() {
  local webhooks verbs
  read -r webhooks verbs <<<"$("$CONTROLPLANE" free-ports 2 | xargs)"
  bin/virtwright-manager --kubeconfig "$1" --mode standalone --register-webhooks \
    --webhook-bind-address "127.0.0.1:$webhooks" --webhook-url "https://127.0.0.1:$webhooks" \
    --subresources-bind-address "127.0.0.1:$verbs" --subresources-service virtwright-system/virtwright-subresources \
    --launcher-image virtwright/virtwright-launcher:dev --kvm-resource squat.ai/kvm \
    --metrics-bind-address 0 --health-probe-bind-address 0 --shutdown-delay 0s --log-format text >"$LOG" 2>&1 &
  MANAGER=$!
  aggregate "$verbs"
  await registered && await kubectl get --raw /apis/subresources.kubevirt.io/v1/version
}

established() { kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null; }

# aggregate makes the API server find start, stop and restart at a port of this
# host; in a cluster with pods the Service has them.
aggregate() {
  local file
  for file in charts/virtwright/files/apiservices/*.yaml; do
    sed "s/port: 443/port: $1/" "$file" | kubectl apply --server-side -f - >/dev/null
  done
}

registered() {
  kubectl get mutatingwebhookconfiguration admission.virtwright.dev -o jsonpath='{.webhooks[*].clientConfig.caBundle}' | grep -q .
}

# await waits until a command succeeds; it fails when the manager ends, or takes 30 s.
await() {
  local tries=150
  until "$@" >/dev/null 2>&1; do
    if ! kill -0 "$MANAGER" 2>/dev/null || [ $((tries -= 1)) -le 0 ]; then
      return 1
    fi
    sleep 0.2
  done
}

# node starts a stand-in for what runs instances. It runs none.
node() {
  bin/standin >"$NODE_LOG" 2>&1 &
  NODE=$!
}

# presets applies the examples and waits until every one of them is in use.
presets() {
  run kubectl apply -f examples/namespaces.yaml
  run kubectl apply -f examples/presets
  run kubectl wait --for=condition=Ready cvmpreset --all --timeout=30s
  run kubectl wait --for=condition=Ready vmpreset --all -n lab --timeout=30s
}
