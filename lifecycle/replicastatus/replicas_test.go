package replicastatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

func lease(name, version, snapshot string, renewed time.Time) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName(name), UID: types.UID(name), ResourceVersion: version, Annotations: map[string]string{v1alpha1.AnnotationServing: snapshot}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// Replicas that do not have the snapshot are waited for while they live, whatever
// their clocks say.
func TestRoll(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	r := &Replicas{Now: func() time.Time { return now }}
	future := now.Add(time.Hour)
	steps := []struct {
		reason string
		after  time.Duration
		leases []coordinationv1.Lease
		want   []string
	}{
		{"nobody serves", 0, nil, nil},
		{"all have it", 0, []coordinationv1.Lease{lease("a", "1", "new", now), lease("b", "1", "new", future)}, nil},
		{"one has an older one", 0, []coordinationv1.Lease{lease("b", "1", "new", now), lease("c", "1", "old", future), lease("a", "2", "old", now)}, []string{"a", "c"}},
		{"it renews", 10 * time.Second, []coordinationv1.Lease{lease("c", "1", "old", future), lease("a", "3", "old", now)}, []string{"a", "c"}},
		{"one has renewed nothing for long", 5 * time.Second, []coordinationv1.Lease{lease("c", "1", "old", future), lease("a", "3", "old", now)}, []string{"a"}},
		{"it is there again", 0, []coordinationv1.Lease{lease("c", "2", "old", future), lease("a", "4", "new", now)}, []string{"c"}},
		{"it has taken up what is new", 0, []coordinationv1.Lease{lease("c", "3", "new", future), lease("a", "4", "new", now)}, nil},
	}
	for _, s := range steps {
		now = now.Add(s.after)
		got, _ := r.without(s.leases, "new")
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.reason, diff)
		}
	}
	if got, err := (*Replicas)(nil).Without(t.Context(), "any"); err != nil || got != nil {
		t.Errorf("without an election there is nobody else: %v %v", got, err)
	}
}
