# Sourced by demo.sh and dev.sh, from the project's root: a real control plane
# and the manager, both of which end with the script.

NAME=${NAME:-demo}
WORK=$(mktemp -d)
LOG=$WORK/manager.log
MANAGER=
CONTROLPLANE=bin/controlplane

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# run shows a command and runs it.
run() {
  printf '\033[36m$ %s\033[0m\n' "$*"
  "$@"
}

kubectl() { "$CONTROLPLANE" --name "$NAME" kubectl "$@"; }

stop() {
  [ -z "$MANAGER" ] || { kill "$MANAGER" 2>/dev/null || true; wait "$MANAGER" 2>/dev/null || true; }
  "$CONTROLPLANE" --name "$NAME" stop >/dev/null 2>&1 || true
  rm -rf "$WORK"
}
trap stop EXIT
trap 'exit 130' INT TERM

build() {
  say "Building virtwright and its programs (the first time takes some minutes)"
  mkdir -p bin
  go build -o bin/ ./cmd/... ./test/controlplane/cmd/controlplane
}

# free_port prints a port that nobody listens on.
free_port() {
  local port
  for port in $(seq 19443 19543); do
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
  echo "no free port from 19443 to 19543" >&2
  return 1
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
  eval "$("$CONTROLPLANE" --name "$NAME" start --while $$)"
  kubectl apply --server-side -f charts/virtwright/files/crds >/dev/null 2>&1 || kubectl apply --server-side -f charts/virtwright/files/crds
  kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null

  local port
  port=$(free_port)
  say "Starting virtwright-manager (standalone mode), which registers its webhooks"
  bin/virtwright-manager --kubeconfig "$(identity)" --mode standalone --register-webhooks \
    --webhook-bind-address "127.0.0.1:$port" --webhook-url "https://127.0.0.1:$port" \
    --metrics-bind-address 0 --health-probe-bind-address 0 --shutdown-delay 0s --log-format text >"$LOG" 2>&1 &
  MANAGER=$!
  local tries=150
  until kubectl get mutatingwebhookconfiguration admission.virtwright.dev -o jsonpath='{.webhooks[*].clientConfig.caBundle}' 2>/dev/null | grep -q .; do
    if ! kill -0 "$MANAGER" 2>/dev/null || [ $((tries -= 1)) -le 0 ]; then
      echo "virtwright-manager did not get ready; its log:" >&2
      cat "$LOG" >&2
      exit 1
    fi
    sleep 0.2
  done
}

# presets applies the examples and waits until every one of them is in use.
presets() {
  run kubectl apply -f examples/namespaces.yaml
  run kubectl apply -f examples/presets
  run kubectl wait --for=condition=Ready cvmpreset --all --timeout=30s
  run kubectl wait --for=condition=Ready vmpreset --all -n lab --timeout=30s
}
