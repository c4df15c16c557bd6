package presetrollout

import (
	"errors"
	"fmt"
	"strings"
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
		c.add(&out, &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, presets.Namespace{}, vm, false)
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
	rejected := apierrors.NewForbidden(schema.GroupResource{Resource: "virtualmachines"}, "web", errors.New(strings.Repeat("é", maxMessage)))
	if err := c.note("r", "s", key, rejected); err != nil || count().failed != 1 || len(count().failures[0].Message) > maxMessage {
		t.Errorf("a rejection: %v, %+v", err, count())
	}
	if err := c.note("r", "s", key, errors.New("connection refused")); err == nil {
		t.Error("an error that is not about the VM is forgotten")
	}
}

// TestFailuresOfAnotherLeader: a VM that the status lists as failed has failed until this leader
// has updated it, so that meanwhile no other VM is restarted.
func TestFailuresOfAnotherLeader(t *testing.T) {
	c, r := &Controller{Clock: clock.NewFakeClock(start)}, &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	r.Status.Failures = []v1alpha1.RolloutFailure{{Namespace: "shop", Name: "web", Message: "no"}}
	vm := &partialobject.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	got := vms{stamp: "s"}
	c.add(&got, r, presets.Namespace{}, vm, false)
	if got.failed != 1 || got.pending() != 0 || len(got.due) != 1 || got.failures[0].Message != "no" {
		t.Errorf("%+v", got)
	}
	vm.Annotations = map[string]string{v1alpha1.AnnotationRolledOut: "rollout/r/s"}
	got = vms{stamp: presets.StampOn(&vm.ObjectMeta, "r")}
	c.add(&got, r, presets.Namespace{}, vm, false)
	if got.failed != 0 || got.updated != 1 {
		t.Errorf("after the update: %+v", got)
	}
}

// TestUnjudgedVMs: a VM is not updated until it is known whether it waits for a restart already.
func TestUnjudgedVMs(t *testing.T) {
	for name, test := range map[string]struct {
		restart v1alpha1.RolloutRestart
		judged  int64
		due     int
	}{
		"its last change is not judged": {v1alpha1.RestartRolling, 1, 0},
		"its last change is judged":     {v1alpha1.RestartRolling, 2, 1},
		"no VM is restarted":            {"", 1, 1},
	} {
		c, r := &Controller{Clock: clock.NewFakeClock(start)}, &v1alpha1.PresetRollout{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
		r.Spec.Restart = test.restart
		vm := guestState{}.vm("web", "")
		vm.Status.Created, vm.Status.DesiredGeneration = true, test.judged
		got := vms{stamp: "s"}
		c.add(&got, r, presets.Namespace{}, vm, false)
		if len(got.due) != test.due || got.pending() != 1 || !shouldRun(vm) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNewVMs counts a VM that has the change as updated, although it has no stamp.
func TestNewVMs(t *testing.T) {
	raw := &v1alpha1.ClusterVirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "size", Generation: 4}}
	compiled, problems := presets.Compile(raw)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	snapshot := presets.NewSnapshot([]*presets.Compiled{compiled}, nil)
	change := v1alpha1.RolloutPreset{Name: "cluster/size", Stable: 3, Target: 4}
	of := func(hash string, generation int) string {
		return fmt.Sprintf(`{"v":1,"by":["cluster/size@%d:default"],"hashes":[%q]}`, generation, hash)
	}
	for name, c := range map[string]struct {
		record string
		edit   func(*v1alpha1.PresetRolloutStatus, *partialobject.VirtualMachine)
		is     bool
	}{
		"has the change":                      {of(compiled.Hash(), 4), nil, true},
		"has the stable revision":             {of(compiled.Hash(), 3), nil, false},
		"has the values of another preset":    {of("00000000", 4), nil, false},
		"has no record":                       {"", nil, false},
		"has a preset that was created again": {of(compiled.Hash(), 4), func(s *v1alpha1.PresetRolloutStatus, _ *partialobject.VirtualMachine) { s.Presets[0].Stable = 0 }, false},
		"lacks another change": {of(compiled.Hash(), 4), func(s *v1alpha1.PresetRolloutStatus, _ *partialobject.VirtualMachine) {
			s.Presets = append(s.Presets, v1alpha1.RolloutPreset{Name: "cluster/other", Stable: 1, Target: 2})
		}, false},
		"has a change that is aborted": {of(compiled.Hash(), 4), func(s *v1alpha1.PresetRolloutStatus, _ *partialobject.VirtualMachine) { s.Aborted = true }, false},
		"was changed by its author":    {of(compiled.Hash(), 4), func(_ *v1alpha1.PresetRolloutStatus, vm *partialobject.VirtualMachine) { vm.Generation = 2 }, false},
		"needs a restart": {of(compiled.Hash(), 4), func(_ *v1alpha1.PresetRolloutStatus, vm *partialobject.VirtualMachine) {
			vm.Status.Conditions = guestState{needs: true}.vm("", "").Status.Conditions
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			vm, status := &partialobject.VirtualMachine{}, &v1alpha1.PresetRolloutStatus{Presets: []v1alpha1.RolloutPreset{change}}
			vm.Generation, vm.Annotations = 1, map[string]string{v1alpha1.AnnotationProvenance: c.record}
			if _, err := partialobject.Trim(vm); err != nil {
				t.Fatal(err)
			}
			if c.edit != nil {
				c.edit(status, vm)
			}
			if got := isNew(snapshot, status, vm); got != c.is {
				t.Errorf("%v, want %v: %+v", got, c.is, vm.Presets)
			}
		})
	}
}

// TestAbortReaches: an abort takes back VMs that have the change. The record of a VM does not say
// that of a preset that was created again, because it may name the deleted one. Of a VM without a
// record, the stamp says it.
func TestAbortReaches(t *testing.T) {
	for name, test := range map[string]struct {
		stable, generation int64
		stamp              string
		want               bool
	}{
		"the record has the change":                    {3, 4, "", true},
		"the record has the stable revision":           {3, 3, "", false},
		"the stamp of the change":                      {3, 3, "two", true},
		"created again, the record of the deleted one": {0, 1, "", false},
		"created again, the stamp of an older change":  {0, 1, "one", false},
		"created again, the stamp of this change":      {0, 1, "two", true},
		"no record, the stamp of a completed change":   {3, 0, "one", false},
		"no record, the stamp of an unfinished change": {3, 0, targetOf("r", []v1alpha1.RolloutPreset{{Name: "cluster/size", UID: "p", Stable: 3, Target: 4}}), true},
		"created, and changed before it was stable":    {0, 1, targetOf("r", []v1alpha1.RolloutPreset{{Name: "cluster/size", UID: "p", Target: 1}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &v1alpha1.PresetRollout{
				ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r"},
				Spec:       v1alpha1.PresetRolloutSpec{Presets: []string{"cluster/size"}, Waves: []v1alpha1.RolloutWave{{Name: "rest"}}},
				Status: v1alpha1.PresetRolloutStatus{
					Target: "two", Aborted: true, Presets: []v1alpha1.RolloutPreset{{Name: "cluster/size", UID: "p", Stable: test.stable, Target: 4}},
				},
			}
			rollout, err := presets.NewRollout(r)
			if err != nil {
				t.Fatal(err)
			}
			vm := &partialobject.VirtualMachine{}
			vm.Annotations = map[string]string{}
			if test.generation > 0 {
				vm.Annotations[v1alpha1.AnnotationProvenance] = fmt.Sprintf(`{"v":1,"by":["cluster/size@%d:default"],"hashes":["0"]}`, test.generation)
			}
			if test.stamp != "" {
				vm.Annotations[v1alpha1.AnnotationRolledOut] = "only:cluster/size rollout/r/" + test.stamp
			}
			if _, err := partialobject.Trim(vm); err != nil {
				t.Fatal(err)
			}
			rollout.Stable = map[string]*presets.Compiled{"cluster/size": nil}
			if got := isReached(rollout, r, presets.Namespace{}, vm); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}
