package standin

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/test/controlplane"
)

// plane is the control plane of all tests here; nil where they are short.
var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	code := func() int {
		flag.Parse()
		if testing.Short() {
			return m.Run()
		}
		var err error
		if plane, err = controlplane.Start(context.Background(), controlplane.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer plane.Stop()
		if err := plane.InstallCRDs(context.Background(), "../../charts/virtwright/files/crds"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

// lab is a namespace of its own.
type lab struct {
	t  *testing.T
	c  client.WithWatch
	ns string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if plane == nil {
		t.Skip("needs a control plane")
	}
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := kubevirtv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &lab{t, c, ns.Name}
}

// runtime starts one for the lab alone.
func (l *lab) runtime(o Options) *Runtime {
	l.t.Helper()
	o.Namespace = l.ns
	return ForTest(l.t, plane.Config(), o)
}

// create makes an instance and returns the phases that it goes through from now on.
func (l *lab) create(name string, b Behaviour, grace int64) *story {
	l.t.Helper()
	watching, err := l.c.Watch(l.t.Context(), &kubevirtv1.VirtualMachineInstanceList{}, client.InNamespace(l.ns), client.MatchingFields{"metadata.name": name})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(watching.Stop)
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}}
	vmi.Spec.TerminationGracePeriodSeconds = &grace
	if b != "" {
		vmi.Annotations = map[string]string{Annotation: string(b)}
	}
	if err := l.c.Create(l.t.Context(), vmi); err != nil {
		l.t.Fatal(err)
	}
	return &story{t: l.t, c: l.c, events: watching.ResultChan(), last: vmi}
}

// story is what is written to an instance.
type story struct {
	t      *testing.T
	c      client.Client
	events <-chan watch.Event
	phases []string // one entry for every write
	last   *kubevirtv1.VirtualMachineInstance
}

// until reads on until something holds; the deletion counts as phase "gone".
func (s *story) until(what string, holds func(*kubevirtv1.VirtualMachineInstance) bool) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case e := <-s.events:
			vmi, ok := e.Object.(*kubevirtv1.VirtualMachineInstance)
			if !ok {
				s.t.Fatalf("watching ended: %v", e.Object)
			}
			s.last = vmi
			s.phases = append(s.phases, describe(e.Type, vmi))
			if e.Type == watch.Deleted && what == gone || holds != nil && holds(vmi) {
				return
			}
		case <-deadline:
			s.t.Fatalf("never %s: %s", what, s.phases)
		}
	}
}

const gone = "gone"

func describe(event watch.EventType, vmi *kubevirtv1.VirtualMachineInstance) string {
	text := string(vmi.Status.Phase)
	if event == watch.Deleted {
		return gone
	}
	if text == "" {
		text = "new"
	}
	if vmi.DeletionTimestamp != nil {
		text += " terminating"
	}
	if len(vmi.Finalizers) > 0 {
		text += " held"
	}
	return text
}

func (s *story) phase(want kubevirtv1.VirtualMachineInstancePhase) {
	s.t.Helper()
	s.until("in phase "+string(want), func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi.Status.Phase == want })
}

func (s *story) delete() {
	s.t.Helper()
	if err := s.c.Delete(s.t.Context(), s.last, client.Preconditions{UID: &s.last.UID}); err != nil {
		s.t.Fatal(err)
	}
}

// was fails unless these were the writes, joined with commas.
func (s *story) was(want string) {
	s.t.Helper()
	if diff := cmp.Diff(want, strings.Join(s.phases, ", ")); diff != "" {
		s.t.Error(diff)
	}
}

func TestLife(t *testing.T) {
	l := newLab(t)
	l.runtime(Options{})
	vmi := l.create("vm", "", 30)
	vmi.phase(kubevirtv1.Running)
	if got := condition(vmi.last, kubevirtv1.VirtualMachineInstanceReady); got == nil || got.Status != corev1.ConditionTrue {
		t.Errorf("runs and is not ready: %v", got)
	}
	if got := vmi.last.Status; got.NodeName != DefaultNode || len(got.PhaseTransitionTimestamps) != 4 {
		t.Errorf("node %q, transitions %v", got.NodeName, got.PhaseTransitionTimestamps)
	}
	vmi.delete()
	vmi.until(gone, nil)
	vmi.was("new, Pending held, Scheduling held, Scheduled held, Running held, Running terminating held, Succeeded terminating held, gone")
}

func TestPaused(t *testing.T) {
	l := newLab(t)
	paused := kubevirtv1.StartStrategyPaused
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "vm"}}
	vmi.Spec.StartStrategy = &paused
	if err := l.c.Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	l.runtime(Options{}) // it was there before
	l.await("vm", "paused", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		c := condition(vmi, kubevirtv1.VirtualMachineInstancePaused)
		return vmi.Status.Phase == kubevirtv1.Running && c != nil && c.Status == corev1.ConditionTrue
	})
}

// await reads an instance until something holds.
func (l *lab) await(name, what string, holds func(*kubevirtv1.VirtualMachineInstance) bool) *kubevirtv1.VirtualMachineInstance {
	l.t.Helper()
	var vmi kubevirtv1.VirtualMachineInstance
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err := l.c.Get(l.t.Context(), types.NamespacedName{Namespace: l.ns, Name: name}, &vmi); err == nil && holds(&vmi) {
			return &vmi
		}
	}
	l.t.Fatalf("never %s: %+v", what, vmi.Status)
	return nil
}

func TestBehaviours(t *testing.T) {
	l := newLab(t)
	l.runtime(Options{GraceSecond: time.Millisecond, Delays: Delays{Life: 20 * time.Millisecond}})
	const start = "new, Pending held, Scheduling held, Scheduled held, "
	for b, want := range map[Behaviour]string{
		CrashEarly: start + "Failed held, Failed",
		Crash:      start + "Running held, Failed held, Failed",
		Shutdown:   start + "Running held, Succeeded held, Succeeded",
	} {
		vmi := l.create(string(b), b, 30)
		vmi.until("let go of", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
			return vmi.IsFinal() && len(vmi.Finalizers) == 0
		})
		vmi.was(want)
		vmi.delete()
		vmi.until(gone, nil)
	}

	vmi := l.create("hang", Hang, 200)
	vmi.phase(kubevirtv1.Running)
	vmi.delete()
	vmi.until(gone, nil)
	vmi.was(start + "Running held, Running terminating held, Running terminating held, Failed terminating held, gone")
}

// A guest that hangs ends when its grace is taken away from it.
func TestForce(t *testing.T) {
	l := newLab(t)
	l.runtime(Options{})
	vmi := l.create("vm", Hang, 3600)
	vmi.phase(kubevirtv1.Running)
	vmi.delete()
	vmi.until("terminating", func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		c := condition(vmi, kubevirtv1.VirtualMachineInstanceReady)
		return c != nil && c.Reason == kubevirtv1.PodTerminatingReason
	})
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"terminationGracePeriodSeconds": 0}}`))
	if err := l.c.Patch(t.Context(), vmi.last, patch); err != nil {
		t.Fatal(err)
	}
	vmi.until(gone, nil)
	if end := vmi.phases[len(vmi.phases)-2]; end != "Failed terminating held" {
		t.Errorf("ended %s", end)
	}
}

// What a runtime is told reaches instances that are there and that come.
func TestTell(t *testing.T) {
	l := newLab(t)
	r := l.runtime(Options{})
	r.Tell(l.ns, "vm", Unschedulable)
	vmi := l.create("vm", "", 30)
	vmi.phase(kubevirtv1.Scheduling)
	if c := condition(vmi.last, podScheduled); c == nil || c.Status != corev1.ConditionFalse || c.Reason != reasonUnschedulable || vmi.last.Status.NodeName != "" {
		t.Errorf("is not unschedulable: %+v", vmi.last.Status)
	}
	r.Tell(l.ns, "vm", Run)
	vmi.phase(kubevirtv1.Running)
	if c := condition(vmi.last, podScheduled); c != nil {
		t.Errorf("runs and is %v", c)
	}
	r.Tell(l.ns, "vm", Crash)
	vmi.phase(kubevirtv1.Failed)
	vmi.delete()
	vmi.until(gone, nil)

	again := l.create("vm", CrashEarly, 30)
	again.phase(kubevirtv1.Running) // until told to crash, not early
	again.phase(kubevirtv1.Failed)
	again.delete()
	again.until(gone, nil)

	r.Tell(l.ns, "vm", "")
	last := l.create("vm", CrashEarly, 30)
	last.phase(kubevirtv1.Failed)
	last.was("new, Pending held, Scheduling held, Scheduled held, Failed held")
}

// A runtime that is not there writes nothing; one that comes back goes on.
func TestAway(t *testing.T) {
	l := newLab(t)
	slow := Options{Delays: Delays{Scheduled: time.Hour}}
	r := l.runtime(slow)
	vmi := l.create("vm", "", 30)
	vmi.phase(kubevirtv1.Scheduled)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	r.Tell(l.ns, "vm", Crash) // nobody hears it
	vmi.delete()
	other := l.create("other", "", 30)
	time.Sleep(300 * time.Millisecond)
	now := l.await("vm", "there", func(*kubevirtv1.VirtualMachineInstance) bool { return true })
	if now.Status.Phase != kubevirtv1.Scheduled || now.DeletionTimestamp == nil {
		t.Errorf("%s, deleted %v", now.Status.Phase, now.DeletionTimestamp)
	}

	l.runtime(Options{})
	vmi.until(gone, nil)
	other.phase(kubevirtv1.Running)
}

// Two nodes race for every instance; one runs it.
func TestTwoNodes(t *testing.T) {
	l := newLab(t)
	nodes := map[string]int{"a": 0, "b": 0}
	for node := range nodes {
		l.runtime(Options{Node: node})
	}
	const count = 30
	stories := make([]*story, count)
	for i := range stories {
		stories[i] = l.create(fmt.Sprint("vm-", i), "", 30)
	}
	for _, s := range stories {
		s.phase(kubevirtv1.Running)
		s.was("new, Pending held, Scheduling held, Scheduled held, Running held")
		nodes[s.last.Status.NodeName]++
	}
	if nodes["a"]+nodes["b"] != count {
		t.Errorf("run: %v", nodes)
	}
	if err := l.c.DeleteAllOf(t.Context(), &kubevirtv1.VirtualMachineInstance{}, client.InNamespace(l.ns)); err != nil {
		t.Fatal(err)
	}
	for _, s := range stories {
		s.until(gone, nil)
	}
}

func TestCannotStart(t *testing.T) {
	l := newLab(t)
	nobody, err := plane.User("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), nobody, Options{Namespace: l.ns}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without rights starts: %v", err)
	}
}
