package presets_test

import (
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

func vmi(spec string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web, namespace: lab}\nspec: " + spec
}

func TestHotplugDefaults(t *testing.T) {
	const sockets, guest = "spec.domain.cpu.maxSockets", "spec.domain.memory.maxGuest"
	maxima := func(cpus, memory string) map[string]string { return map[string]string{sockets: cpus, guest: memory} }
	for name, c := range map[string]struct {
		reason, object string
		kind           presets.Kind
		platform       presets.Platform
		presets        []v1alpha1.Preset
		want           map[string]string
	}{
		"FourTimes":   {reason: "as in KubeVirt", object: vmi("{domain: {cpu: {sockets: 2, cores: 2}, memory: {guest: 2Gi}}}"), want: maxima("8", `"8Gi"`)},
		"FromRequest": {reason: "later than the size itself", object: vmi("{domain: {resources: {requests: {memory: 1536Mi, cpu: 3}}}}"), want: maxima("12", `"6Gi"`)},
		"Named":       {reason: "the author's maximum stays", object: vmi("{domain: {cpu: {sockets: 1, maxSockets: 2}, memory: {guest: 2Gi, maxGuest: 3Gi}}}"), want: maxima("2", `"3Gi"`)},
		"ManyCPUs":    {reason: "libvirt 9.0 knows 255 vCPUs without an IOMMU", object: vmi("{domain: {cpu: {sockets: 20, cores: 4}, memory: {guest: 1Gi}}}"), want: maxima("63", `"4Gi"`)},
		"MoreCPUs":    {reason: "never less than there are", object: vmi("{domain: {cpu: {sockets: 300}, memory: {guest: 1Gi}}}"), want: maxima("300", `"4Gi"`)},
		"NoSockets":   {reason: "no number of CPUs to multiply", object: vmi("{domain: {cpu: {sockets: 0, cores: 2}, memory: {guest: 1Gi}}}"), want: maxima("", `"4Gi"`)},
		"Small":       {reason: "memory grows from 1Gi on", object: vmi("{domain: {memory: {guest: 1022Mi}}}"), want: maxima("4", "")},
		"Unaligned":   {reason: "memory grows in blocks of 2Mi", object: vmi("{domain: {memory: {guest: 1025Mi}}}"), want: maxima("4", "")},
		"LargePages":  {reason: "or in pages of 1Gi", object: vmi("{domain: {memory: {guest: 1536Mi, hugepages: {pageSize: 1Gi}}}}"), want: maxima("4", "")},
		"SmallPages":  {reason: "smaller pages are no larger blocks", object: vmi("{domain: {memory: {guest: 1536Mi, hugepages: {pageSize: 2Mi}}}}"), want: maxima("4", `"6Gi"`)},
		"Huge":        {reason: "no overflow", object: vmi("{domain: {memory: {guest: 4Ei}}}"), want: maxima("4", "")},
		"Realtime":    {reason: "memory cannot grow", object: vmi("{domain: {cpu: {realtime: {}}, memory: {guest: 1Gi}}}"), want: maxima("4", "")},
		"NUMA":        {reason: "memory cannot grow", object: vmi("{domain: {cpu: {numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi}}}"), want: maxima("4", "")},
		"Encrypted":   {reason: "memory cannot grow", object: vmi("{domain: {launchSecurity: {sev: {}}, memory: {guest: 1Gi}}}"), want: maxima("4", "")},
		"ARM":         {reason: "no hotplug at all", object: vmi("{architecture: arm64, domain: {memory: {guest: 1Gi}}}"), want: maxima("", "")},
		"S390X":       {reason: "CPUs only", object: vmi("{architecture: s390x, domain: {memory: {guest: 1Gi}}}"), want: maxima("4", "")},
		"Stage":       {reason: "VMIs never change", object: vmi("{domain: {memory: {guest: 1Gi}}}"), platform: presets.Platform{NoLiveUpdate: true}, want: maxima("", "")},
		"VM": {
			reason: "a stored VM has no maxima", kind: presets.VirtualMachine, object: domain("{memory: {guest: 1Gi}}"),
			want: map[string]string{at + "cpu.sockets": "1", at + "cpu.maxSockets": "", at + "memory.maxGuest": ""},
		},
		"Preset": {
			reason: "presets are stronger", object: vmi("{domain: {memory: {guest: 1Gi}}}"),
			presets: list(cluster("a", defaults("{cpu: {maxSockets: 3}}")+"\nremove: [spec.template.spec.domain.memory.maxGuest]")), want: maxima("3", ""),
		},
		"Forbidden": {
			reason: "the VMI of a VM that presets accept is not rejected", object: vmi("{domain: {memory: {guest: 1Gi}}}"),
			presets: list(cluster("a", "forbid: [{path: spec.template.spec.domain.memory.maxGuest}]")), want: maxima("4", ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := c.kind
			if kind == "" {
				kind = presets.VirtualMachineInstance
			}
			rc := resolveCase{reason: c.reason, engine: presets.Engine{Platform: &c.platform}, kind: kind, object: c.object, presets: c.presets, want: c.want}
			rc.run(t)
		})
	}
	t.Run("Update", func(t *testing.T) {
		stored := vmi("{domain: {memory: {guest: 1Gi}}}")
		rc := resolveCase{reason: "a stored VMI gets no maxima", engine: presets.Engine{Platform: &presets.Platform{}}, kind: presets.VirtualMachineInstance, object: stored, old: stored, quiet: true}
		rc.run(t)
	})
}
