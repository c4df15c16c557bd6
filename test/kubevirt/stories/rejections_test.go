package stories

import (
	"fmt"
	"math"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// KubeVirt's controllers repeat a write that is rejected. Their users read why in conditions and
// events, and the back-off bounds the load.
var _ = DescribeTable("A rejected write of virt-controller names preset and field, and is not repeated without end",
	func(applyAt, kind, resource, condition, manifest string, objects int) {
		s := newStory()
		s.rejects("no such name")
		s.preset("small", small)
		s.clusterPreset("house", "{applyAt: "+applyAt+", forbid: [{path: spec.template.spec.hostname, message: no such name}]}")
		began, since := time.Now(), here.AuditSize()
		s.create(manifest)
		names := And(ContainSubstring("no such name"), ContainSubstring("spec.hostname"), ContainSubstring("cluster/"+s.ns+"-house"))
		Eventually(func() (string, error) {
			return s.field(resource, fmt.Sprintf(`{.status.conditions[?(@.type==%q)].message}`, condition))
		}).Should(names, "condition")
		events := func(path string) (string, error) {
			out, _, err := here.Kubectl(here.Context(), "", "get", "events", "-n", s.ns, "--field-selector=type=Warning,involvedObject.kind="+kind, "-o", "jsonpath={range .items[*]}"+path+"{end}")
			return out, err
		}
		Eventually(func() (string, error) { return events("{.message}\n") }).Should(names, "event")

		time.Sleep(5 * time.Second)
		rejected, err := here.RejectedWrites(since)
		Expect(err).NotTo(HaveOccurred())
		// A work queue waits for 5 ms, and then twice as long each time. What the controller writes
		// to report the error may queue the object once more.
		bound := objects * (int(math.Log2(time.Since(began).Seconds()/0.005)) + 3)
		count := 0
		for _, text := range rejected {
			if n := 0; strings.Contains(text, "no such name") {
				_, _ = fmt.Sscan(text, &n)
				count += n
			}
		}
		AddReportEntry(fmt.Sprintf("%d rejected writes, at most %d", count, bound))
		Expect(count).To(And(BeNumerically(">", 1), BeNumerically("<=", bound)))
		here.Must("", "delete", resource, "-n", s.ns)
	},
	Entry("of a VM", "Launch", "VirtualMachine", "virtualmachine/web", "Failure",
		"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, labels: {size: small}}, spec: {runStrategy: Always, template: {spec: {hostname: web, domain: {devices: {}}}}}}", 1),
	Entry("of a pool", "Definition", "VirtualMachinePool", "virtualmachinepool/farm", "ReplicaFailure", pool("", ", hostname: web"), 2),
	Entry("of a replica set", "Launch", "VirtualMachineInstanceReplicaSet", "virtualmachineinstancereplicaset/herd", "ReplicaFailure", replicaSet(", hostname: web"), 2),
)
