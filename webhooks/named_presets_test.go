package webhooks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
)

// Jane may use the preset gpu, which the VM names. Bob and controllers may not.
func TestNamedPresetsGiveNothingNewWithoutPermission(t *testing.T) {
	const vm = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, uid: u1, annotations: {virtwright.dev/presets: gpu}}, spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}}"
	set := func(generation int64, hostname string) *presets.Snapshot {
		gpu := presettest.Namespaced("lab", "gpu", "{match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: "+hostname+"}}}}, overrides: {spec: {template: {spec: {subdomain: o}}}}}")
		gpu.SetGeneration(generation)
		return presettest.Snapshot(t, gpu)
	}
	replaced := func(old, with string) func(string) string {
		return func(vm string) string {
			if !strings.Contains(vm, old) {
				t.Fatalf("no %s in %s", old, vm)
			}
			return strings.Replace(vm, old, with, 1)
		}
	}
	same := func(vm string) string { return vm }
	own, emptied := replaced(`"hostname":"first"`, `"hostname":"own"`), replaced(`"hostname":"own",`, "")
	names := `"virtwright.dev/presets":"gpu"`
	excluded, included := replaced(names, names+`,"virtwright.dev/exclude":"gpu"`), replaced(`"virtwright.dev/exclude":"gpu",`, "")
	hashless := func(vm string) string { return regexp.MustCompile(`\\"hashes\\":\[[^]]*\],`).ReplaceAllString(vm, "") }
	for name, c := range map[string]struct {
		user      string
		now       *presets.Snapshot
		before    []func(string) string // changes while the preset is as it was
		change    func(string) string
		forbidden bool
	}{
		"another field":                      {"bob", set(2, "second"), nil, replaced(`"guest":"1Gi"`, `"guest":"2Gi"`), false},
		"a field is emptied":                 {"bob", set(1, "first"), []func(string) string{own}, emptied, false},
		"a field is emptied after a change":  {"bob", set(2, "second"), []func(string) string{own}, emptied, true},
		"emptied by a user with permission":  {"jane", set(2, "second"), []func(string) string{own}, emptied, false},
		"emptied, of a record without hash":  {"bob", set(1, "first"), []func(string) string{own, hashless}, emptied, false},
		"an exclusion ends":                  {"bob", set(1, "first"), []func(string) string{excluded}, included, false},
		"an exclusion ends after a change":   {"bob", set(2, "second"), []func(string) string{excluded}, included, true},
		"a restore of a snapshot":            {controller, set(2, "second"), nil, replaced(names, names+`,"restore.kubevirt.io/lastRestoreUID":"r1"`), false},
		"a controller empties after changes": {controller, set(2, "second"), []func(string) string{own}, emptied, true},
		"nothing":                            {"bob", set(2, "second"), nil, same, false},
	} {
		t.Run(name, func(t *testing.T) {
			current, resp := admitted(t, set(1, "first"), "jane", "", vm)
			if !resp.Allowed {
				t.Fatal(resp.Result)
			}
			for _, change := range c.before {
				if current, resp = admitted(t, set(1, "first"), "jane", current, change(current)); !resp.Allowed {
					t.Fatal(resp.Result)
				}
			}
			_, resp = admitted(t, c.now, c.user, current, c.change(current))
			if resp.Allowed == c.forbidden || c.forbidden && !strings.Contains(resp.Result.Message, "may not use preset gpu") {
				t.Errorf("allowed is %t: %v", resp.Allowed, resp.Result)
			}
		})
	}
}

// A preset that acts at launch leaves no trace in the record of a VM.
func TestNamedPresetsGiveNothingNewAtLaunchWithoutPermission(t *testing.T) {
	const vm = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"web","annotations":{"virtwright.dev/presets":"late","virtwright.dev/exclude":"late"},"labels":{"tier":"base"}},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{}}}}}}`
	excluded := `,"virtwright.dev/exclude":"late"`
	included := strings.Replace(vm, excluded, "", 1)
	set := func(match string) *presets.Snapshot {
		return presettest.Snapshot(t, presettest.Namespaced("lab", "late", "{applyAt: Launch, match: "+match+", defaults: {spec: {template: {spec: {hostname: first}}}}}"),
			presettest.Cluster("strict", "{applyAt: Launch, require: [{path: spec.template.spec.subdomain}]}")) // rejects all launches
	}
	const explicit, gold = "{explicit: true}", "{explicit: true, labels: {matchLabels: {tier: gold}}}"
	for name, c := range map[string]struct {
		user, match, before, now string
		forbidden                bool
	}{
		"an exclusion ends":                   {"bob", explicit, vm, included, true},
		"by a user with permission":           {"jane", explicit, vm, included, false},
		"another field":                       {"bob", explicit, included, strings.Replace(included, "1Gi", "2Gi", 1), false},
		"a label of an excluded preset":       {"bob", gold, vm, strings.Replace(vm, "base", "gold", 1), false},
		"a label by which the preset matches": {"bob", gold, included, strings.Replace(included, "base", "gold", 1), true},
		"a name is removed":                   {"bob", explicit, included, strings.Replace(included, `"virtwright.dev/presets":"late"`, "", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			current, resp := admitted(t, set(c.match), "jane", "", c.before)
			if !resp.Allowed {
				t.Fatal(resp.Result)
			}
			_, resp = admitted(t, set(c.match), c.user, current, c.now)
			if resp.Allowed == c.forbidden || c.forbidden && !strings.Contains(resp.Result.Message, "may not use preset late") {
				t.Errorf("allowed is %t: %v", resp.Allowed, resp.Result)
			}
		})
	}
}

// admitted returns a VM after both webhooks, and the last answer. A VM without old is new.
func admitted(t *testing.T, set *presets.Snapshot, user, old, now string) (string, Response) {
	t.Helper()
	m := machines(t, presets.VirtualMachine)
	m.Snapshots, m.Guard = fixed{set}, protection.Guard{Controllers: []string{controller}}
	request := func(now string) Request {
		req := creates("VirtualMachine", "lab", now)
		if old != "" {
			req = updates("VirtualMachine", "lab", old, now)
		}
		req.UserInfo.Username = user
		return req
	}
	req := request(now)
	resp := m.Handle(t.Context(), req)
	if !resp.Allowed {
		return "", resp
	}
	out := string(encoded(t, patched(t, req, resp)))
	v := &Validator{
		Kind: presets.VirtualMachine, Guard: m.Guard, Rules: &validation.Config{Addon: true}, Engine: m.Engine, Snapshots: m.Snapshots,
		Namespaces: m.Namespaces, Authorizer: rights{"jane use lab virtualmachinepresets gpu", "jane use lab virtualmachinepresets late"},
	}
	return out, v.Handle(t.Context(), request(out))
}

// KubeVirt updates a VM for a hotplug, and the update shows that an exception has ended.
func TestNamedPresetsAfterAnException(t *testing.T) {
	gpu := presettest.Namespaced("lab", "gpu", "{match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: first}}}}}")
	set := presettest.Snapshot(t, gpu)
	const vm = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"web","annotations":{"virtwright.dev/presets":"gpu"}},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{}}}}}}`
	old := strings.Replace(vm, `"annotations":{`, `"annotations":{"virtwright.dev/provenance":"{\"v\":1,\"snapshot\":\"0\",\"by\":[],\"exceptions\":{\"e1\":[\"gpu\"]},\"set\":{}}",`, 1)
	for user, allowed := range map[string]bool{controller: true, "bob": false, "jane": true} {
		if _, resp := admitted(t, set, user, old, strings.Replace(old, "1Gi", "2Gi", 1)); resp.Allowed != allowed {
			t.Errorf("%s: allowed is %t: %v", user, resp.Allowed, resp.Result)
		}
	}
}
