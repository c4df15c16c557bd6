package main

import (
	"strings"
	"testing"
)

// Each command that expands a VM rejects the same VMs as a cluster.
func TestOneJudge(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"a rule":            {"{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a}]}}}}}", "disks[0].name: Not found: \"a\": must be the name of a volume (disk-volume-exists)"},
		"a wrong type":      {"{template: {spec: {domain: {memory: {guest: 1Gi}, cpu: {cores: [many]}}}}}", `cpu.cores: Invalid value: ["many"]: must be a whole number`},
		"a negative number": {"{template: {spec: {domain: {memory: {guest: 1Gi}, cpu: {cores: -1}}}}}", "cpu.cores: Invalid value: -1: must be a whole number from 0 to 2147483647"},
		"text in XML":       {`{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a, serial: '<&">'}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}}}`, "disks[0].serial: Invalid value: "},
		"an unknown driver": {`{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a, io: uring}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}}}`, `disks[0].io: Unsupported value: "uring"`},
		"a CPU feature":     {"{template: {spec: {domain: {memory: {guest: 1Gi}, cpu: {features: [{name: a b}]}}}}}", `cpu.features[0].name: Invalid value: "a b": must be letters, digits, '-', '_' and '.', such as sse4.1 (cpu-feature-name)`},
		"two sources":       {`{template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}, ephemeral: {}}]}}}`, "volumes[0]: Forbidden: must have only one source; leave out the others (volume-one-source)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range []string{"expand", "render", "validate"} {
				got := call(t, sparse+"spec: "+c.spec+"\n", command, "-f", "-")
				if got.code != exitRejected {
					t.Errorf("%s: exit code %d, want %d: %s%s", command, got.code, exitRejected, got.out, got.err)
				}
				says(t, got.out+got.err, c.want)
			}
		})
	}
	collision := call(t, small+"---\n"+small, "expand", "-f", "-")
	says(t, collision.err, "document 2: VirtualMachine default/vm is rejected", "Duplicate value: \"vm\", also in standard input, document 1")
}

// Flags of rules configure the engine, too: without live update, a VMI gets no maximum of sockets.
func TestRolloutStrategy(t *testing.T) {
	vmi := strings.Replace(sparse, "Machine\n", "MachineInstance\n", 1) + "spec: {domain: {memory: {guest: 1Gi}}}\n"
	says(t, call(t, vmi, "expand", "-f", "-").fine(t).out, "maxSockets: 4", "maxGuest: 4Gi")
	if got := call(t, vmi, "expand", "-f", "-", "--vm-rollout-strategy=Stage").fine(t); strings.Contains(got.out, "max") {
		t.Errorf("with strategy Stage it has maxima:\n%s", got.out)
	}
}

// Fields of a copied VM that only controllers write are removed with a warning, as in webhooks.
func TestReservedFieldsAreRemoved(t *testing.T) {
	vm := strings.Replace(small, "{name: vm}", `{name: vm, annotations: {a/b: c, virtwright.dev/instance-of: u1, virtwright.dev/template-requester: '{"username":"root"}'}}`, 1)
	vmi := strings.Replace(strings.Replace(vm, "Machine\n", "MachineInstance\n", 1), "spec: {template: {spec: ", "spec: {domain: {memory: {guest: 1Gi}}} # ", 1)
	for name, c := range map[string]struct{ command, text string }{"expand VM": {"expand", vm}, "explain VM": {"explain", vm}, "explain VMI": {"explain", vmi}} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.text, c.command, "-f", "-").fine(t)
			says(t, got.err, "Warning: ", "instance-of", "only controllers may write")
			if says(t, got.out, "a/b"); strings.Contains(got.out, "virtwright.dev/instance-of") || strings.Contains(got.out, "requester") {
				t.Errorf("reserved annotations are still there:\n%s", got.out)
			}
		})
	}
}

// The requester of a template is unknown offline and is not printed.
func TestExpandStampsNoRequester(t *testing.T) {
	asks := strings.Replace(small, "{name: vm}", "{name: vm, annotations: {virtwright.dev/generate-template: golden}}", 1)
	got := call(t, asks, "expand", "-f", "-").fine(t)
	if strings.Contains(got.out+got.err, "requester") || strings.Contains(got.out, "anybody") {
		t.Errorf("it names a requester:\n%s%s", got.out, got.err)
	}
}

// Notes about missing presets and labels are printed only with findings that they explain.
func TestNotesThatExplain(t *testing.T) {
	const (
		none    = "Note: no preset in -f; presets of a cluster may set the missing values of "
		unknown = "Note: the labels of namespace default are unknown, but preset cluster/here selects namespaces by label: add the Namespace to -f, or set --namespace-labels\n"
	)
	byLabel := write(t, "here.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: here}\n"+
		"spec: {match: {namespaces: {matchLabels: {a: b}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}\n")
	for name, c := range map[string]struct {
		vm   string
		args []string
		want string
	}{
		"a missing value":                      {sparse, nil, none + "VirtualMachine default/vm\n"},
		"missing values of two":                {sparse + "---\n" + strings.Replace(sparse, "{name: vm}", "{name: b}", 1), nil, none + "VirtualMachine default/vm and 1 more\n"},
		"nothing is missing":                   {small, nil, ""},
		"another problem":                      {strings.Replace(small, "1Gi", "-1", 1), nil, ""},
		"a missing value and unknown labels":   {sparse, []string{"-f", byLabel}, unknown},
		"unknown labels, and nothing is wrong": {small, []string{"-f", byLabel}, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.vm, append([]string{"validate", "-f", "-"}, c.args...)...)
			var notes string
			for line := range strings.Lines(got.err) {
				if strings.HasPrefix(line, "Note: ") {
					notes += line
				}
			}
			if notes != c.want {
				t.Errorf("got %q, want %q in:\n%s", notes, c.want, got.out)
			}
		})
	}
	says(t, call(t, sparse, "expand", "-f", "-").err, none+"VirtualMachine default/vm\n")
	says(t, call(t, small, "expand", "-f", "-", "-f", byLabel).fine(t).err, unknown)
}
