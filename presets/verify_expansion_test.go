package presets_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestVerifyExpansion: an instancetype or a preference cannot bypass overrides and forbid.
func TestVerifyExpansion(t *testing.T) {
	live := known(map[string]string{
		"VirtualMachineClusterInstancetype small": "{cpu: {guest: 2}, memory: {guest: 2Gi}}",
		"VirtualMachineClusterInstancetype large": "{cpu: {guest: 8, model: Skylake}, memory: {guest: 16Gi}, gpus: [{name: g, deviceName: x/y}], nodeSelector: {pool: gpu}}",
		"VirtualMachineClusterInstancetype wide":  "{cpu: {guest: 2, maxSockets: 8, dedicatedCPUPlacement: true}, memory: {guest: 2Gi}}",
		"VirtualMachineClusterPreference win":     "{devices: {preferredTPM: {}, preferredDiskBus: sata}, features: {preferredAcpi: {enabled: false}}}",
	})
	// Revision before is from the time when large was as small as small.
	find := func(m presets.Matcher) (map[string]any, error) {
		if m.Revision == "before" || m.Revision == "" && m.Stored == "before" {
			m.Name = "small"
		}
		return live(m)
	}
	const size, model, pool, noGPU, noTPM = "size", "model", "pool", "no-gpu", "no-tpm"
	all := map[string]string{
		size:         overrides("{memory: {guest: 2Gi}}"),
		model:        overrides("{cpu: {model: Haswell}}"),
		pool:         "overrides: {spec: {template: {spec: {nodeSelector: {pool: plain}}}}}",
		noGPU:        `forbid: [{path: spec.template.spec.domain.devices.gpus, message: no GPUs here}]`,
		noTPM:        `remove: [spec.template.spec.domain.devices.tpm]`,
		"bus":        overrides("{devices: {disks: [{name: root, disk: {bus: scsi}}]}}"),
		"gpu":        overrides(`{devices: {gpus: [{name: "*", tag: x}]}}`),
		"flat":       "remove: [spec.template.spec.domain.cpu.threads]",
		"no-cores":   "forbid: [{path: spec.template.spec.domain.cpu.cores}]",
		"no-sockets": "forbid: [{path: spec.template.spec.domain.cpu.sockets}]",
		"need-size":  "require: [{path: spec.template.spec.domain.memory.guest}, {path: spec.template.spec.hostname}]",
		"need-model": "require: [{path: spec.template.spec.domain.cpu.model}]",
		"acpi":       overrides("{features: {acpi: {enabled: true}}}"),
		"sockets":    overrides("{cpu: {maxSockets: 2}}"),
		"shared":     overrides("{cpu: {dedicatedCpuPlacement: false}}"),
		"late":       "match: {labels: {matchLabels: {late: 'yes'}}}\n" + overrides("{memory: {guest: 1Gi}}"),
		"first":      "priority: 9\n" + overrides("{memory: {guest: 16Gi}}"),
		"warn":       "mode: Warn\n" + overrides("{memory: {guest: 1Gi}}"),
	}
	named := func(name string) string { return vm("spec: {instancetype: {name: " + name + "}}") }
	stored := func(kind, revision string) string {
		return vm("spec: {instancetype: {name: large, kind: " + kind + "}}\nstatus: {instancetypeRef: {name: large, kind: VirtualMachineClusterInstancetype, controllerRevisionRef: {name: " + revision + "}}}")
	}
	const kind, otherSpelling = "VirtualMachineClusterInstancetype", "virtualmachineclusterinstancetype"
	for name, c := range map[string]struct {
		presets  []string
		now, old string
		want     []string // parts of the error; none wants no error
	}{
		"SameValue":       {presets: []string{size, noGPU}, now: named("small")},
		"OtherMemory":     {presets: []string{size}, now: named("large"), want: []string{at + `memory.guest: Invalid value: "16Gi"`, `must be "2Gi"`, "preset cluster/size", `VirtualMachineClusterInstancetype large sets "16Gi"`}},
		"CPUModel":        {presets: []string{model}, now: named("large"), want: []string{"cpu.model", "Haswell", "Skylake", "cluster/model"}},
		"NodeSelector":    {presets: []string{pool}, now: named("large"), want: []string{"nodeSelector.pool", "plain", "gpu"}},
		"Withheld":        {presets: []string{pool}, now: named("small"), want: []string{"nodeSelector.pool", "sets nothing", "name another instancetype"}},
		"Set":             {presets: []string{pool}, now: vm("spec: {instancetype: {name: small}, template: {spec: {nodeSelector: {pool: plain}}}}")},
		"Forbidden":       {presets: []string{noGPU}, now: named("large"), want: []string{"devices.gpus: Forbidden: no GPUs here (preset cluster/no-gpu)", "VirtualMachineClusterInstancetype large sets"}},
		"PutBack":         {presets: []string{noTPM}, now: vm("spec: {preference: {name: win}}"), want: []string{"devices.tpm", "preset cluster/no-tpm removes it", "VirtualMachineClusterPreference win"}},
		"Overwritten":     {presets: []string{"acpi"}, now: vm("spec: {preference: {name: win}, template: {spec: {domain: {features: {acpi: {enabled: true}}}}}}"), want: []string{"features.acpi.enabled", "must be true", "sets false"}},
		"NotFound":        {presets: []string{size, noGPU}, now: named("missing")},
		"NoInstancetype":  {presets: []string{size}, now: vm("")},
		"StrongerDecides": {presets: []string{size, "first"}, now: named("large")},
		"NoSuchDisk":      {presets: []string{"bus"}, now: vm("spec: {preference: {name: win}}")},
		"EveryGPU":        {presets: []string{"gpu"}, now: named("large")},
		"NoThreads":       {presets: []string{"flat", "no-cores"}, now: named("small")},
		"Sockets":         {presets: []string{"no-sockets"}, now: named("small"), want: []string{"cpu.sockets: Forbidden", "VirtualMachineClusterInstancetype small sets 2"}},
		"OnlyWarns":       {presets: []string{"warn"}, now: named("large")},
		"MaxSockets":      {presets: []string{"sockets"}, now: vm("spec: {instancetype: {name: wide}, template: {spec: {domain: {cpu: {maxSockets: 2}}}}}"), want: []string{"cpu.maxSockets", "must be 2", "sets 8"}},
		"FalseIsUnset":    {presets: []string{"shared"}, now: vm("spec: {instancetype: {name: wide}, template: {spec: {domain: {cpu: {dedicatedCpuPlacement: false}}}}}"), want: []string{"cpu.dedicatedCpuPlacement", "must be false", "sets true"}},
		"Everything":      {presets: []string{size, model, noGPU}, now: named("large"), want: []string{"memory.guest", "cpu.model", "devices.gpus"}},

		"Required":         {presets: []string{"need-size"}, now: named("small")},
		"RequiredMissing":  {presets: []string{"need-model"}, now: named("small"), want: []string{"cpu.model: Required value"}},
		"RequiredAsBefore": {presets: []string{"need-model"}, now: named("small"), old: named("small")},
		"AsBefore":         {presets: []string{size, model, noGPU}, now: named("large"), old: stored(kind, "large")},
		"CreatedLater":     {presets: []string{size, model, noGPU}, now: named("large"), old: named("large"), want: []string{"memory.guest", "cpu.model", "devices.gpus"}},
		"ChangedLater":     {presets: []string{size}, now: stored(kind, "before"), old: stored(kind, "before")},
		"ReadAgain":        {presets: []string{size}, now: stored(otherSpelling, "before"), old: stored(kind, "before"), want: []string{"memory.guest"}},
		"AnotherOne":       {presets: []string{size, noGPU}, now: named("large"), old: named("small"), want: []string{"memory.guest", "devices.gpus"}},
		"OneIsNew":         {presets: []string{size}, now: named("large"), old: vm("spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}"), want: []string{"memory.guest"}},
		"SameFromUser":     {presets: []string{size}, now: named("large"), old: vm("spec: {template: {spec: {domain: {memory: {guest: 16Gi}}}}}")},
		"AbsentBefore":     {presets: []string{pool}, now: named("small"), old: vm("spec: {template: {spec: {hostname: a}}}")},
		"PresetMatchesNow": {presets: []string{"late"}, now: strings.Replace(named("large"), "app: shop", "late: 'yes'", 1), old: named("large"), want: []string{"memory.guest"}},
		"OldIsUnreadable":  {presets: []string{size}, now: named("large"), old: vm("spec: {instancetype: {name: large}, template: x}"), want: []string{"memory.guest"}},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := list()
			for _, name := range c.presets {
				compiled = append(compiled, cluster(name, all[name]))
			}
			req := presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(c.now), Namespace: presets.Namespace{Name: "lab"}, Instancetypes: find}
			if c.old != "" {
				req.OldObject = presettest.JSON(c.old)
			}
			err := (&presets.Engine{}).VerifyExpansion(t.Context(), presettest.Snapshot(t, compiled...), req)
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
		})
	}
}

// TestVerifyExpansionUnread: an unreadable instancetype is no reason to admit a VM.
func TestVerifyExpansionUnread(t *testing.T) {
	failing := func(presets.Matcher) (map[string]any, error) { return nil, errors.New("no connection") }
	req := presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(vm("spec: {instancetype: {name: small}}")), Instancetypes: failing}
	err := (&presets.Engine{}).VerifyExpansion(t.Context(), presettest.Snapshot(t), req)
	if want := "cannot read VirtualMachineClusterInstancetype small: no connection"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
