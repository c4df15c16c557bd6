package main

// Files with hostile text, wherever it can be written. HOSTILE stands for it.
var hostileFiles = map[string]string{
	"WEB": `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: lab, labels: {app: web}, annotations: {note: "HOSTILE"}}
spec:
  runStrategy: Halted
  template:
    metadata: {annotations: {note: "HOSTILE"}}
    spec:
      domain: {memory: {guest: 1Gi}, devices: {disks: [{name: init, disk: {bus: virtio}}]}, firmware: {serial: "a\u202eb\u009bc"}, chassis: {asset: "a\u202eb\u009bc"}}
      volumes: [{name: init, cloudInitNoCloud: {userData: "#cloud-config\n# HOSTILE"}}]
`,
	"PRESETS": `
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: all, annotations: {note: "HOSTILE"}}
spec:
  match: {conditions: [{name: "HOSTILE", expression: "true"}]}
  defaults: {metadata: {annotations: {added: "HOSTILE"}}}
  forbid: [{path: "spec.template.spec.volumes[*].containerDisk", message: "HOSTILE"}]
---
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: warn, namespace: lab}
spec:
  mode: Warn
  overrides: {metadata: {annotations: {note: "HOSTILE2"}}}
  forbid: [{path: "spec.template.spec.domain.firmware", message: "HOSTILE"}]
---
apiVersion: virtwright.dev/v1alpha1
kind: PresetException
metadata: {name: once, namespace: lab}
spec: {presets: [warn], reason: "HOSTILE", until: "2030-01-01T00:00:00Z", vmSelector: {matchLabels: {app: none}}}
`,
	// Every command rejects these.
	"VMS": `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: "HOSTILE", namespace: lab, labels: {app: "HOSTILE", "HOSTILE": "HOSTILE"}, annotations: {"HOSTILE": "HOSTILE"}}
spec:
  "HOSTILE": "HOSTILE"
  runStrategy: "HOSTILE"
  template:
    metadata: {labels: {"HOSTILE": "HOSTILE"}, annotations: {"HOSTILE": "HOSTILE"}}
    spec:
      hostname: "HOSTILE"
      domain: {memory: {guest: 1Gi}, machine: {type: "HOSTILE"}, devices: {disks: [{name: "HOSTILE", disk: {bus: "HOSTILE"}}], interfaces: [{name: "HOSTILE", model: "HOSTILE"}]}}
      volumes: [{name: "HOSTILE", containerDisk: {image: "HOSTILE"}}]
`,
	"BROKEN": `
apiVersion: v1
kind: Namespace
metadata: {name: "HOSTILE", labels: {tier: "HOSTILE"}, annotations: {note: "HOSTILE"}}
---
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: "HOSTILE", namespace: "lab"}
spec:
  match: {conditions: [{name: "HOSTILE", expression: "'HOSTILE' == 'x' && no.such.HOSTILE"}]}
  defaults: {metadata: {annotations: {"HOSTILE": "HOSTILE"}}, spec: {"HOSTILE": "HOSTILE", template: {spec: {hostname: "HOSTILE", nodeSelector: {"HOSTILE": "HOSTILE"}}}}}
---
apiVersion: virtwright.dev/v1alpha1
kind: PresetException
metadata: {name: once, namespace: lab}
spec: {presets: ["HOSTILE", warn], reason: "HOSTILE", until: "2030-01-01T00:00:00Z", vmSelector: {matchLabels: {app: "HOSTILE"}}}
`,
	"SUITE": `
apiVersion: virtwright.dev/v1alpha1
kind: VirtwrightTest
metadata: {name: suite}
files: []
cases:
- {name: "HOSTILE", vm: {metadata: {name: web, annotations: {note: "HOSTILE"}}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}, expect: {vm: {metadata: {annotations: {note: other, "HOSTILE": "HOSTILE"}}}}}
- {name: "HOSTILE2", vm: {metadata: {name: web}, spec: {template: {spec: {hostname: "HOSTILE", domain: {memory: {guest: 1Gi}}}}}}, expect: {rejected: ["HOSTILE"]}}
`,
	"IMPORTS": `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: small, namespace: lab, annotations: {note: "HOSTILE"}}
spec: {cpu: {guest: 1, model: "HOSTILE"}, memory: {guest: 1Gi}, annotations: {note: "HOSTILE"}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: "HOSTILE", namespace: lab}
spec: {cpu: {guest: 1}, memory: {guest: 1Gi}, "HOSTILE": "HOSTILE"}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: lab, annotations: {note: "HOSTILE"}}
spec: {instancetype: {name: small, kind: VirtualMachineInstancetype}, runStrategy: Halted, template: {spec: {domain: {}}}}
`,
}
