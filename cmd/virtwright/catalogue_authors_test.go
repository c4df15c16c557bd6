package main

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// authors are values of spec.template.spec that authors of VMs set for the same devices and sizes
// as presets of the catalogue.
var authors = map[string]string{
	"acpi-off":            "domain: {features: {acpi: {enabled: false}}}",
	"apic-off":            "domain: {features: {apic: {enabled: false}}}",
	"bios":                "domain: {firmware: {bootloader: {bios: {}}}}",
	"cd-for-cloud-init":   "{domain: {devices: {disks: [{name: cloudinit, cdrom: {}}]}}, volumes: [{name: cloudinit, cloudInitNoCloud: {userData: x}}]}",
	"clock":               "domain: {clock: {timezone: Europe/Berlin}}",
	"cpu-fraction":        "domain: {resources: {requests: {cpu: 500m}}}",
	"cpu-limit":           "domain: {cpu: {cores: 4}, resources: {limits: {cpu: 2}}}",
	"cpu-limit-as-cpus":   "domain: {cpu: {cores: 4}, resources: {limits: {cpu: 4}}}",
	"cpu-limit-only":      "domain: {resources: {limits: {cpu: 4}}}",
	"cpu-request":         "domain: {cpu: {cores: 4}, resources: {requests: {cpu: 2}}}",
	"cpu-request-limit":   "domain: {resources: {limits: {cpu: 4}, requests: {cpu: 2}}}",
	"cpus-hotplugged":     "domain: {cpu: {sockets: 2, maxSockets: 8}, memory: {maxGuest: 8Gi}}",
	"cpus-shared":         "domain: {cpu: {dedicatedCpuPlacement: false}}",
	"efi":                 "domain: {firmware: {bootloader: {efi: {}}}}",
	"efi-not-secure":      "domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}",
	"emulator-shared":     "domain: {cpu: {isolateEmulatorThread: false}}",
	"evmcs":               "domain: {features: {hyperv: {evmcs: {}}}}",
	"files":               "{domain: {devices: {filesystems: [{name: root, virtiofs: {}}]}}, volumes: [{name: root, configMap: {name: x}}]}",
	"huge-pages":          "domain: {memory: {hugepages: {pageSize: 1Gi}}}",
	"hyperv-passthrough":  "domain: {features: {hypervPassthrough: {enabled: true}}}",
	"hyperv-vapic-off":    "domain: {features: {hyperv: {vapic: {enabled: false}}}}",
	"hyperv-synic-off":    "domain: {features: {hyperv: {synic: {enabled: false}}}}",
	"hyperv-vpindex-off":  "domain: {features: {hyperv: {vpindex: {enabled: false}}}}",
	"io-threads":          "domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}}",
	"lun":                 "{domain: {devices: {disks: [{name: root, lun: {}}]}}, volumes: [{name: root, persistentVolumeClaim: {claimName: x}}]}",
	"memory-limit":        "domain: {resources: {limits: {memory: 6Gi}}}",
	"memory-limit-low":    "domain: {resources: {limits: {memory: 2Gi}}}",
	"memory-request":      "domain: {resources: {limits: {memory: 6Gi}, requests: {memory: 4Gi}}}",
	"model-of-host":       "domain: {cpu: {model: host-passthrough}}",
	"network-none":        "domain: {devices: {autoattachPodInterface: false}}",
	"network-of-hardware": "{domain: {devices: {interfaces: [{name: default, sriov: {}}]}}, networks: [{name: default, multus: {networkName: x}}]}",
	"numa":                "domain: {cpu: {cores: 2, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}, memory: {hugepages: {pageSize: 2Mi}}}",
	"paused":              "startStrategy: Paused",
	"smm-off":             "domain: {features: {smm: {enabled: false}}}",
	"spread":              "topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}]",
	"storage":             "domain: {resources: {limits: {ephemeral-storage: 2Gi}, requests: {ephemeral-storage: 1Gi}}}",
	"toleration":          "tolerations: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]",
	"threads":             "domain: {cpu: {threads: 2}}",
	"threads-four":        "domain: {cpu: {threads: 4}}",
	"tpm-off":             "domain: {devices: {tpm: {enabled: false}}}",
	"watchdog":            "domain: {devices: {watchdog: {name: dog, i6300esb: {action: shutdown}}}}",
}

// TestCatalogueBesideAuthors checks that a VM with a value of its author stays valid with each
// preset alone, and with all combinable presets.
func TestCatalogueBesideAuthors(t *testing.T) {
	var objects []map[string]any
	for name, written := range authors {
		for _, architecture := range []string{"amd64", "arm64"} {
			spec := map[string]any{}
			if err := yaml.Unmarshal([]byte(written), &spec); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			spec["architecture"] = architecture
			merge(spec, "domain", nil)
			domain := spec["domain"].(map[string]any)
			merge(domain, "memory", map[string]any{"guest": "4Gi"})
			objects = append(objects, map[string]any{
				"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
				"metadata": map[string]any{"name": architecture + "-" + name},
				"spec":     map[string]any{"runStrategy": "Manual", "template": map[string]any{"spec": spec}},
			})
		}
	}
	staysAdmissible(t, objects, choices(t))
}
