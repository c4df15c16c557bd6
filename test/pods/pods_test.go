package pods

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/virtwright/virtwright/test/cases"
)

// base is a VMI that all cases change.
const base = `
domain: {cpu: {cores: 1}, memory: {guest: 128Mi}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}
volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]
`

// additions are fields that a pod takes from its VMI. Generated cases change their values.
const additions = `
- {readinessProbe: {exec: {command: [x]}, periodSeconds: 3, timeoutSeconds: 1}}
- {readinessProbe: {guestAgentPing: {}, periodSeconds: 3, failureThreshold: 3}}
- {readinessProbe: {tcpSocket: {port: 80, host: example.org}, initialDelaySeconds: 1, successThreshold: 1}}
- {livenessProbe: {tcpSocket: {port: http}, timeoutSeconds: 1}}
- {livenessProbe: {httpGet: {port: 80, scheme: HTTP, path: /x, host: example.org, httpHeaders: [{name: a, value: x}]}, failureThreshold: 2}}
- {subdomain: sub, hostname: host}
- {terminationGracePeriodSeconds: 30, priorityClassName: high, schedulerName: other}
- {dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1], searches: [example.org], options: [{name: ndots, value: "1"}]}}
- {nodeSelector: {zone: a, "example.com/pool": b}}
- {tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 3}]}
- {topologySpreadConstraints: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1, minDomains: 1, nodeTaintsPolicy: Honor, nodeAffinityPolicy: Ignore, matchLabelKeys: [a], labelSelector: {matchExpressions: [{key: a, operator: In, values: [x]}]}}]}
- {topologySpreadConstraints: [{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: 2, minDomains: 2, labelSelector: {matchLabels: {a: b}}}]}
- {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}], matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}}
- {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: Gt, values: ["1"]}]}}]}}}
- {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaces: [a], labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [x], mismatchLabelKeys: [y]}]}}}
- {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, podAffinityTerm: {topologyKey: zone, namespaceSelector: {matchLabels: {a: b}}, labelSelector: {matchExpressions: [{key: a, operator: Exists}]}}}]}}}
- {domain: {resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1", memory: 256Mi}}}}
- {domain: {resources: {requests: {example.com/gpu: "1"}, limits: {example.com/gpu: "1"}}}}
- {domain: {resources: {requests: {hugepages-2Mi: 64Mi}}}}
- {domain: {memory: {hugepages: {pageSize: 2Mi}}}}
- {domain: {devices: {gpus: [{name: g, deviceName: example.com/gpu}]}}}
- {domain: {devices: {hostDevices: [{name: g, deviceName: example.com/device}]}}}
- {domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 2}}}
- {domain: {cpu: {dedicatedCpuPlacement: true}}}
- {domain: {devices: {interfaces: [{name: default, masquerade: {}, ports: [{name: web, port: 80, protocol: TCP}]}]}}, networks: [{name: default, pod: {}}]}
- {domain: {firmware: {kernelBoot: {kernelArgs: x, container: {image: "example.org/kernel:1", imagePullPolicy: Always, imagePullSecret: pull, kernelPath: /k, initrdPath: /i}}}}}
- {accessCredentials: [{sshPublicKey: {source: {secret: {secretName: keys}}, propagationMethod: {qemuGuestAgent: {users: [a]}}}}]}
`

// sources are volumes beside the root.
const sources = `
- {containerDisk: {image: "example.org/disk:1", imagePullPolicy: Always, imagePullSecret: pull, path: /disk/x}}
- {persistentVolumeClaim: {claimName: claim, readOnly: true}}
- {dataVolume: {name: claim}}
- {ephemeral: {persistentVolumeClaim: {claimName: claim}}}
- {emptyDisk: {capacity: 1Gi}}
- {hostDisk: {path: /a/x.img, type: DiskOrCreate, capacity: 1Gi}}
- {configMap: {name: config, optional: true, volumeLabel: x}}
- {secret: {secretName: secret, optional: true}}
- {downwardAPI: {fields: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
- {downwardAPI: {fields: [{path: a/b, fieldRef: {fieldPath: "metadata.annotations['a']", apiVersion: v1}, mode: 256}]}}
- {serviceAccount: {serviceAccountName: default}}
- {cloudInitNoCloud: {secretRef: {name: user}, networkDataSecretRef: {name: net}}}
- {sysprep: {secret: {name: answers}}}
`

// odd are values that fields of Kubernetes reject here or there.
var odd = []any{
	"", "a b", "Bad_Name", "UPPER image", "../x", "/abs", "a.b", "-a", "0", "Foo", "example.com/a", "nogroup", strings.Repeat("x", 70), strings.Repeat("x", 300),
	"500m", "1Gi", "-1", int64(-3), int64(0), int64(1), int64(3), int64(99999), int64(3000000000), true, false,
}

// A vmi is a generated VMI with what both sides say about it.
type vmi struct {
	object map[string]any
	// change is the generated part.
	change string
	rules  []string
	// built says that there is a pod, and pod why it is rejected.
	built bool
	pod   error
}

// aboutPods are rules that repeat what API servers require of pods.
var aboutPods = []string{
	"cloud-init-secret-name", "device-resource-name", "downward-api-field", "pod-affinity-keys", "probe-http-header", "resource-limit-equal", "resource-name", "subdomain-label", "topology-spread-selector",
}

// isNotAboutPods reports whether a problem is of a rule with other reasons. A secret's name that no
// secret can have is such a reason, too.
func isNotAboutPods(problem string) bool {
	return strings.Contains(problem, "secretRef") || strings.Contains(problem, "SecretRef") ||
		!slices.ContainsFunc(aboutPods, func(id string) bool { return strings.HasSuffix(problem, "("+id+")") })
}

// TestPods: in a dry run, an API server admits the pod of each VMI that the rules admit, and
// rejects the pods that rules about pods reject. The cases are the fixtures of all rules, and VMIs
// with odd values in fields that a pod takes.
func TestPods(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cluster := newCluster(t)
	all := slices.Concat(fixtures(t), generated(t, cases.Of(5000)))
	var group errgroup.Group
	group.SetLimit(4)
	for i := range all {
		group.Go(func() error { cluster.judge(t, &all[i]); return nil })
	}
	_ = group.Wait() // judge reports errors
	var missed, rejected int
	for i := range all {
		switch v := &all[i]; {
		case v.pod == nil && v.built && len(v.rules) > 0 && !slices.ContainsFunc(v.rules, isNotAboutPods):
			t.Errorf("the pod of %s is admitted, and rules reject it: %s", v.change, v.rules)
		case v.pod != nil && len(v.rules) == 0:
			if missed++; missed <= 40 {
				t.Errorf("no rule rejects %s, and the pod is rejected: %v", v.change, v.pod)
			}
		case v.pod != nil:
			rejected++
		}
	}
	t.Logf("%d VMIs; the API server rejects the pods of %d, and no rule rejects %d of them", len(all), rejected+missed, missed)
}
