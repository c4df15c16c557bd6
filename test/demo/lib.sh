# Functions of demo.sh and dev.sh, which source this file from the project's root. They start a
# control plane, the manager and a stand-in for the node, and end them with the script. Several
# scripts can run at the same time, because each has its own control plane.

NAME=${NAME:-$(basename "$0" .sh)-$$}
STARTED=
WORK=$(mktemp -d)
LOG=$WORK/manager.log
NODE_LOG=$WORK/standin.log
MANAGER=
NODE=
CONTROLPLANE=bin/controlplane

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# run prints a command, quoted so that it can be pasted, and runs it.
run() {
  local word line=
  for word; do
    [[ $word =~ ^[A-Za-z0-9_./:=,-]+$ ]] || word=${word@Q}
    line+=" $word"
  done
  printf '\033[36m$%s\033[0m\n' "$line"
  "$@"
}

# pipe prints a pipeline, and runs it.
pipe() {
  printf '\033[36m$ %s\033[0m\n' "$1"
  eval "$1"
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
  make --no-print-directory build
  go build -o bin/ ./test/controlplane/cmd/controlplane ./test/standin/cmd/standin
}

# identity prints the path of a kubeconfig of the manager's service account, which virtwright trusts
# by its name to write guarded fields.
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
  STARTED=yes # stop ends only a control plane that this run started
  eval "$exports"
  kubectl apply --server-side -f charts/virtwright/files/crds >/dev/null 2>&1 || kubectl apply --server-side -f charts/virtwright/files/crds
  established 2>/dev/null || { sleep 1; established; } # kubectl does not wait for a CRD without status

  local self
  self=$(identity)
  kubectl create service externalname virtwright-subresources --external-name localhost -n virtwright-system >/dev/null
  say "Starting virtwright-manager (standalone mode), which registers its webhooks and serves start, stop and restart"
  for _ in 1 2 3; do # another process may take a port that was free
    launch "$self" && return
    grep -q "address already in use" "$LOG" || break
  done
  echo "virtwright-manager is not ready; its log:" >&2
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

# aggregate registers the subresource API with the API server, at a port of this host. A cluster
# with pods uses the Service instead.
aggregate() {
  local file
  for file in charts/virtwright/files/apiservices/*.yaml; do
    sed "s/port: 443/port: $1/" "$file" | kubectl apply --server-side -f - >/dev/null
  done
}

registered() {
  kubectl get mutatingwebhookconfiguration admission.virtwright.dev -o jsonpath='{.webhooks[*].clientConfig.caBundle}' | grep -q .
}

# await runs a command until it succeeds. It fails if the manager ends, or after 30 s.
await() {
  local tries=150
  until "$@" >/dev/null 2>&1; do
    if ! kill -0 "$MANAGER" 2>/dev/null || [ $((tries -= 1)) -le 0 ]; then
      return 1
    fi
    sleep 0.2
  done
}

# node starts the stand-in for the node. It runs no guests.
node() {
  bin/standin >"$NODE_LOG" 2>&1 &
  NODE=$!
}

# presets applies the example presets and waits until all are Ready. It creates the PriorityClass
# that cluster/tier-prod sets: without it, the API server rejects the pods of VMs in shop.
presets() {
  run kubectl apply -f examples/namespaces.yaml
  run kubectl create priorityclass production --value=1000
  run kubectl apply -f examples/presets
  run kubectl wait --for=condition=Ready cvmpreset --all --timeout=30s
  run kubectl wait --for=condition=Ready vmpreset --all -n lab --timeout=30s
}
