package profilecache

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// frontend is a profile as informers deliver it; a label nobody can have makes
// it invalid.
func frontend(name string, generation int64, priority int32, label string) *v1alpha1.FrontendProfile {
	p := &v1alpha1.FrontendProfile{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: generation}}
	p.Spec.Priority = priority
	if label != "" {
		p.Spec.Match.Labels = &metav1.LabelSelector{MatchLabels: map[string]string{label: "x"}}
	}
	return p
}

func backend(name string, generation int64) *v1alpha1.BackendProfile {
	return &v1alpha1.BackendProfile{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: generation}}
}

// acting are the profiles that have a part in an instance without labels.
func acting(c *Cache) (names []string) {
	_, front := c.Snapshot().Frontend(&kubevirtv1.VirtualMachineInstance{}, nil)
	_, back := c.Snapshot().Backend(&kubevirtv1.VirtualMachineInstance{}, nil)
	return append(front, back...)
}

func TestNotReadyBeforeAllIsLoaded(t *testing.T) {
	c := &Cache{}
	c.note(frontend("a", 1, 0, ""), false)
	if c.Ready() == nil || c.Snapshot() != nil {
		t.Error("want not ready: nobody knows whether that is all")
	}
	c.load(t.Context())
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a"}, acting(c)); diff != "" {
		t.Error(diff)
	}
}

func TestChanges(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := &Cache{Metrics: NewMetrics(registry)}
	c.load(t.Context())
	for _, step := range []struct {
		reason string
		object any
		gone   bool
		want   []string
		same   bool // the set
	}{
		{reason: "one comes", object: frontend("b", 1, 0, ""), want: []string{"b"}},
		{reason: "a stronger one", object: frontend("a", 1, 10, ""), want: []string{"a", "b"}},
		{reason: "one of the host's side", object: backend("h", 1), want: []string{"a", "b", "h"}},
		{reason: "only metadata change", object: frontend("a", 1, 10, ""), want: []string{"a", "b", "h"}, same: true},
		{reason: "one is weaker now", object: frontend("a", 2, -1, ""), want: []string{"b", "a", "h"}},
		{reason: "one cannot be right, and hurts no other", object: frontend("b", 2, 0, "a b"), want: []string{"a", "h"}},
		{reason: "it is mended", object: frontend("b", 3, 0, ""), want: []string{"b", "a", "h"}},
		{reason: "one goes", object: frontend("b", 3, 0, ""), gone: true, want: []string{"a", "h"}},
		{reason: "it went unseen", object: toolscache.DeletedFinalStateUnknown{Key: "h", Obj: backend("h", 1)}, gone: true, want: []string{"a"}},
		{reason: "what is no profile", object: &v1alpha1.VirtualMachinePreset{}, want: []string{"a"}, same: true},
	} {
		before := c.Snapshot()
		c.note(step.object, step.gone)
		if diff := cmp.Diff(step.want, acting(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
		if (c.Snapshot() == before) != step.same {
			t.Errorf("%s: another set: %t", step.reason, !step.same)
		}
	}
	c.note(frontend("bad", 1, 0, "a b"), false)
	got := map[string]float64{}
	for _, kind := range []string{v1alpha1.KindFrontendProfile, v1alpha1.KindBackendProfile} {
		for _, state := range []string{stateReady, stateInvalid} {
			got[kind+" "+state] = testutil.ToFloat64(c.Metrics.profiles.WithLabelValues(kind, state))
		}
	}
	want := map[string]float64{"FrontendProfile ready": 1, "FrontendProfile invalid": 1, "BackendProfile ready": 0, "BackendProfile invalid": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metric (-want +got):\n%s", diff)
	}
}

func TestConcurrentUse(t *testing.T) {
	c := &Cache{}
	c.load(t.Context())
	var wg sync.WaitGroup
	for writer := range 2 {
		wg.Go(func() {
			for i := range 100 {
				c.note(frontend(fmt.Sprint(writer, "-", i%7), int64(i), 0, ""), i%3 == 0)
				c.note(backend(fmt.Sprint(writer, "-", i%5), int64(i)), i%4 == 0)
			}
		})
	}
	wg.Go(func() {
		for range 1000 {
			acting(c)
		}
	})
	wg.Wait()
}
