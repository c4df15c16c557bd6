package main

import (
	"regexp"
	"strings"
	"testing"
)

const (
	bootRule = `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: secure-boot}
spec: {overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}}, forbid: [{path: spec.template.spec.domain.devices.rng}]}
---
`
	bootException = `apiVersion: virtwright.dev/v1alpha1
kind: PresetException
metadata: {name: old, namespace: shop}
spec: {presets: [cluster/secure-boot], vmSelector: {matchLabels: {image: old}}, reason: no loader, until: "2999-01-01T00:00:00Z"}
---
`
	bootVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop, labels: {image: old}}
spec: {runStrategy: Halted, template: {spec: {terminationGracePeriodSeconds: 30, domain: {memory: {guest: 1Gi}, devices: {rng: {}}}}}}
---
`
)

// TestExceptionsAct applies exceptions of files in every command, until they expire.
func TestExceptionsAct(t *testing.T) {
	in := bootRule + bootException + bootVM
	expired := strings.Replace(in, "2999", "2001", 1)
	for _, verb := range []string{"expand", "explain", "validate"} {
		call(t, in, verb, "-f", "-").fine(t)
		got := call(t, expired, verb, "-f", "-")
		if got.code != exitRejected {
			t.Errorf("%s: exit code %d: %s%s", verb, got.code, got.out, got.err)
		}
		says(t, got.out+got.err, "spec.template.spec.domain.devices.rng")
	}
	says(t, call(t, in, "explain", "-f", "-", "--all").out, "exception old until 2999-01-01T00:00:00Z")
	says(t, call(t, expired, "validate", "-f", "-").err, "the exception has expired; a cluster rejects its creation")
	got := call(t, strings.Replace(bootRule+bootException, "presets: [cluster/", "presets: [x, cluster/", 1), "validate", "-f", "-").fine(t)
	says(t, got.err, `spec.presets[0]: preset "x" does not exist`)
	says(t, call(t, strings.Replace(bootException, "reason: no loader, ", "", 1), "validate", "-f", "-").out, "spec.reason: Required value")
}

// TestExceptionsPlanned checks that plan shows the effect of an exception.
func TestExceptionsPlanned(t *testing.T) {
	old, vm := write(t, "old.yaml", bootRule), write(t, "vm.yaml", strings.Replace(bootVM, "rng: {}", "", 1))
	with := write(t, "new.yaml", bootRule+bootException)
	got := call(t, "", "plan", "-f", with, "-f", vm, "--base-dir", old, "-o", "json")
	if got.code != exitRejected {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, got.out, "terminationGracePeriodSeconds")
}

// TestExceptionsCounted counts the VMs of the input that use an exception without status.
func TestExceptionsCounted(t *testing.T) {
	other := strings.NewReplacer("name: web", "name: other", "image: old", "image: new", "rng: {}", "").Replace(bootVM)
	got := call(t, bootRule+bootException+bootVM+other, "exceptions", "-f", "-").fine(t)
	says(t, single(got.out), "shop old cluster/secure-boot 1 2999-01-01T00:00:00Z <unknown> no loader")
}

// TestExceptionsListed lists exceptions and marks expired ones.
func TestExceptionsListed(t *testing.T) {
	in := bootException + `apiVersion: virtwright.dev/v1alpha1
kind: PresetException
metadata: {name: ended, namespace: lab, resourceVersion: "1", uid: u}
spec: {presets: [a, cluster/b], vmSelector: {}, reason: "two\n lines", until: "2001-01-01T00:00:00Z", ticket: T-1}
status: {matched: 3, lastUsed: "2000-12-01T00:00:00Z"}
`
	got := call(t, in, "exceptions", "-f", "-").fine(t)
	for _, want := range []string{
		`(?m)^NAMESPACE +NAME +PRESETS +VMS +UNTIL +LAST-USED +REASON$`,
		`(?m)^lab +ended +a,cluster/b +3 +2001-01-01T00:00:00Z \(expired\) +\d+y ago +two lines$`,
		`(?m)^shop +old +cluster/secure-boot +<unknown> +2999-01-01T00:00:00Z +<unknown> +no loader$`,
	} {
		if !regexp.MustCompile(want).MatchString(got.out) {
			t.Errorf("want %s in\n%s", want, got.out)
		}
	}
	says(t, call(t, in, "exceptions", "-f", "-", "-o", "json").fine(t).out, `"ticket": "T-1"`, `"expired": true`, `"vms": 3`)
	says(t, call(t, bootRule, "exceptions", "-f", "-").fine(t).err, "no PresetException in -f -")
}

// TestExceptionsProposed proposes exceptions for existing VMs.
func TestExceptionsProposed(t *testing.T) {
	vm := func(name, labels, rest string) string {
		return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", namespace: shop, labels: {" + labels + "}}\n" +
			"spec: {runStrategy: Halted, template: {spec: {" + rest + " domain: {memory: {guest: 1Gi}, devices: {" + map[bool]string{true: "rng: {}"}[rest == ""] + "}}}}}\n---\n"
	}
	const overruled, fine = "terminationGracePeriodSeconds: 30,", "terminationGracePeriodSeconds: 7,"
	const later = "# VMs that are created later with these labels are exempt too. To exempt only the VMs above,\n" +
		"# run this command, and select only its label in vmSelector:\n"
	rule := strings.Replace(bootRule, "spec: {", "spec: {mode: Audit, ", 1)
	for name, tc := range map[string]struct {
		vms  string
		want []string
	}{
		"OneLabel": {
			vm("a", "app: x, image: old", "") + vm("b", "app: y, image: old", overruled) + vm("c", "app: x, image: new", fine),
			[]string{"# 2 VMs: a b\n", "name: cluster-secure-boot\n  namespace: shop\n", "  - cluster/secure-boot\n", "    matchLabels:\n      image: old\n", "reason: existed before the preset was enforced", "until: "},
		},
		"TwoLabels": {
			vm("a", "app: x, image: old", "") + vm("b", "app: y, image: old", fine) + vm("c", "app: x, image: new", fine),
			[]string{"# 1 VM: a\n", later + "# kubectl label vm --namespace shop a virtwright.dev/exception=cluster-secure-boot\napiVersion", "    matchLabels:\n      app: x\n      image: old\n"},
		},
		"NameLabel": {
			vm("a", "app: x, name: a", "") + vm("b", "app: y, name: b", fine),
			[]string{"# 1 VM: a\napiVersion", "    matchLabels:\n      name: a\n"},
		},
		"NameLabels": {
			vm("a", "image: old, name: a", "") + vm("b", "image: old, name: b", overruled) + vm("c", "name: c", fine),
			[]string{"# 2 VMs: a b\napiVersion", "    matchExpressions:\n    - key: name\n      operator: In\n      values:\n      - a\n      - b\n"},
		},
		"NameLabelOfAnother": {
			vm("a", "app: x, name: a", "") + vm("b", "app: y, name: a", fine),
			[]string{"# 1 VM: a\n" + later, "    matchLabels:\n      app: x\n"},
		},
		"OwnLabel": {
			vm("a", "app: x, virtwright.dev/exception: 'y'", "") + vm("b", "app: y", fine),
			[]string{"# 1 VM: a\napiVersion", "    matchLabels:\n      virtwright.dev/exception: \"y\"\n"},
		},
		"NoLabels": {
			vm("a", "image: old", "") + vm("b", "image: old", fine),
			[]string{"# 1 VM: a\n# kubectl label vm --namespace shop a virtwright.dev/exception=cluster-secure-boot\n", "      virtwright.dev/exception: cluster-secure-boot\n"},
		},
		"All":          {vm("a", "image: old", ""), []string{"      image: old\n"}},
		"Excepted":     {bootException + vm("a", "image: old", ""), nil},
		"OtherPreset":  {bootException + vm("a", "image: new", ""), []string{"name: cluster-secure-boot\n"}},
		"NameIsTaken":  {strings.Replace(bootException, "name: old", "name: cluster-secure-boot", 1) + vm("a", "image: new", ""), []string{"name: cluster-secure-boot-2\n"}},
		"NothingNeeds": {vm("a", "image: old", fine), nil},
	} {
		got := call(t, rule+tc.vms, "exceptions", "--propose", "-f", "-").fine(t)
		if tc.want == nil {
			says(t, got.err, "no VM needs an exception")
			if got.out != "" {
				t.Errorf("%s: got %s", name, got.out)
			}
			continue
		}
		says(t, got.out, tc.want...)
		if name == "NoLabels" {
			continue
		}
		// With its exceptions, the preset rejects no VM and overrules no value.
		again := call(t, rule+tc.vms+got.out, "exceptions", "--propose", "-f", "-").fine(t)
		if again.out != "" {
			t.Errorf("%s: again: %s", name, again.out)
		}
	}
	for want, args := range map[string][]string{
		"-f is required": {"--propose", "-A"},
		"--propose and -l are mutually exclusive": {"--propose", "-f", "x", "-l", "a=b"},
		"--propose and -o are mutually exclusive": {"--propose", "-f", "x", "-o", "json"},
		"no VM in -f: use -A or -n":               {"--propose", "-f", write(t, "preset.yaml", rule)},
	} {
		if got := call(t, "", append([]string{"exceptions"}, args...)...); got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%q: exit code %d: %s", args, got.code, got.err)
		}
	}
}
