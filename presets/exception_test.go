package presets_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

var exceptionDay = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// exceptionFor excepts VMs from presets that are labeled image=old in namespace lab.
func exceptionFor(t *testing.T, until time.Time, refs ...string) *presets.Exception {
	t.Helper()
	object := &v1alpha1.PresetException{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "lab"},
		Spec: v1alpha1.PresetExceptionSpec{
			Presets: refs, Reason: "no loader", VMSelector: metav1.LabelSelector{MatchLabels: map[string]string{"image": "old"}},
		},
	}
	if !until.IsZero() {
		object.Spec.Until = &metav1.Time{Time: until}
	}
	out, problems := presets.CompileException(object)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return out
}

// exceptional resolves objects under presets and exceptions.
type exceptional struct {
	*testing.T
	snapshot *presets.Snapshot
	now      time.Time
}

// except adds an exception, which ends by the clock of x.
func (x *exceptional) except(e *presets.Exception) {
	x.snapshot = x.snapshot.WithExceptions([]*presets.Exception{e}, func() time.Time { return x.now })
}

func (x *exceptional) resolve(object, old string) (stored string, warnings []string, err error) {
	x.Helper()
	req := presets.Request{Kind: presets.VirtualMachine, Object: []byte(object), Namespace: presets.Namespace{Name: "lab"}}
	if old != "" {
		req.OldObject = []byte(old)
	}
	out, err := (&presets.Engine{}).Resolve(x.Context(), x.snapshot, req)
	if err != nil {
		return "", nil, err
	}
	raw, err := json.Marshal(out.Patch)
	if err != nil {
		x.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		x.Fatal(err)
	}
	result, err := patch.Apply([]byte(object))
	if err != nil {
		x.Fatal(err)
	}
	return string(result), out.Warnings, nil
}

// starts verifies the instance of a stored VM.
func (x *exceptional) starts(stored string) error {
	x.Helper()
	var vm map[string]any
	if err := json.Unmarshal([]byte(stored), &vm); err != nil {
		x.Fatal(err)
	}
	vmi := map[string]any{"metadata": vm["metadata"], "spec": in(vm, "spec.template")["spec"]}
	raw, err := json.Marshal(vmi)
	if err != nil {
		x.Fatal(err)
	}
	return (&presets.Engine{}).VerifyApplied(x.Context(), x.snapshot, presets.Request{
		Kind: presets.VirtualMachineInstance, Object: raw, Namespace: presets.Namespace{Name: "lab"},
	})
}

const (
	secureBoot = `{overrides: {spec: {template: {spec: {domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}}}}}, forbid: [{path: spec.template.spec.domain.devices.rng}]}`
	oldVM      = `{"metadata":{"name":"vm","namespace":"lab","labels":{"image":"old"}},"spec":{"template":{"spec":{"domain":{"devices":{"rng":{}}}}}}}`
)

func TestException(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t, presettest.Cluster("secure-boot", secureBoot)), nil)
	x := &exceptional{t, base, exceptionDay.Add(-30 * 24 * time.Hour)}
	x.except(exceptionFor(t, exceptionDay, "cluster/secure-boot"))

	// The override and the rule of the preset do not act, and the record says why.
	stored, warnings, err := x.resolve(oldVM, "")
	if err != nil || len(warnings) > 0 || strings.Contains(stored, "secureBoot") || !strings.Contains(stored, `\"exceptions\":{\"old\":[\"cluster/secure-boot\"]}`) {
		t.Fatalf("%v %q %s", err, warnings, stored)
	}
	// Other VMs are as before.
	var rejection *presets.Rejection
	if _, _, err := x.resolve(strings.Replace(oldVM, "old", "new", 1), ""); !errors.As(err, &rejection) {
		t.Errorf("another VM: %v", err)
	}
	// A week before the end there is a warning.
	x.now = exceptionDay.Add(-24 * time.Hour)
	if _, warnings, _ = x.resolve(oldVM, ""); len(warnings) != 1 || !strings.Contains(warnings[0], "ends at 2030-01-01T00:00:00Z") {
		t.Errorf("got %q", warnings)
	}
	// After the end, updates that do not concern presets change nothing.
	x.now = exceptionDay
	same, warnings, err := x.resolve(stored, stored)
	if err != nil || len(warnings) > 0 || same != stored {
		t.Errorf("%v %q %s", err, warnings, same)
	}
	// The next update of the spec applies the preset. What violated the rule may stay.
	changed := strings.Replace(stored, `"spec":{"template":{"spec":{`, `"spec":{"template":{"spec":{"hostname":"h",`, 1)
	after, warnings, err := x.resolve(changed, stored)
	if err != nil || !strings.Contains(after, `"secureBoot":true`) || strings.Contains(after, "exceptions") ||
		!slices.Contains(warnings, "exception old has ended: preset cluster/secure-boot acts on this VM again") {
		t.Errorf("%v %q %s", err, warnings, after)
	}
	// So the VM still starts, with the values of the preset.
	if err := x.starts(after); err != nil {
		t.Errorf("what may stay in the VM is rejected in its instance: %v", err)
	}
	if err := x.starts(strings.Replace(after, `"secureBoot":true`, `"secureBoot":false`, 1)); err == nil {
		t.Error("an instance may lack the value of the preset")
	}
	// So it does after a reapply of the preset alone, and the rule holds again once it is kept.
	alone, _, err := x.resolve(strings.Replace(after, `"annotations":{`, `"annotations":{"virtwright.dev/reapply":"only:cluster/secure-boot 1",`, 1), after)
	if err == nil {
		err = x.starts(alone)
	}
	if err != nil {
		t.Errorf("after a reapply of the preset: %v", err)
	}
	repaired, _, err := x.resolve(strings.Replace(after, `"rng":{}`, ``, 1), after)
	if err != nil || x.starts(repaired) != nil {
		t.Errorf("the repaired VM: %v", err)
	}
	if err := x.starts(strings.Replace(repaired, `"devices":{`, `"devices":{"rng":{}`, 1)); err == nil {
		t.Error("an instance may break a rule that its VM keeps again")
	}
	// A reapply also applies it, and then forbid rules hold.
	reapplied := strings.Replace(stored, `"annotations":{`, `"annotations":{"virtwright.dev/reapply":"1",`, 1)
	if _, _, err := x.resolve(reapplied, stored); !errors.As(err, &rejection) {
		t.Errorf("reapply: %v", err)
	}
	// A deleted exception has ended.
	x.snapshot = base
	if after, _, err = x.resolve(changed, stored); err != nil || !strings.Contains(after, `"secureBoot":true`) {
		t.Errorf("%v %s", err, after)
	}
}

// TestExceptionForStored: an exception that begins after the VM was created gives its author the
// choice at the next update of the spec.
func TestExceptionForStored(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t, presettest.Cluster("secure-boot", secureBoot)), nil)
	x := &exceptional{t, base, exceptionDay}
	stored, _, err := x.resolve(strings.Replace(oldVM, `"rng":{}`, "", 1), "")
	if err != nil || !strings.Contains(stored, "secureBoot") {
		t.Fatalf("%v %s", err, stored)
	}
	x.except(exceptionFor(t, time.Time{}, "cluster/secure-boot"))
	changed := strings.Replace(stored, `"devices":{}`, `"devices":{"rng":{}}`, 1)
	after, warnings, err := x.resolve(changed, stored)
	if err != nil || len(warnings) > 0 || strings.Contains(after, `"secureBoot":true`) || !strings.Contains(after, "exceptions") {
		t.Errorf("%v %q %s", err, warnings, after)
	}
}

// TestExceptionMatches: a preset whose conditions do not hold needs no exception.
func TestExceptionMatches(t *testing.T) {
	all := presettest.Compile(t, presettest.Cluster("never", `{match: {conditions: [{name: arm, expression: "object.?spec.template.spec.architecture.orValue('') == 'arm64'"}]}, forbid: [{path: spec.template.spec.hostname}]}`))
	x := &exceptional{t, presets.NewSnapshot(all, nil), exceptionDay}
	x.except(exceptionFor(t, time.Time{}, "cluster/never"))
	if stored, _, err := x.resolve(oldVM, ""); err != nil || strings.Contains(stored, "exceptions") {
		t.Errorf("%v %s", err, stored)
	}
}

// TestCompileException names each wrong field.
func TestCompileException(t *testing.T) {
	_, problems := presets.CompileException(&v1alpha1.PresetException{Spec: v1alpha1.PresetExceptionSpec{
		Presets: []string{"UP", "cluster/"}, VMSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}},
	}})
	var fields []string
	for _, p := range problems {
		fields = append(fields, p.Field)
	}
	want := "spec.vmSelector.matchExpressions[0].operator spec.presets[0] spec.presets[1] spec.reason"
	if got := strings.Join(slices.Compact(fields), " "); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

// TestOverlappingExceptions: of several exceptions, the one that ends last counts.
func TestOverlappingExceptions(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t, presettest.Cluster("secure-boot", secureBoot)), nil)
	soon, later, never := exceptionFor(t, exceptionDay, "cluster/secure-boot"), exceptionFor(t, exceptionDay.Add(time.Hour), "cluster/secure-boot"), exceptionFor(t, time.Time{}, "cluster/secure-boot")
	soon.Name, later.Name, never.Name = "a", "b", "c"
	for want, all := range map[string][]*presets.Exception{"b": {soon, later}, "c": {soon, never, later}} {
		x := &exceptional{t, base.WithExceptions(all, func() time.Time { return exceptionDay.Add(-time.Minute) }), exceptionDay}
		stored, warnings, err := x.resolve(oldVM, "")
		if err != nil || !strings.Contains(stored, `{\"`+want+`\":[`) || strings.Contains(strings.Join(warnings, " "), "exception "+want) != (want == "b") || len(warnings) > 1 {
			t.Errorf("%s: %v %q %s", want, err, warnings, stored)
		}
	}
}

// TestExceptionOfMissingValue: a missing value that a preset would give names the exception.
func TestExceptionOfMissingValue(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t, presettest.Cluster("size", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`)), nil)
	s := base.WithExceptions([]*presets.Exception{exceptionFor(t, time.Time{}, "cluster/size")}, time.Now)
	got := (&presets.Engine{}).NearMisses(t.Context(), s, presets.Request{Kind: presets.VirtualMachine, Object: []byte(oldVM), Namespace: presets.Namespace{Name: "lab"}}, "spec.template.spec.domain.memory.guest")
	if want := "preset cluster/size gives memory.guest to VMs without exception old, which this one has"; len(got[0]) != 1 || got[0][0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExceptionExplained names the exception as the reason.
func TestExceptionExplained(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t, presettest.Cluster("secure-boot", secureBoot)), nil)
	s := base.WithExceptions([]*presets.Exception{exceptionFor(t, exceptionDay, "cluster/secure-boot")}, func() time.Time { return exceptionDay.Add(-time.Hour) })
	x, err := (&presets.Engine{}).Explain(t.Context(), s, presets.Request{Kind: presets.VirtualMachine, Object: []byte(oldVM), Namespace: presets.Namespace{Name: "lab"}})
	if err != nil || len(x.Presets) != 1 || !x.Presets[0].Matched || x.Presets[0].Reason != "matches; exception old until 2030-01-01T00:00:00Z keeps it from acting" {
		t.Errorf("%v %+v", err, x)
	}
}

// TestExceptionForged: a record that a user sends makes no exception.
func TestExceptionForged(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t, presettest.Cluster("secure-boot", secureBoot)), nil)
	x := &exceptional{t, base, exceptionDay}
	x.except(exceptionFor(t, time.Time{}, "cluster/secure-boot"))
	const forged = `"annotations":{"virtwright.dev/provenance":"{\"v\":1,\"exceptions\":{\"old\":[\"cluster/secure-boot\"]}}"},"labels":{"image":"new"}`
	var rejection *presets.Rejection
	if out, _, err := x.resolve(strings.Replace(oldVM, `"labels":{"image":"old"}`, forged, 1), ""); !errors.As(err, &rejection) {
		t.Errorf("a create: %v %s", err, out)
	}
	stored, _, err := x.resolve(`{"metadata":{"name":"vm","namespace":"lab","labels":{"image":"new"}},"spec":{"template":{"spec":{"domain":{}}}}}`, "")
	if err != nil || !strings.Contains(stored, "secureBoot") {
		t.Fatalf("%v %s", err, stored)
	}
	sent := strings.Replace(oldVM, `"labels":{"image":"old"}`, forged, 1)
	if out, _, err := x.resolve(sent, stored); !errors.As(err, &rejection) {
		t.Errorf("an update: %v %s", err, out)
	}
	fine := strings.Replace(sent, `"rng":{}`, "", 1)
	if out, _, err := x.resolve(fine, stored); err != nil || !strings.Contains(out, `"secureBoot":true`) || strings.Contains(out, "exceptions") {
		t.Errorf("an update: %v %s", err, out)
	}
}

// TestAnnotationsKeepExceptions: an update of annotations keeps recorded exceptions, which end at
// the next update of spec, and an exception that has begun admits what its preset forbids.
func TestAnnotationsKeepExceptions(t *testing.T) {
	base := presets.NewSnapshot(presettest.Compile(t,
		presettest.Cluster("noted", `{overrides: {spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}, forbid: [{path: metadata.annotations.bad}]}`),
		presettest.Cluster("note", `{defaults: {metadata: {annotations: {note: a}}}}`)), nil)
	x := &exceptional{t, base, exceptionDay}
	x.except(exceptionFor(t, exceptionDay.Add(time.Hour), "cluster/noted"))
	const vm = `{"metadata":{"name":"vm","namespace":"lab","labels":{"image":"old"},"annotations":{"owner":"me"}},"spec":{"template":{"spec":{"domain":{"cpu":{"cores":4},"devices":{}}}}}}`
	stored, _, err := x.resolve(vm, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range [][2]string{{`"note":"a"`, `"note":"b"`}, {`"owner":"me"`, `"owner":"me","bad":"1"`}, {`"bad":"1",`, ``}} {
		if stored, _, err = x.resolve(strings.Replace(stored, edit[0], edit[1], 1), stored); err != nil {
			t.Fatalf("%s: %v", edit[1], err)
		}
	}
	x.now = exceptionDay.Add(2 * time.Hour)
	after, warnings, err := x.resolve(strings.Replace(stored, `"devices":{}`, `"devices":{"rng":{}}`, 1), stored)
	if err != nil || !strings.Contains(after, `"cores":2`) {
		t.Errorf("after the end: %v, %v\n%s", warnings, err, after)
	}
}
