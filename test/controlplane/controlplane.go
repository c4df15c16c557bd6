// Package controlplane starts a real Kubernetes control plane for tests, benchmarks and
// demonstrations: etcd, kube-apiserver and kube-controller-manager as processes of this machine,
// with RBAC, API aggregation and certificates of their own, and without nodes.
//
// The programs are built from Go modules once and cached (see [Assets]); a control plane is then
// ready within seconds. Several may run side by side. A control plane ends with the process that
// started it, even when that process is killed.
package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// startTimeout bounds one attempt to start, on top of the caller's context.
const startTimeout = 2 * time.Minute

// attempts is how often Start tries when another process took a port that was free a moment before.
const attempts = 4

// Options says what control plane to start. The zero value is a good choice.
type Options struct {
	// Dir holds data, logs, certificates and kubeconfigs. It is created when absent and kept by
	// Stop. Empty means a temporary folder that Stop removes.
	Dir string
	// Audit writes an audit log: writes at level RequestResponse, reads at level Metadata. See
	// AuditEvents.
	Audit bool
	// APIServerArgs are appended to the flags of kube-apiserver.
	APIServerArgs []string
	// Progress receives the lines that say how the one-time build proceeds; nil means standard
	// error.
	Progress io.Writer
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	options Options
	assets  string
	dir     *dataDir
	pki     *pki
	port    int
	admin   *rest.Config

	etcd, apiServer, controllers *process
	mu                           sync.Mutex
	// others are those of RunProgram, guarded by mu.
	others []*process
	stop   sync.Once
}

// Start returns a control plane that is ready: /readyz answers ok, the default namespace and its
// service account exist and the controllers run. The context bounds the starting, not the life of
// the control plane: call Stop for that. When a program fails to start, the error carries the end
// of its log.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if testing.Testing() && flag.Parsed() && testing.Short() {
		return nil, errors.New("cannot start a control plane: tests with -short start none")
	}
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	assets, err := Assets(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		cp, err := start(ctx, assets, options)
		if err == nil {
			return cp, nil
		}
		var failed *exitError
		if attempt == attempts || !errors.As(err, &failed) || !failed.portTaken() {
			return nil, fmt.Errorf("cannot start a control plane: %w", err)
		}
	}
}

// ForTest starts a control plane that ends with the test. With -short, it skips the test.
func ForTest(t testing.TB, options Options) *ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Stop)
	return cp
}

// start makes one attempt and leaves nothing behind when it fails.
func start(ctx context.Context, assets string, options Options) (_ *ControlPlane, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := newDataDir(options.Dir)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{options: options, assets: assets, dir: dir}
	defer func() {
		if err != nil {
			cp.Stop()
		}
	}()
	if cp.pki, err = newPKI(dir.path); err != nil {
		return nil, err
	}
	if cp.port, err = FreePort(); err != nil {
		return nil, err
	}
	if cp.admin, err = cp.User("admin", "system:masters"); err != nil {
		return nil, err
	}
	if err = writeKubeconfig(cp.Kubeconfig(), "admin", cp.admin); err != nil {
		return nil, err
	}
	if err = cp.startEtcd(); err != nil {
		return nil, err
	}
	if err = cp.startAPIServer(ctx); err != nil {
		return nil, err
	}
	if err = cp.startControllers(ctx); err != nil {
		return nil, err
	}
	return cp, nil
}

// Stop ends every process of the control plane at once and removes its data, unless Options.Dir was
// given. It may be called more than once.
func (cp *ControlPlane) Stop() {
	cp.stop.Do(func() {
		for _, p := range slices.Backward(cp.processes()) {
			p.kill()
		}
		cp.dir.close()
	})
}

// RestartAPIServer stops kube-apiserver as a rolling update would and starts it again with the same
// address and data. It returns when it is ready.
func (cp *ControlPlane) RestartAPIServer(ctx context.Context) error {
	return cp.InterruptAPIServer(ctx, 0)
}

// InterruptAPIServer is RestartAPIServer with a time between the end and the new start.
func (cp *ControlPlane) InterruptAPIServer(ctx context.Context, away time.Duration) error {
	cp.apiServer.terminate(10 * time.Second)
	time.Sleep(away)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := cp.startAPIServer(ctx); err != nil {
		return fmt.Errorf("cannot restart kube-apiserver: %w", err)
	}
	return nil
}

// Dir is the folder with data, logs, certificates and kubeconfigs.
func (cp *ControlPlane) Dir() string { return cp.dir.path }

// PIDs are the process ids of the programs that run, by program name.
func (cp *ControlPlane) PIDs() map[string]int {
	pids := map[string]int{}
	for _, p := range cp.processes() {
		pids[p.name] = p.cmd.Process.Pid
	}
	return pids
}

// processes are the programs that were started, in that order.
func (cp *ControlPlane) processes() []*process {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	all := append([]*process{cp.etcd, cp.apiServer, cp.controllers}, cp.others...)
	return slices.DeleteFunc(all, func(p *process) bool { return p == nil })
}
