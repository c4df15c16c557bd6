package webhooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

// profiles that are in use.
type profiles struct{ set *domain.Profiles }

func (p profiles) Snapshot() *domain.Profiles { return p.set }

// rendering admits a kind in standalone mode, under presets.
func rendering(t testing.TB, kind presets.Kind, in ...v1alpha1.Preset) *Validator {
	t.Helper()
	return &Validator{
		Kind: kind, Rules: &validation.Config{}, Engine: &presets.Engine{Platform: &presets.Platform{}},
		Snapshots: fixed{presettest.Snapshot(t, in...)}, Profiles: profiles{&domain.Profiles{}},
		Namespaces: namespaces{"lab": {Name: "lab"}, "shop": {Name: "shop", Labels: map[string]string{"tier": "prod"}}},
	}
}

// expanded is a machine as the mutating webhook leaves it.
func expanded(t *testing.T, v *Validator, object string) string {
	t.Helper()
	result, err := v.Engine.Resolve(t.Context(), presettest.Snapshot(t), presets.Request{
		Kind: v.Kind, Object: presettest.JSON(object), Namespace: presets.Namespace{Name: "lab"},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(result.Object())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Interfaces that no rule rejects. Only the first can be rendered.
const (
	nat     = `{name: default, masquerade: {}}`
	plugin  = `{name: default, binding: {name: passt-plugin}}`
	another = `{name: other, binding: {name: passt-plugin}}`
)

// networked is an instance's spec with interfaces.
func networked(cores, interfaces string) string {
	networks := "{name: default, pod: {}}"
	if strings.Contains(interfaces, "name: other") {
		networks += ", {name: other, multus: {networkName: net}}"
	}
	return `{networks: [` + networks + `], domain: {cpu: {cores: ` + cores + `}, memory: {guest: 64Mi}, devices: {interfaces: [` + interfaces + `]}}}`
}

func vmOf(spec string) string {
	return `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: lab}, spec: {runStrategy: Halted, template: {spec: ` + spec + `}}}`
}

func TestWhatCannotBeRendered(t *testing.T) {
	const first, second = "spec.template.spec.domain.devices.interfaces[0].binding.name", "spec.template.spec.domain.devices.interfaces[1].binding.name"
	good, bad := networked("1", nat), networked("1", plugin)
	for name, test := range map[string]struct {
		reason, old, now string
		change           func(*Validator)
		want             []string
	}{
		"Fine":       {reason: "what can be rendered passes", now: good},
		"Rejected":   {reason: "the field is named, in the template", now: bad, want: []string{first}},
		"Added":      {reason: "an update adds it", old: good, now: bad, want: []string{first}},
		"Kept":       {reason: "existing problems may stay", old: bad, now: networked("2", plugin)},
		"Mended":     {reason: "and may be fixed", old: bad, now: good},
		"Moved":      {reason: "elements are identified by name", old: networked("1", plugin+", "+another), now: networked("1", another+", "+plugin)},
		"More":       {reason: "only the new problem is reported", old: bad, now: networked("1", plugin+", "+another), want: []string{second}},
		"Rules":      {reason: "a VM that a rule rejects is not rendered", now: networked("0", plugin+", "+plugin)},
		"Addon":      {reason: "KubeVirt renders by itself", now: bad, change: func(v *Validator) { v.Rules = &validation.Config{Addon: true} }},
		"NoProfiles": {reason: "who has none renders nothing", now: bad, change: func(v *Validator) { v.Profiles = nil }},
		"AtLaunch": {reason: "presets act first that act at launch", now: good,
			change: func(v *Validator) {
				v.Snapshots = fixed{presettest.Snapshot(t, presettest.Cluster("bound", `
applyAt: Launch
overrides: {spec: {template: {spec: {domain: {devices: {interfaces: [{name: default, binding: {name: passt-plugin}}]}}}}}}`))}
			}, want: []string{first}},
	} {
		t.Run(name, func(t *testing.T) {
			v := rendering(t, presets.VirtualMachine)
			req := creates("VirtualMachine", "lab", expanded(t, v, vmOf(test.now)))
			if test.old != "" {
				req = updates("VirtualMachine", "lab", expanded(t, v, vmOf(test.old)), expanded(t, v, vmOf(test.now)))
			}
			if test.change != nil {
				test.change(v)
			}
			resp := v.Handle(t.Context(), req)
			var got []string
			for _, field := range causes(resp) {
				if strings.HasSuffix(field, ".binding.name") {
					got = append(got, field)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s%+v", test.reason, diff, resp.Result)
			}
			if len(test.want) > 0 && !strings.Contains(resp.Result.Message, "binding plugins are programs that KubeVirt runs") {
				t.Errorf("%s: got %s", test.reason, resp.Result.Message)
			}
			if test.want == nil && !resp.Allowed && name != "Rules" {
				t.Errorf("%s: got %s", test.reason, resp.Result.Message)
			}
		})
	}
}

// Instances have no template, and their launch no second one.
func TestInstancesAreRendered(t *testing.T) {
	v := rendering(t, presets.VirtualMachineInstance)
	instance := `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web, namespace: lab}, spec: ` + networked("1", plugin) + `}`
	resp := v.Handle(t.Context(), creates("VirtualMachineInstance", "lab", expanded(t, v, instance)))
	if diff := cmp.Diff([]string{"spec.domain.devices.interfaces[0].binding.name"}, causes(resp)); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// Before profiles are loaded, VMs cannot be rendered.
func TestNoProfilesYet(t *testing.T) {
	v := rendering(t, presets.VirtualMachine)
	v.Profiles = profiles{}
	resp := v.Handle(t.Context(), creates("VirtualMachine", "lab", expanded(t, v, vmOf(networked("1", nat)))))
	if resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable || !strings.Contains(resp.Result.Message, "profiles are not loaded yet") {
		t.Errorf("got %+v", resp.Result)
	}
}

// What the host's side says was hidden while the guest's side was wrong: it is not held against who
// mends one thing of two.
func TestOneThingAtATime(t *testing.T) {
	v := rendering(t, presets.VirtualMachine)
	of := func(binding string) string {
		spec := strings.Replace(networked("1", binding), "devices: {", "devices: {disks: [{name: d, cache: writeback, io: native, disk: {bus: virtio}}], ", 1)
		return expanded(t, v, vmOf(strings.Replace(spec, "{", "{volumes: [{name: d, emptyDisk: {capacity: 1Gi}}], ", 1)))
	}
	before, after := of(plugin), of(nat)
	if resp := v.Handle(t.Context(), creates("VirtualMachine", "lab", after)); cmp.Diff([]string{"spec.template.spec.domain.devices.disks[0].io"}, causes(resp)) != "" {
		t.Fatalf("want the host's side wrong, got %+v", resp.Result)
	}
	if resp := v.Handle(t.Context(), updates("VirtualMachine", "lab", before, after)); !resp.Allowed || len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], "disks[0].io") {
		t.Errorf("want a warning, got %q and %+v", resp.Warnings, resp.Result)
	}
}

// VMs that rules admit can be rendered, except for a list.
func TestWhatRulesAdmitIsRendered(t *testing.T) {
	seen := map[string]bool{}
	for rule, fixtures := range validationtest.Fixtures(t) {
		for i := range fixtures {
			f := &fixtures[i]
			m := f.ExpandedVM(t)
			if f.Verdict == validationtest.Bad || f.Config.Addon || f.Old != nil || m.Spec == nil {
				continue
			}
			name := rule + "/" + f.Name
			part, listed := validationtest.Unrendered[name]
			seen[name] = listed
			instance := &kubevirtv1.VirtualMachineInstance{ObjectMeta: *m.Meta, Spec: *m.Spec}
			_, problems := (&domain.Profiles{}).Plan(instance, nil, nil)
			if said := fmt.Sprint(problems.ToAggregate()); listed != (len(problems) > 0) || !strings.Contains(said, part) {
				t.Errorf("%s: listed: %t, said is: %s", name, listed, said)
			}
		}
	}
	for name := range validationtest.Unrendered {
		if !seen[name] {
			t.Errorf("%s is no fixture that a rule admits", name)
		}
	}
}
