package presets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/presettest"
)

func TestSensitive(t *testing.T) {
	for part, want := range map[string][]string{
		"{}": nil,
		"{spec: {template: {spec: {volumes: [{name: a, emptyDisk: {capacity: 1Gi}}], domain: {firmware: {serial: x}}, livenessProbe: {tcpSocket: {port: 1}}}}}}":             nil,
		"{spec: {template: {spec: {volumes: [{name: a, configMap: {name: b}}, {name: c, containerDisk: {image: i}}], domain: {devices: {disks: [{name: a}, {name: c}]}}}}}}": nil,
		"{spec: {template: {spec: {volumes: [{name: a, configMap: {name: b, volumeLabel: cidata}}]}}}}":                                                                      {"spec.template.spec.volumes[a].configMap.volumeLabel"},
		"{spec: {template: {spec: {volumes: [{name: a, downwardAPI: {volumeLabel: cidata}}]}}}}":                                                                             {"spec.template.spec.volumes[a].downwardAPI.volumeLabel"},
		"{spec: {template: {spec: {volumes: [{name: a, containerDisk: {image: i, imagePullSecret: s}}]}}}}":                                                                  {"spec.template.spec.volumes[a].containerDisk.imagePullSecret"},
		"{spec: {template: {spec: {resourceClaims: [{name: a, resourceClaimName: b}]}}}}":                                                                                    {"spec.template.spec.resourceClaims[a].name", "spec.template.spec.resourceClaims[a].resourceClaimName"},
		"{spec: {template: {spec: {livenessProbe: {exec: {command: [x]}}}}}}":                                                                                                {"spec.template.spec.livenessProbe.exec.command"},
		"{spec: {template: {spec: {readinessProbe: {exec: {command: [x]}}}}}}":                                                                                               {"spec.template.spec.readinessProbe.exec.command"},
		"{spec: {template: {spec: {domain: {devices: {interfaces: [{name: a, sriov: {}}]}}}}}}":                                                                              {"spec.template.spec.domain.devices.interfaces[a].sriov"},
		"{spec: {template: {spec: {domain: {devices: {interfaces: [{name: a, bridge: {}}]}}}}}}":                                                                             nil,
		"{spec: {template: {spec: {domain: {devices: {disks: [{name: a, lun: {reservation: true}}]}}}}}}":                                                                    {"spec.template.spec.domain.devices.disks[a].lun.reservation"},
		"{spec: {template: {spec: {domain: {devices: {disks: [{name: a, lun: {bus: scsi}}]}}}}}}":                                                                            nil,
		"{spec: {template: {spec: {priorityClassName: x}}}}":                                                                                                                 {"spec.template.spec.priorityClassName"},
		"{spec: {template: {spec: {livenessProbe: {httpGet: {port: 80, host: h}}}}}}":                                                                                        {"spec.template.spec.livenessProbe.httpGet.host"},
		"{spec: {template: {spec: {readinessProbe: {httpGet: {port: 80, host: h}}}}}}":                                                                                       {"spec.template.spec.readinessProbe.httpGet.host"},
		"{spec: {template: {spec: {livenessProbe: {tcpSocket: {port: 80, host: h}}}}}}":                                                                                      {"spec.template.spec.livenessProbe.tcpSocket.host"},
		"{spec: {template: {spec: {livenessProbe: {httpGet: {port: 80, path: /p}}}}}}":                                                                                       nil,
		"{spec: {template: {spec: {networks: [{name: a, multus: {networkName: net}}]}}}}":                                                                                    nil,
		"{spec: {template: {spec: {networks: [{name: a, multus: {networkName: shop/net}}]}}}}":                                                                               nil,
		"{spec: {template: {spec: {networks: [{name: a, multus: {networkName: other/net}}]}}}}":                                                                              {"spec.template.spec.networks[a].multus.networkName"},
		"{spec: {dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {http: {url: u, secretExtraHeaders: [s]}}}}]}}":                                                  {"spec.dataVolumeTemplates[d].spec.source.http.secretExtraHeaders"},
		"{spec: {instancetype: {name: x}}}":                                                                 {"spec.instancetype.name"},
		"{spec: {preference: {name: x}}}":                                                                   nil,
		"{spec: {preference: {name: x, kind: VirtualMachineClusterPreference}}}":                            nil,
		"{spec: {preference: {inferFromVolume: root}}}":                                                     {"spec.preference.inferFromVolume"},
		"{spec: {preference: {name: x, revisionName: r}}}":                                                  {"spec.preference.revisionName"},
		"{spec: {template: {spec: {domain: {devices: {autoattachVSOCK: true}}}}}}":                          {"spec.template.spec.domain.devices.autoattachVSOCK"},
		"{spec: {template: {spec: {domain: {devices: {autoattachVSOCK: false}}}}}}":                         nil,
		"{spec: {dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {vddk: {initImageURL: i}}}}]}}": {"spec.dataVolumeTemplates[d].spec.source.vddk.initImageURL"},
		"{spec: {template: {metadata: {annotations: {net.ns.ovn.kubernetes.io/logical_switch: s}}}}}":       {`spec.template.metadata.annotations["net.ns.ovn.kubernetes.io/logical_switch"]`},
		"{spec: {template: {metadata: {annotations: {net.ns.kubernetes.io/logical_switch: s}}}}}":           {`spec.template.metadata.annotations["net.ns.kubernetes.io/logical_switch"]`},
		"{spec: {template: {metadata: {annotations: {io.cilium.proxy/visibility: s}}}}}":                    {`spec.template.metadata.annotations["io.cilium.proxy/visibility"]`},
		"{spec: {template: {metadata: {annotations: {kuma.io/mesh: m}}}}}":                                  nil,
		"{spec: {dataVolumeTemplates: [{metadata: {name: d, annotations: {cdi.kubevirt.io/storage.import.secretName: s, cdi.kubevirt.io/storage.bind.immediate.requested: 'true'}}}]}}": {`spec.dataVolumeTemplates[d].metadata.annotations["cdi.kubevirt.io/storage.import.secretName"]`},
		"{spec: {preference: {name: x, kind: virtualmachinepreferences}}}":                                                                               {"spec.preference.kind"},
		"{spec: {template: {spec: {domain: {firmware: {serial: 'ds=nocloud;s=http://example.com/'}}}}}}":                                                 {"spec.template.spec.domain.firmware.serial"},
		"{spec: {template: {spec: {domain: {firmware: {serial: {$cel: object.metadata.name}}}}}}}":                                                       {"spec.template.spec.domain.firmware.serial"},
		"{spec: {template: {spec: {domain: {resources: {requests: {memory: 1Gi, hugepages-2Mi: 2Mi}, limits: {example.com/gpu: 1}}}}}}}":                 {`spec.template.spec.domain.resources.limits["example.com/gpu"]`},
		"{spec: {template: {metadata: {annotations: {sidecar.istio.io/inject: 'false', sidecar.istio.io/proxyImage: x}}}}}":                              {`spec.template.metadata.annotations["sidecar.istio.io/proxyImage"]`},
		"{spec: {template: {metadata: {labels: {azure.workload.identity/use: 'true', app: x}}}}}":                                                        {`spec.template.metadata.labels["azure.workload.identity/use"]`},
		"{spec: {dataVolumeTemplates: [{metadata: {name: d, annotations: {k8s.v1.cni.cncf.io/networks: a/b, note: x}}, spec: {priorityClassName: p}}]}}": {"spec.dataVolumeTemplates[d].spec.priorityClassName", `spec.dataVolumeTemplates[d].metadata.annotations["k8s.v1.cni.cncf.io/networks"]`},
		"{spec: {dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {pvc: {namespace: shop, name: x}}}}]}}":                                      nil,
		"{spec: {dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {pvc: {namespace: other, name: x}}}}]}}":                                     {"spec.dataVolumeTemplates[d].spec.source.pvc.namespace"},
		"{spec: {dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {snapshot: {namespace: other, name: x}}}}]}}":                                {"spec.dataVolumeTemplates[d].spec.source.snapshot.namespace"},
		"{spec: {template: {spec: {domain: {devices: {gpus: [{name: g, deviceName: x}]}}}}}}": {
			"spec.template.spec.domain.devices.gpus[g].name", "spec.template.spec.domain.devices.gpus[g].deviceName",
		},
		"{spec: {template: {spec: {volumes: [{name: a, hostDisk: {path: /x, type: Disk}}]}}}}": {
			"spec.template.spec.volumes[a].hostDisk.path", "spec.template.spec.volumes[a].hostDisk.type",
		},
		"{spec: {template: {spec: {volumes: [{name: a, cloudInitNoCloud: {}}]}}}}":                    {"spec.template.spec.volumes[a].cloudInitNoCloud"},
		"{spec: {template: {spec: {volumes: [{name: a, cloudInitConfigDrive: {userData: x}}]}}}}":     {"spec.template.spec.volumes[a].cloudInitConfigDrive.userData"},
		"{spec: {template: {spec: {volumes: [{name: a, secret: {secretName: x}}]}}}}":                 {"spec.template.spec.volumes[a].secret.secretName"},
		"{spec: {template: {spec: {volumes: [{name: a, serviceAccount: {serviceAccountName: x}}]}}}}": {"spec.template.spec.volumes[a].serviceAccount.serviceAccountName"},
		"{spec: {template: {spec: {volumes: [{name: a, downwardMetrics: {}}]}}}}":                     {"spec.template.spec.volumes[a].downwardMetrics"},
		"{spec: {template: {spec: {volumes: [{name: a, sysprep: {secret: {name: x}}}]}}}}":            {"spec.template.spec.volumes[a].sysprep.secret.name"},
		"{spec: {template: {spec: {domain: {devices: {hostDevices: [{name: a, deviceName: d}]}}}}}}": {
			"spec.template.spec.domain.devices.hostDevices[a].name", "spec.template.spec.domain.devices.hostDevices[a].deviceName",
		},
		"{spec: {template: {spec: {domain: {devices: {downwardMetrics: {}}}}}}}":                                              {"spec.template.spec.domain.devices.downwardMetrics"},
		"{spec: {template: {spec: {domain: {firmware: {kernelBoot: {kernelArgs: x}}}}}}}":                                     {"spec.template.spec.domain.firmware.kernelBoot.kernelArgs"},
		"{spec: {template: {spec: {accessCredentials: [{sshPublicKey: {source: {secret: {secretName: x}}}}]}}}}":              {"spec.template.spec.accessCredentials"},
		"{spec: {template: {metadata: {annotations: {kubevirt.io/ignitiondata: x}}}}}":                                        {`spec.template.metadata.annotations["kubevirt.io/ignitiondata"]`},
		"{spec: {dataVolumeTemplates: [{metadata: {name: d}, spec: {source: {http: {url: u, secretRef: s}}}}]}}":              {"spec.dataVolumeTemplates[d].spec.source.http.secretRef"},
		"{spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: other/net}}}}}":                             {`spec.template.metadata.annotations["k8s.v1.cni.cncf.io/networks"]`},
		"{spec: {template: {metadata: {annotations: {v1.multus-cni.io/default-network: net}}}}}":                              {`spec.template.metadata.annotations["v1.multus-cni.io/default-network"]`},
		"{spec: {template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/compute: unconfined}}}}}": {`spec.template.metadata.annotations["container.apparmor.security.beta.kubernetes.io/compute"]`},
		"{spec: {template: {metadata: {annotations: {io.kubernetes.cri-o.Devices: /dev/sda}}}}}":                              {`spec.template.metadata.annotations["io.kubernetes.cri-o.Devices"]`},
		"{spec: {template: {metadata: {annotations: {k8s.v1.cni.cncf.iox: other/net}}}}}":                                     nil,
		"{spec: {template: {spec: {serviceAccountName: x}}}}":                                                                 {"spec.template.spec.serviceAccountName"},
		"{spec: {template: {spec: {volumes: [{name: a, containerPath: {path: /var/run/secrets}}]}}}}":                         {"spec.template.spec.volumes[a].containerPath.path"},
	} {
		for _, layer := range []string{"defaults", "overrides"} {
			for _, more := range []string{"", "applyAt: Launch\n", "mode: Audit\n"} {
				if more == "applyAt: Launch\n" && (strings.Contains(part, "dataVolumeTemplates") || strings.Contains(part, "instancetype") || strings.Contains(part, "preference")) {
					continue // which no instance has
				}
				got := presettest.Namespaced("shop", "p", more+layer+": "+part)
				found := presettest.Compile(t, got)[0].Sensitive()
				slices.Sort(found)
				slices.Sort(want)
				if !slices.Equal(found, want) {
					t.Errorf("%s: %s: got %q, want %q", layer, part, found, want)
				}
			}
		}
	}
}

func TestNetworksOfClusterPresets(t *testing.T) {
	for network, want := range map[string]int{"net": 0, "shop/net": 1} {
		preset := presettest.Cluster("p", "defaults: {spec: {template: {spec: {networks: [{name: a, multus: {networkName: "+network+"}}]}}}}")
		if got := presettest.Compile(t, preset)[0].Sensitive(); len(got) != want {
			t.Errorf("%s: got %q", network, got)
		}
	}
}
