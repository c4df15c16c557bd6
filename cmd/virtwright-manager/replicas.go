package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/virtwright/virtwright/lifecycle/replicastatus"
)

// several reports whether there may be more processes than this one: who leads
// then waits for all that serve.
func (p *process) several() bool {
	return p.lock != nil || !p.options.has(roleServing) || !p.options.has(roleControllers)
}

// replicas is of the replicas that serve; nil where there is this one only.
func (p *process) replicas() *replicastatus.Replicas {
	if !p.several() {
		return nil
	}
	return &replicastatus.Replicas{Reader: p.manager.GetCache(), Live: p.live, Namespace: p.options.namespace}
}

// answer adds what tells the leader which presets this replica serves with, and
// returns what must be around what answers.
func (p *process) answer(checks map[string]healthz.Checker) (func(http.Handler) http.Handler, error) {
	if !p.several() {
		return func(h http.Handler) http.Handler { return h }, nil
	}
	name, err := replicaName()
	if err != nil {
		return nil, err
	}
	replica := &replicastatus.Reporter{
		Client: p.live, Namespace: p.options.namespace, Name: name, PodUID: types.UID(os.Getenv(podUID)), Presets: p.presets.Generations,
	}
	checks["replica-status"] = func(*http.Request) error { return replica.Ready() }
	if err := p.manager.Add(replica); err != nil {
		return nil, fmt.Errorf("cannot add the telling of presets: %w", err)
	}
	return replica.Handler, nil
}

// replicaName is the pod's, or one of this process's own.
func replicaName() (string, error) {
	if name := os.Getenv(podName); name != "" {
		return name, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cannot name this process: %w", err)
	}
	return strings.ToLower(strings.ReplaceAll(host, "_", "-")) + "-" + uuid.NewString()[:8], nil
}
