package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/test/controlplane"
)

// probePeriod is how often it is asked whether a replica is ready.
const probePeriod = 500 * time.Millisecond

// prober asks, as a kubelet does.
var prober = &http.Client{Timeout: time.Second}

// A Replica is a manager that runs as a pod of the Deployment would: when it ends by itself it is
// started again.
type Replica struct {
	// Log is what it has logged.
	Log *Log

	i      *Installation
	name   string
	args   []string
	health string
	// webhooks is where they are served, and memory the limit in bytes.
	webhooks string
	memory   int64
	slices   []string
	ended    chan struct{} // closed when it has ended for good

	mu      sync.Mutex
	cmd     *exec.Cmd
	starts  int
	leaving bool
	ready   bool // by the last probe
	routed  bool // whether it is an endpoint; guarded by the Installation
}

// A Log is text that grows.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// end is the last of it, from the beginning of a line.
func (l *Log) end() string {
	const enough = 8 << 10
	text := l.String()
	if len(text) <= enough {
		return text
	}
	_, text, _ = strings.Cut(text[len(text)-enough:], "\n")
	return text
}

// Start starts a replica as the Deployment describes it now. The test's failure shows its log.
func (i *Installation) Start(pod string) *Replica {
	i.Helper()
	var container corev1.Container
	out := i.Must("", "get", "deployment", Release, "-n", Namespace, "-o", `jsonpath={.spec.template.spec.containers[0]}`)
	if err := json.Unmarshal([]byte(out), &container); err != nil {
		i.Fatal(err)
	}
	r := &Replica{
		i: i, name: pod, memory: container.Resources.Limits.Memory().Value(),
		Log: &Log{}, health: fmt.Sprintf("127.0.0.1:%d", freePort(i)), ended: make(chan struct{}),
	}
	r.args = append(slices.Clip(container.Args), "--kubeconfig="+i.User(Release), "--namespace="+Namespace,
		"--metrics-bind-address=0", "--health-probe-bind-address="+r.health)
	ports := map[string]int32{} // of Services; alongside KubeVirt, there are no subresources
	for _, port := range container.Ports {
		flag, served := map[string]string{"webhooks": "--webhook-bind-address", "subresources": "--subresources-bind-address"}[port.Name]
		if !served {
			continue
		}
		ports[port.Name] = freePort(i)
		r.args = append(r.args, fmt.Sprintf("%s=:%d", flag, ports[port.Name]))
	}
	r.webhooks = fmt.Sprintf("127.0.0.1:%d", ports["webhooks"])
	if err := r.start(); err != nil {
		i.Fatal(err)
	}
	go r.keep()
	i.Cleanup(func() {
		r.signal(syscall.SIGKILL, true)
		<-r.ended
		if i.Failed() {
			i.Logf("end of the log of %s:\n%s", pod, r.Log.end())
		}
	})
	for service, port := range ports {
		r.endpoint(service, port)
	}
	i.mu.Lock()
	i.replicas = append(i.replicas, r)
	i.mu.Unlock()
	go r.probe(i.Context())
	return r
}

// errLeaving says that a replica is to go.
var errLeaving = errors.New("leaving")

// start starts the process.
func (r *Replica) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving {
		return errLeaving
	}
	r.starts++
	r.cmd = exec.Command(Program(r.i.T, Manager), r.args...)
	r.cmd.Stderr = r.Log
	r.cmd.Env = append(os.Environ(), "POD_NAME="+r.name, fmt.Sprintf("MEMORY_LIMIT=%d", r.memory)) // and no UID: there is no such pod
	return r.cmd.Start()
}

// keep starts the process again when it ends, unless the replica is stopping.
func (r *Replica) keep() {
	defer close(r.ended)
	for {
		_ = r.cmd.Wait() // how it ended is in its log
		time.Sleep(probePeriod)
		switch err := r.start(); {
		case errors.Is(err, errLeaving):
			return
		case err != nil:
			r.i.Errorf("cannot start %s again: %v", r.name, err)
			return
		}
	}
}

// signal sends a signal, if there is a process.
func (r *Replica) signal(s os.Signal, leave bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = r.leaving || leave
	_ = r.cmd.Process.Signal(s)
}

// Ready is nil while the replica says so.
func (r *Replica) Ready() error {
	response, err := prober.Get("http://" + r.health + "/readyz?verbose")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s (%w)", response.Status, body, errors.Join(err))
	}
	return nil
}

// Serves is nil while API servers know that the replica is ready.
func (r *Replica) Serves() error {
	for _, name := range r.slices {
		slice, err := r.i.Clients.DiscoveryV1().EndpointSlices(Namespace).Get(r.i.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !*slice.Endpoints[0].Conditions.Ready {
			return fmt.Errorf("%s is not ready", name)
		}
	}
	return nil
}

// Delete ends a replica as the deletion of its pod does: the replica gets SIGTERM, and at about the
// same time it is a terminating endpoint. It returns when the process has ended.
func (r *Replica) Delete() {
	r.signal(syscall.SIGTERM, true)
	r.i.route(r.i.Context())
	<-r.ended
	r.i.mu.Lock()
	r.i.replicas = slices.DeleteFunc(r.i.replicas, func(other *Replica) bool { return other == r })
	r.i.mu.Unlock()
	for _, name := range r.slices {
		if err := r.i.Clients.DiscoveryV1().EndpointSlices(Namespace).Delete(r.i.Context(), name, metav1.DeleteOptions{}); err != nil {
			r.i.Errorf("cannot delete an endpoint: %v", err)
		}
	}
}

// Kill ends a replica's process by SIGKILL. It is started again.
func (r *Replica) Kill() { r.signal(syscall.SIGKILL, false) }

// Starts is how often the process was started.
func (r *Replica) Starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

// PID is of the process that runs now.
func (r *Replica) PID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cmd.Process.Pid
}

// Webhooks is HOST:PORT of the replica's webhooks.
func (r *Replica) Webhooks() string { return r.webhooks }

// MemoryLimit is what the chart grants the replica, in bytes.
func (r *Replica) MemoryLimit() int64 { return r.memory }

// Name is the pod's.
func (r *Replica) Name() string { return r.name }

// Pause stops the process where it is, until Resume.
func (r *Replica) Pause() { r.signal(syscall.SIGSTOP, false) }

// Resume lets it go on.
func (r *Replica) Resume() { r.signal(syscall.SIGCONT, false) }

// probe asks whether the replica is ready until it has ended, also while it terminates.
func (r *Replica) probe(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.ended:
			return
		case <-time.After(probePeriod):
		}
		is := r.Ready() == nil
		r.mu.Lock()
		r.ready = is
		r.mu.Unlock()
		r.i.route(ctx)
	}
}

// state reports whether the replica is ready, and whether it terminates.
func (r *Replica) state() (ready, terminating bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready, r.leaving
}

// route makes endpoints of the replicas to which kube-proxy would connect: those that are ready or,
// while there are none, those that are ready and terminate. New ones come first, so that there is
// always one: kube-proxy changes all at once.
func (i *Installation) route(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var ready, terminating []*Replica
	for _, r := range i.replicas {
		switch is, leaving := r.state(); {
		case is && leaving:
			terminating = append(terminating, r)
		case is:
			ready = append(ready, r)
		}
	}
	if len(ready) == 0 {
		ready = terminating
	}
	for _, is := range []bool{true, false} {
		for _, r := range i.replicas {
			if is != r.routed && is == slices.Contains(ready, r) && r.publish(ctx, is) {
				r.routed = is
			}
		}
	}
}

// publish writes whether the replica is an endpoint, and reports whether it could.
func (r *Replica) publish(ctx context.Context, ready bool) bool {
	patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/endpoints/0/conditions/ready", "value": %t}]`, ready)
	for _, name := range r.slices {
		_, err := r.i.Clients.DiscoveryV1().EndpointSlices(Namespace).Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false // an API server that restarts; the next probe writes it
		}
	}
	return true
}

// endpoint makes the replica one of a Service, not ready.
func (r *Replica) endpoint(service string, port int32) {
	r.i.Helper()
	r.slices = append(r.slices, r.i.Endpoint(Namespace, Release+"-"+service, service, port, false))
}

// Endpoint makes a port of this machine the endpoint of a Service's port. It returns the name of
// the EndpointSlice.
func (i *Installation) Endpoint(namespace, service, name string, port int32, ready bool) string {
	i.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: service + "-", Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "a-test"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{i.Address}, Conditions: discoveryv1.EndpointConditions{Ready: new(ready)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(name), Port: new(port), Protocol: new(corev1.ProtocolTCP)}},
	}
	created, err := i.Clients.DiscoveryV1().EndpointSlices(namespace).Create(i.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		i.Fatal(err)
	}
	return created.Name
}

func freePort(i *Installation) int32 {
	i.Helper()
	port, err := controlplane.FreePort()
	if err != nil {
		i.Fatal(err)
	}
	return int32(port)
}
