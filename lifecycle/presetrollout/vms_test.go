package presetrollout

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clock "k8s.io/utils/clock/testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
)

// TestErrorsOfTheServer counts a VM as failed when the server has failed for a minute, and at once
// when it rejects the update.
func TestErrorsOfTheServer(t *testing.T) {
	now := clock.NewFakeClock(start)
	c := &Controller{Clock: now}
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	count := func() vms {
		out := vms{stamp: "s"}
		vm := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		c.add(&out, &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, presets.Namespace{}, vm)
		return out
	}
	broken := apierrors.NewInternalError(errors.New("the webhook does not answer"))
	for elapsed := time.Duration(0); elapsed < 2*time.Minute; elapsed += time.Second {
		got := count()
		if len(got.due) == 1 {
			if err := c.note("r", "s", key, broken); err != nil {
				t.Fatal(err)
			}
		}
		if late := elapsed > time.Minute+10*time.Second; got.pending() != 1 && !late || got.failed != 1 && late {
			t.Fatalf("after %s: %+v", elapsed, got)
		}
		now.Step(time.Second)
	}
	if err := c.note("r", "s", key, nil); err != nil || count().pending() != 1 {
		t.Errorf("after a success: %v, %+v", err, count())
	}
	rejected := apierrors.NewForbidden(schema.GroupResource{Resource: "virtualmachines"}, "web", errors.New("set a name"))
	if err := c.note("r", "s", key, rejected); err != nil || count().failed != 1 {
		t.Errorf("a rejection: %v, %+v", err, count())
	}
	if err := c.note("r", "s", key, errors.New("connection refused")); err == nil {
		t.Error("an error that is not about the VM is forgotten")
	}
}
