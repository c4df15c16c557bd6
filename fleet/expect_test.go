package fleet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

// TestMismatches compares a VM with a partial and with a complete expectation.
func TestMismatches(t *testing.T) {
	actual := decoded(t, `{metadata: {name: web, labels: {a: b}}, spec: {template: {spec: {nodeSelector: {}, tolerations: [], accessCredentials: [],
  domain: {memory: {guest: 2Gi}, cpu: {cores: 2}, devices: {tpm: {persistent: true}, disks: [{name: root, disk: {bus: virtio}}, {name: data, lun: {}}]}}}}}}`)
	in := func(domain string) string { return "{spec: {template: {spec: {domain: " + domain + "}}}}" }
	for name, c := range map[string]struct {
		expected string
		want     []string
	}{
		"Nothing":         {"{}", nil},
		"Equal":           {in("{cpu: {cores: 2}, devices: {disks: [{name: data, lun: {}}]}}"), nil},
		"AnotherSpelling": {in("{memory: {guest: 2048Mi}}"), nil},
		"AnyObject":       {in("{devices: {tpm: {}}}"), nil},
		"NoSuchObject":    {in("{devices: {watchdog: {}}}"), []string{"spec.template.spec.domain.devices.watchdog"}},
		"Absent":          {in("{devices: {rng: null, gpus: []}}"), nil},
		"NotAbsent":       {in("{devices: {tpm: null, disks: []}}"), []string{"spec.template.spec.domain.devices.disks", "spec.template.spec.domain.devices.tpm"}},
		"EmptyObject":     {"{spec: {template: {spec: {nodeSelector: null}}}}", []string{"spec.template.spec.nodeSelector"}},
		"EmptyList":       {"{spec: {template: {spec: {tolerations: []}}}}", nil},
		"OtherValue":      {in("{cpu: {cores: 3}}"), []string{"spec.template.spec.domain.cpu.cores"}},
		"OtherMember":     {in("{devices: {disks: [{name: data, disk: {bus: virtio}}]}}"), []string{"spec.template.spec.domain.devices.disks[data].disk.bus"}},
		"OtherElement":    {in("{devices: {disks: [{name: cloud, disk: {bus: sata}}]}}"), []string{"spec.template.spec.domain.devices.disks[cloud]"}},
		"Label":           {"{metadata: {labels: {a: c}}}", []string{"metadata.labels.a"}},
	} {
		var got []string
		for _, m := range fleet.Mismatches(presets.VirtualMachine, decoded(t, c.expected), actual) {
			got = append(got, m.Path.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	same := decoded(t, `{metadata: {name: web, labels: {a: b}}, spec: {template: {spec: {nodeSelector: {},
  domain: {memory: {guest: 2048Mi}, cpu: {cores: 2}, devices: {tpm: {persistent: true}, disks: [{name: data, lun: {}}, {name: root, disk: {bus: virtio}}]}}}}}}`)
	if found := fleet.MismatchesExactly(presets.VirtualMachine, same, actual); len(found) > 0 {
		t.Errorf("equal VMs differ: %v", found)
	}
	less := decoded(t, `{metadata: {name: web}, spec: {template: {spec: {nodeSelector: {}, hostname: a, domain: {memory: {guest: 2Gi}, cpu: {cores: 2}, devices: {tpm: {persistent: true}}}}}}}`)
	var paths []string
	for _, m := range fleet.MismatchesExactly(presets.VirtualMachine, less, actual) {
		paths = append(paths, m.Path.String())
	}
	if got, want := strings.Join(paths, " "), "metadata.labels.a spec.template.spec.domain.devices.disks[data].lun spec.template.spec.domain.devices.disks[data].name "+
		"spec.template.spec.domain.devices.disks[root].disk.bus spec.template.spec.domain.devices.disks[root].name spec.template.spec.hostname"; got != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
}
