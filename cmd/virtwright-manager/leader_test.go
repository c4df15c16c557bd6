package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/test/controlplane"
)

// leaders are replicas with the role serving or controllers, each with its own user.
type leaders struct {
	*cluster

	t *testing.T
	// names of the VMs that users start and stop.
	names []string
}

// One replica serves and two run the controllers in turn. The second continues the work of the
// first, and a replica that was paused writes nothing until it is elected again.
func TestLeaders(t *testing.T) {
	cp := controlplane.ForTest(t, controlplane.Options{Audit: true})
	l := &leaders{cluster: &cluster{cp, clientOf(t, cp, "admin")}, t: t}
	if err := l.InstallCRDs(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	l.create(t, elsewhere)
	serving := l.start("serving", "--roles=serving", "--trusted-user="+userOf("first"), "--trusted-user="+userOf("second"))
	serving.serves(t)
	first := l.start("first", "--roles=controllers", "--leader-elect")
	l.toggling(func() {
		l.leads("first", time.Time{})
		second := l.start("second", "--roles=controllers", "--leader-elect")
		l.signal(first, syscall.SIGTERM)
		if err := <-first.ended; err != nil {
			t.Errorf("the first leader exited with %v after SIGTERM", err)
		}
		l.leads("second", time.Time{})

		first = l.start("first", "--roles=controllers", "--leader-elect")
		eventually(t, "the first is ready again", func() error { return first.ready(t) })
		l.signal(second, syscall.SIGSTOP)
		stopped := time.Now()
		l.leads("first", stopped)
		l.signal(second, syscall.SIGCONT)
		continued := time.Now()
		time.Sleep(5 * time.Second) // time to process watch events since then
		l.wroteNothing("second", stopped, continued)
		l.signal(first, syscall.SIGTERM)
		l.leads("second", time.Now())
	})
	if writes := l.writes("serving", time.Time{}); len(writes) > 0 {
		t.Errorf("a replica that serves wrote %v", writes)
	}
	for _, name := range l.names {
		eventually(t, name+" is as its spec says", func() error { return l.settled(name) })
	}
}

func userOf(name string) string { return "system:serviceaccount:default:" + name }

// start starts a replica with its own user.
func (l *leaders) start(name string, args ...string) *replica {
	l.t.Helper()
	kubeconfig, err := l.UserKubeconfig(userOf(name), "system:masters")
	if err != nil {
		l.t.Fatal(err)
	}
	return startReplica(l.t, l.cluster, append(args, "--kubeconfig="+kubeconfig)...)
}

func (l *leaders) signal(r *replica, s os.Signal) {
	l.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		l.t.Fatal(err)
	}
}

// toggling starts and stops VMs during a function.
func (l *leaders) toggling(during func()) {
	l.t.Helper()
	ctx, stop := context.WithCancel(l.t.Context())
	var users sync.WaitGroup
	for i := range 12 {
		vm := l.create(l.t, fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: toggled-%d, namespace: elsewhere}
spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}}
`, i))
		l.names = append(l.names, vm.GetName())
		users.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				strategy := []string{"Always", "Halted"}[turn%2]
				if err := tryPatch(l.t.Context(), l.Client, vm, `{"spec": {"runStrategy": "`+strategy+`"}}`); err != nil {
					l.t.Errorf("cannot set %s: %v", strategy, err)
				}
				time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
			}
		})
	}
	during()
	stop()
	users.Wait()
}

// writes returns a replica's writes to VMs, VMIs and events since a time.
func (l *leaders) writes(name string, since time.Time) []string {
	l.t.Helper()
	events, err := l.AuditEvents(0)
	if err != nil {
		l.t.Fatal(err)
	}
	var out []string
	for i := range events {
		e := &events[i]
		if e.User.Username != userOf(name) || e.ObjectRef == nil || !slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) ||
			!slices.Contains([]string{"kubevirt.io", "events.k8s.io"}, e.ObjectRef.APIGroup) || !e.RequestReceivedTimestamp.After(since) {
			continue
		}
		if e.Stage == auditv1.StageResponseComplete {
			out = append(out, fmt.Sprint(e.RequestReceivedTimestamp.Format(time.RFC3339Nano), " ", e.Verb, " ", e.ObjectRef.Resource, "/", e.ObjectRef.Name))
		}
	}
	return out
}

// leads waits until a replica writes.
func (l *leaders) leads(name string, since time.Time) {
	l.t.Helper()
	before := len(l.writes(name, since))
	eventually(l.t, name+" leads", func() error {
		if len(l.writes(name, since)) == before {
			return errors.New("no writes")
		}
		return nil
	})
}

// wroteNothing fails if a paused replica has written. Requests may have been sent just before. When
// it continues, a few that were on their way may be sent at once, before their deadline ends them.
func (l *leaders) wroteNothing(name string, paused, continued time.Time) {
	l.t.Helper()
	const onTheirWay = 3
	late := l.writes(name, paused.Add(time.Second))
	if afterwards := l.writes(name, continued.Add(time.Second)); len(afterwards) > 0 || len(late) > onTheirWay {
		l.t.Errorf("%s lost the lease and wrote %d times: %v", name, len(late), late)
	}
}

// settled returns nil if the state of a VM matches its spec.
func (l *leaders) settled(name string) error {
	vm := object(l.t, "{apiVersion: kubevirt.io/v1, kind: VirtualMachine}")
	key := client.ObjectKey{Namespace: "elsewhere", Name: name}
	if err := l.Get(l.t.Context(), key, vm); err != nil {
		return err
	}
	instance := object(l.t, "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance}")
	missing := client.IgnoreNotFound(l.Get(l.t.Context(), key, instance)) == nil && instance.GetUID() == ""
	strategy, _, _ := unstructured.NestedString(vm.Object, "spec", "runStrategy")
	status, _, _ := unstructured.NestedString(vm.Object, "status", "printableStatus")
	want := map[string]string{"Always": "Starting", "Halted": "Stopped"}[strategy]
	if status != want || missing != (strategy == "Halted") {
		return fmt.Errorf("strategy %s, status %s, no instance: %t", strategy, status, missing)
	}
	return nil
}
