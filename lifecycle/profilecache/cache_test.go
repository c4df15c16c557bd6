package profilecache

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
)

// frontend returns a profile as informers deliver it. A label with a space makes it invalid.
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

// change notes the creation, an update or the deletion of a profile.
func change(c *Cache, object any, gone bool) {
	kind, profile := v1alpha1.KindFrontendProfile, object
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		profile = missed.Obj
	}
	if _, ok := profile.(*v1alpha1.BackendProfile); ok {
		kind = v1alpha1.KindBackendProfile
	}
	if h := presetcache.Handler(kind, c.note); gone {
		h.OnDelete(object)
	} else {
		h.OnAdd(object, false)
	}
}

// acting returns the profiles that apply to a VMI without labels.
func acting(c *Cache) (names []string) {
	_, front := c.Snapshot().Frontend(&kubevirtv1.VirtualMachineInstance{}, nil)
	_, back := c.Snapshot().Backend(&kubevirtv1.VirtualMachineInstance{}, nil)
	return append(front, back...)
}

func TestNotReadyBeforeAllIsLoaded(t *testing.T) {
	c := &Cache{}
	change(c, frontend("a", 1, 0, ""), false)
	if c.Ready() == nil || c.Snapshot() != nil {
		t.Error("want not ready: there may be more profiles")
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
	c := &Cache{}
	c.RegisterMetrics(prometheus.NewRegistry())
	c.load(t.Context())
	for _, step := range []struct {
		reason string
		object any
		gone   bool
		want   []string
		same   bool // the set
	}{
		{reason: "a new profile", object: frontend("b", 1, 0, ""), want: []string{"b"}},
		{reason: "a stronger one", object: frontend("a", 1, 10, ""), want: []string{"a", "b"}},
		{reason: "a backend profile", object: backend("h", 1), want: []string{"a", "b", "h"}},
		{reason: "only metadata changes", object: frontend("a", 1, 10, ""), want: []string{"a", "b", "h"}, same: true},
		{reason: "a lower priority", object: frontend("a", 2, -1, ""), want: []string{"b", "a", "h"}},
		{reason: "an invalid profile does not affect the others", object: frontend("b", 2, 0, "a b"), want: []string{"a", "h"}},
		{reason: "it is valid again", object: frontend("b", 3, 0, ""), want: []string{"b", "a", "h"}},
		{reason: "a deletion", object: frontend("b", 3, 0, ""), gone: true, want: []string{"a", "h"}},
		{reason: "a deletion that was missed", object: toolscache.DeletedFinalStateUnknown{Key: "h", Obj: backend("h", 1)}, gone: true, want: []string{"a"}},
	} {
		before := c.Snapshot()
		change(c, step.object, step.gone)
		if diff := cmp.Diff(step.want, acting(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
		if (c.Snapshot() == before) != step.same {
			t.Errorf("%s: another set: %t", step.reason, !step.same)
		}
	}
	change(c, frontend("bad", 1, 0, "a b"), false)
	got := map[string]float64{}
	for kind := range c.Kinds() {
		got[kind+" ready"], got[kind+" invalid"] = c.count(kind, true), c.count(kind, false)
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
				change(c, frontend(fmt.Sprint(writer, "-", i%7), int64(i), 0, ""), i%3 == 0)
				change(c, backend(fmt.Sprint(writer, "-", i%5), int64(i)), i%4 == 0)
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
