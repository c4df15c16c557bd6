package replicastatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func lease(name, version, snapshot string, renewed time.Time) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName(name), UID: types.UID(name), ResourceVersion: version, Annotations: map[string]string{v1alpha1.AnnotationServedPresets: snapshot}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// The leader waits for live replicas without the snapshot. Their clocks do not matter.
func TestWithout(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	fake := clocktesting.NewFakePassiveClock(now)
	r := &Replicas{Clock: fake}
	future := now.Add(time.Hour)
	steps := []struct {
		reason string
		after  time.Duration
		leases []coordinationv1.Lease
		want   []string
	}{
		{"no replica serves", 0, nil, nil},
		{"all have it", 0, []coordinationv1.Lease{lease("a", "1", "new", now), lease("b", "1", "new", future)}, nil},
		{"one has an older one", 0, []coordinationv1.Lease{lease("b", "1", "new", now), lease("c", "1", "old", future), lease("a", "2", "old", now)}, []string{"a", "c"}},
		{"it renews", 10 * time.Second, []coordinationv1.Lease{lease("c", "1", "old", future), lease("a", "3", "old", now)}, []string{"a", "c"}},
		{"one has not renewed for a long time", 5 * time.Second, []coordinationv1.Lease{lease("c", "1", "old", future), lease("a", "3", "old", now)}, []string{"a"}},
		{"it renews again", 0, []coordinationv1.Lease{lease("c", "2", "old", future), lease("a", "4", "new", now)}, []string{"c"}},
		{"it uses the new presets", 0, []coordinationv1.Lease{lease("c", "3", "new", future), lease("a", "4", "new", now)}, nil},
	}
	for _, s := range steps {
		now = now.Add(s.after)
		fake.SetTime(now)
		got, _ := r.without(s.leases, "new")
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.reason, diff)
		}
	}
	if got, err := (*Replicas)(nil).Without(t.Context(), "any"); err != nil || got != nil {
		t.Errorf("without an election there are no other replicas: %v %v", got, err)
	}
}

// The first look after a restart finds Leases of replicas that ended long ago: no preset waits
// leaseDuration for them. A replica that renews its Lease is waited for even if its clock is slow.
func TestFirstLook(t *testing.T) {
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	long := start.Add(-time.Hour)
	tests := map[string]struct {
		reason string
		later  coordinationv1.Lease
		after  time.Duration
		want   []string
	}{
		"ended long ago":      {"its renewTime and the missed renewal agree", lease("a", "1", "old", long), renewalTimeout, nil},
		"too early":           {"it may renew yet", lease("a", "1", "old", long), renewalTimeout - 1, []string{"a"}},
		"slow clock":          {"it has renewed its Lease", lease("a", "2", "old", long.Add(renewPeriod)), renewalTimeout, []string{"a"}},
		"slow clock, later":   {"a later look counts in full", lease("a", "2", "old", long), leaseDuration - 1, []string{"a"}},
		"ended a moment ago":  {"a late renewal looks the same", lease("a", "1", "old", start.Add(-leaseDuration)), leaseDuration - 1, []string{"a"}},
		"fast clock":          {"renewTime proves nothing", lease("a", "1", "old", start.Add(time.Hour)), leaseDuration - 1, []string{"a"}},
		"ended, as observed":  {"the observer's clock decides", lease("a", "1", "old", start.Add(time.Hour)), leaseDuration, nil},
		"created after start": {"its replica has just started", lease("b", "9", "old", long), leaseDuration - 1, []string{"b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakePassiveClock(start)
			r := &Replicas{Clock: fake}
			if got, _ := r.without([]coordinationv1.Lease{lease("a", "1", "old", tc.later.Spec.RenewTime.Time)}, "new"); !cmp.Equal(got, []string{"a"}) {
				t.Fatalf("the first observation proves nothing, and finds %v", got)
			}
			if tc.later.ResourceVersion != "1" {
				fake.SetTime(start.Add(time.Millisecond))
				r.observe([]coordinationv1.Lease{tc.later})
			}
			fake.SetTime(start.Add(tc.after))
			got, _ := r.without([]coordinationv1.Lease{tc.later}, "new")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// A draining replica learns which others are live, in which phase, and since when.
func TestOthers(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	fake := clocktesting.NewFakePassiveClock(now)
	r := &Replicas{Clock: fake}
	in := func(phase Phase, l coordinationv1.Lease) coordinationv1.Lease {
		if phase != "" {
			l.Annotations[v1alpha1.AnnotationReplicaPhase] = string(phase)
		}
		return l
	}
	me := in(Draining, lease("me", "1", "p", now))
	steps := []struct {
		reason string
		after  time.Duration
		leases []coordinationv1.Lease
		want   []Other
	}{
		{"alone", 0, []coordinationv1.Lease{me}, nil},
		{"a replica starts", time.Second, []coordinationv1.Lease{me, in(Starting, lease("a", "1", "p", now))}, []Other{{Starting, 0, true}}},
		{"it is ready", time.Second, []coordinationv1.Lease{me, in(Serving, lease("a", "2", "p", now))}, []Other{{Serving, 0, true}}},
		{"it serves", 5 * time.Second, []coordinationv1.Lease{in(Serving, lease("a", "3", "p", now))}, []Other{{Serving, 5 * time.Second, true}}},
		{"it drains, and reports that", time.Second, []coordinationv1.Lease{in(Draining, lease("a", "4", "p", now))}, []Other{{Draining, 0, true}}},
		{"it does not renew", leaseDuration, []coordinationv1.Lease{in(Draining, lease("a", "4", "p", now))}, nil},
		{"an earlier version reports no phase", 0, []coordinationv1.Lease{in("", lease("b", "1", "p", now))}, []Other{{Serving, 0, true}}},
	}
	for _, s := range steps {
		now = now.Add(s.after)
		fake.SetTime(now)
		if diff := cmp.Diff(s.want, r.others(s.leases, "me")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.reason, diff)
		}
	}
	r = &Replicas{Clock: fake}
	if diff := cmp.Diff([]Other{{Serving, 0, false}}, r.others([]coordinationv1.Lease{lease("a", "1", "p", now)}, "me")); diff != "" {
		t.Errorf("the first look cannot know whether a replica renews (-want +got):\n%s", diff)
	}
}

// Outside a cluster nothing but another replica deletes the Lease of one that was killed.
func TestAbandoned(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	fake := clocktesting.NewFakePassiveClock(now)
	r := &Replicas{Clock: fake}
	killed, live, pod := lease("killed", "1", "p", now), lease("live", "1", "p", now), lease("pod", "1", "p", now)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod"}}
	names := func() (out []string) {
		for _, l := range r.abandoned([]coordinationv1.Lease{killed, live, pod}) {
			out = append(out, *l.Spec.HolderIdentity)
		}
		return out
	}
	if got := names(); got != nil {
		t.Errorf("the first look must not delete %v", got)
	}
	fake.SetTime(now.Add(leaseDuration - 1))
	live.ResourceVersion = "2"
	if got := names(); got != nil {
		t.Errorf("too early for %v", got)
	}
	fake.SetTime(now.Add(leaseDuration))
	if diff := cmp.Diff([]string{"killed"}, names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
