package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/virtwright/virtwright/lifecycle/replicastatus"
)

const (
	drainPeriod = time.Second
	readTimeout = 4 * time.Second
)

// several reports whether there may be other processes, for which the leader waits.
func (p *process) several() bool {
	return p.lock != nil || !p.options.has(roleServing) || !p.options.has(roleControllers)
}

func (p *process) observeReplicas() error {
	if !p.several() {
		return nil
	}
	p.replicas = &replicastatus.Replicas{Reader: p.manager.GetCache(), Live: p.live, Namespace: p.options.namespace, Clock: clock.RealClock{}}
	return p.add("the observation of replicas", onEveryReplica(p.replicas.Start))
}

// report adds the report of this replica's state, and returns the wrapper of all handlers.
func (p *process) report(checks map[string]healthz.Checker) (func(http.Handler) http.Handler, error) {
	if !p.several() {
		return func(h http.Handler) http.Handler { return h }, nil
	}
	name, err := replicaName()
	if err != nil {
		return nil, err
	}
	reporter := &replicastatus.Reporter{
		Client: p.live, Namespace: p.options.namespace, Name: name, PodUID: types.UID(os.Getenv(podUID)),
		Presets: p.presets.Generations, Draining: p.stop.isDraining, Check: func() error { return firstError(checks) },
	}
	checks["replica-status"] = func(*http.Request) error { return reporter.Ready() }
	if err := p.add("the report of the replica's state", onEveryReplica(reporter.Start)); err != nil {
		return nil, err
	}
	if os.Getenv(podName) != "" && p.options.deployment != "" {
		p.stop.drain.Store(new(func(ctx context.Context) { p.drain(ctx, name) }))
	}
	return reporter.Handler, nil
}

func (p *process) drain(ctx context.Context, name string) {
	log := p.manager.GetLogger().WithName("shutdown")
	began, logged, was := time.Now(), false, replicastatus.DeploymentUnknown
	for ; ctx.Err() == nil; sleep(ctx, drainPeriod) {
		d := p.observeDrain(ctx, name)
		if is := d.Deployment; is != was { // an API server that starts may reject a read
			d.Deployment, was = replicastatus.DeploymentUnknown, is
		}
		d.Elapsed, d.Delay, d.Timeout = time.Since(began), p.options.shutdownDelay, p.options.shutdownTimeout
		if reason := d.Decide(); reason != "" {
			log.Info("Stopping", "reason", reason)
			return
		}
		if d.Elapsed >= d.Delay && !logged {
			log.Info("Serving until another replica is ready", "timeout", d.Timeout.String())
			logged = true
		}
	}
}

// Leases that cannot be read count as absent.
func (p *process) observeDrain(ctx context.Context, name string) replicastatus.Drain {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	others, err := p.replicas.Others(ctx, name)
	if err != nil {
		p.manager.GetLogger().Error(err, "Cannot list other replicas; trying again")
	}
	return replicastatus.Drain{Deployment: p.wanted(ctx), Others: others}
}

// wanted returns whether this replica's Deployment will start another one. A replica that may not
// read it is being uninstalled, because its permissions are deleted after the Deployment.
func (p *process) wanted(ctx context.Context) replicastatus.Deployment {
	deployment := &appsv1.Deployment{}
	err := p.live.Get(ctx, client.ObjectKey{Namespace: p.options.namespace, Name: p.options.deployment}, deployment)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return replicastatus.DeploymentUnwanted
	case err != nil:
		return replicastatus.DeploymentUnknown
	case deployment.DeletionTimestamp != nil, deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0:
		return replicastatus.DeploymentUnwanted
	}
	return replicastatus.DeploymentWanted
}

func replicaName() (string, error) {
	if name := os.Getenv(podName); name != "" {
		return name, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cannot read the host name: %w", err)
	}
	return strings.ToLower(strings.ReplaceAll(host, "_", "-")) + "-" + uuid.NewString()[:8], nil
}
