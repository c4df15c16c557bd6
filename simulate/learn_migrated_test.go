package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/fleet/learn"
	"github.com/virtwright/virtwright/test/cases"
)

// migratedFleet returns VMs as Forklift makes them from vSphere: CPU, memory, firmware, TPM, clock,
// inputs, disks, and networks with MAC addresses are explicit. Serial numbers are UUIDs, and tags
// are labels. Machines of one tier are alike, but some have grown by hand. own counts the fields
// that only one VM has.
func migratedFleet(seed uint64, vms int) (text string, own int) {
	r := rand.New(rand.NewPCG(seed, 2))
	tiers := []struct {
		name, os, memory    string
		sockets, disks, nic int
	}{{"web", "rhel9", "4Gi", 2, 1, 1}, {"app", "rhel9", "8Gi", 4, 1, 2}, {"db", "rhel8", "32Gi", 8, 3, 2}, {"files", "windows2022", "16Gi", 4, 2, 1}}
	var out strings.Builder
	for i := range vms {
		tier := tiers[r.IntN(len(tiers))]
		site := []string{"berlin", "bonn"}[r.IntN(2)]
		name := fmt.Sprintf("%s-%s%02d", site, tier.name, i)
		memory, sockets := tier.memory, tier.sockets
		if r.IntN(12) == 0 {
			memory, own = fmt.Sprintf("%dGi", 5+i), own+1
		}
		if r.IntN(12) == 0 {
			sockets, own = 1+i, own+1
		}
		bootloader, features := "bios: {}", "acpi: {}"
		if strings.HasPrefix(tier.os, "windows") {
			bootloader, features = "efi: {secureBoot: true}", "acpi: {}, smm: {enabled: true}"
		}
		var disks, volumes, interfaces, networks []string
		for d := range tier.disks {
			disks = append(disks, fmt.Sprintf("{name: vol-%d, disk: {bus: virtio}}", d))
			volumes = append(volumes, fmt.Sprintf("{name: vol-%d, persistentVolumeClaim: {claimName: %s-vol-%[1]d}}", d, name))
		}
		for n := range tier.nic {
			interfaces = append(interfaces, fmt.Sprintf("{name: net-%d, model: virtio, bridge: {}, macAddress: \"00:50:56:%02x:%02x:%02x\"}", n, i/256, i%256, n))
			networks = append(networks, fmt.Sprintf("{name: net-%d, multus: {networkName: %s/vlan-%d}}", n, site, 10+n))
		}
		own += tier.nic + 1 // MAC addresses and the serial number
		fmt.Fprintf(&out, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: %s
  namespace: %s
  labels: {tier: %s, os: %s, migration: m-1, plan: wave-1}
spec:
  runStrategy: Halted
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      domain:
        clock: {timezone: Europe/Berlin, timer: {}}
        cpu: {sockets: %[5]d, cores: 1}
        memory: {guest: %s}
        machine: {type: q35}
        features: {%s}
        firmware: {serial: 4c4c4544-%04x, bootloader: {%s}}
        devices:
          disks: [%s]
          inputs: [{name: tablet, type: tablet, bus: usb}]
          interfaces: [%s]
          tpm: {enabled: false}
      networks: [%s]
      volumes: [%s]
`, name, site, tier.name, tier.os, sockets, memory, features, i, bootloader,
			strings.Join(disks, ", "), strings.Join(interfaces, ", "), strings.Join(networks, ", "), strings.Join(volumes, ", "))
	}
	return out.String(), own
}

// TestLawLearnMigrated learns presets of VMs that come from vSphere. Presets give all fields that
// several VMs have. A VM keeps its own ones, its run strategy, two labels by which presets select,
// and two keys that keep the order of its disks and volumes.
func TestLawLearnMigrated(t *testing.T) {
	for seed := range cases.Of(12) {
		const vms = 120
		text, own := migratedFleet(uint64(seed), vms)
		report, _ := learned(t, text, learn.Options{Support: 3, Namespaced: seed%2 == 1})
		before, after, given := 0, 0, 0
		for _, x := range report.VMs {
			if x.Err != nil {
				t.Errorf("seed %d: %v", seed, x.Err)
			}
			before, after = before+x.Before, after+x.After
		}
		for _, p := range report.Presets {
			given += p.Fields + p.Terms
		}
		if most := own + 5*vms; after > most || given > 100 {
			t.Errorf("seed %d: the sparse VMs have %d fields, want at most %d; the presets have %d", seed, after, most, given)
		}
		t.Logf("seed %d: %d fields are %d, %d fields of one VM only; %d presets have %d", seed, before, after, own, len(report.Presets), given)
	}
}
