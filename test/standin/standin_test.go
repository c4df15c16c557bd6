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
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/podspec"
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

// create creates the pod of a VMI and returns the states that it goes through from now on.
func (l *lab) create(name string, b Behaviour) *story {
	l.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.ns, Name: podspec.Name(name), Labels: map[string]string{v1alpha1.LabelPod: v1alpha1.LabelPodValue},
	}}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(200 + graceMargin))
	pod.Spec.Containers = []corev1.Container{{Name: v1alpha1.ContainerLauncher, Image: "none"}}
	if b != "" {
		pod.Annotations = map[string]string{annotation: string(b)}
	}
	watching, err := l.c.Watch(l.t.Context(), &corev1.PodList{}, client.InNamespace(l.ns), client.MatchingFields{"metadata.name": pod.Name})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(watching.Stop)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // until the namespace has its service account
		if err = l.c.Create(l.t.Context(), pod); !apierrors.IsForbidden(err) || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return &story{t: l.t, c: l.c, events: watching.ResultChan(), last: pod}
}

// story is what becomes of a pod.
type story struct {
	t      *testing.T
	c      client.Client
	events <-chan watch.Event
	states []string // each that differs from the one before
	last   *corev1.Pod
}

const gone = "gone"

// until reads on until a state; the deletion counts as state "gone".
func (s *story) until(state string) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case e := <-s.events:
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				s.t.Fatalf("watching ended: %v", e.Object)
			}
			s.last = pod
			now := describe(e.Type, pod)
			if len(s.states) == 0 || s.states[len(s.states)-1] != now {
				s.states = append(s.states, now)
			}
			if now == state {
				return
			}
		case <-deadline:
			s.t.Fatalf("never %s: %s", state, s.states)
		}
	}
}

func describe(event watch.EventType, pod *corev1.Pod) string {
	if event == watch.Deleted {
		return gone
	}
	text := string(pod.Status.Phase)
	if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending {
		text = "Bound"
	}
	if pod.DeletionTimestamp != nil {
		text += " terminating"
	}
	return text
}

func (s *story) delete() {
	s.t.Helper()
	if err := s.c.Delete(s.t.Context(), s.last, client.Preconditions{UID: &s.last.UID}); err != nil {
		s.t.Fatal(err)
	}
}

// was fails unless these were the states, joined with commas.
func (s *story) was(want string) {
	s.t.Helper()
	if diff := cmp.Diff(want, strings.Join(s.states, ", ")); diff != "" {
		s.t.Error(diff)
	}
}

func TestLife(t *testing.T) {
	l := newLab(t)
	l.runtime(Options{})
	pod := l.create("vm", "")
	pod.until("Running")
	if s := pod.last.Status; pod.last.Spec.NodeName != DefaultNode || s.PodIP != address || !*s.ContainerStatuses[0].Started {
		t.Errorf("runs, and is %+v", s)
	}
	pod.delete()
	pod.until(gone)
	pod.was("Pending, Bound, Running, Running terminating, Succeeded terminating, gone")
}

func TestBehaviours(t *testing.T) {
	l := newLab(t)
	l.runtime(Options{GraceSecond: time.Millisecond, Delays: Delays{Life: 20 * time.Millisecond}})
	for b, want := range map[Behaviour]string{
		CrashEarly: "Pending, Bound, Failed", Crash: "Pending, Bound, Running, Failed", Shutdown: "Pending, Bound, Running, Succeeded",
	} {
		pod := l.create(string(b), b)
		pod.until(want[strings.LastIndex(want, " ")+1:])
		pod.was(want)
		pod.delete()
		pod.until(gone)
	}
	pod := l.create("hang", Hang)
	pod.until("Running")
	pod.delete()
	pod.until(gone)
	pod.was("Pending, Bound, Running, Running terminating, Failed terminating, gone")
}

// A behavior applies to existing pods and to later ones.
func TestTell(t *testing.T) {
	l := newLab(t)
	r := l.runtime(Options{})
	r.Tell(l.ns, "vm", Unschedulable)
	pod := l.create("vm", "")
	for len(pod.last.Status.Conditions) == 0 {
		pod.states = nil
		pod.until("Pending")
	}
	if c := pod.last.Status.Conditions[0]; c.Reason != corev1.PodReasonUnschedulable {
		t.Errorf("is not unschedulable: %+v", c)
	}
	r.Tell(l.ns, "vm", Run)
	pod.until("Running")
	r.Tell(l.ns, "vm", Crash)
	pod.until("Failed")
	pod.delete()
	pod.until(gone)

	again := l.create("vm", CrashEarly)
	again.until("Running") // until told to crash, not early
	again.until("Failed")
	again.delete()
	again.until(gone)

	r.Tell(l.ns, "vm", "")
	last := l.create("vm", CrashEarly)
	last.until("Failed")
	last.was("Pending, Bound, Failed")
}

// A runtime that is not there writes nothing; one that comes back goes on.
func TestAway(t *testing.T) {
	l := newLab(t)
	r := l.runtime(Options{Delays: Delays{Scheduled: time.Hour}})
	pod := l.create("vm", "")
	pod.until("Bound")
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	pod.delete()
	other := l.create("other", "")
	time.Sleep(300 * time.Millisecond)
	var now corev1.Pod
	if err := l.c.Get(t.Context(), client.ObjectKeyFromObject(pod.last), &now); err != nil || now.Status.Phase != corev1.PodPending {
		t.Errorf("%s: %v", now.Status.Phase, err)
	}
	l.runtime(Options{})
	pod.until(gone)
	other.until("Running")
}

func TestCannotStart(t *testing.T) {
	l := newLab(t)
	powerless, err := plane.User("powerless")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), powerless, Options{Namespace: l.ns}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights starts: %v", err)
	}
}
