package virtualmachine

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets/tree"
)

// scrapeTimeout limits how long a scrape waits for the sync of the cache.
const scrapeTimeout = time.Second

// metrics reads the cache at each scrape. Only the leader reports, so that VMs are counted once.
type metrics struct {
	reader client.Reader
	leads  func() bool

	vms, start, info *prometheus.Desc
}

// RegisterMetrics registers the metrics of running state. The reader is a cache of VMs and VMIs.
func RegisterMetrics(registry prometheus.Registerer, reader client.Reader, leads func() bool) {
	registry.MustRegister(&metrics{
		reader: reader, leads: leads,
		vms: prometheus.NewDesc("virtwright_virtual_machines",
			"VirtualMachines by status.printableStatus.", []string{"status"}, nil),
		start: prometheus.NewDesc("virtwright_longest_start_seconds",
			"Age of the oldest VirtualMachineInstance that does not run yet; 0 if none is starting.", nil, nil),
		info: prometheus.NewDesc("kubevirt_vmi_info", "Information about VirtualMachineInstances.", infoLabels, nil),
	})
}

func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.vms
	out <- m.start
	out <- m.info
}

// Collect counts what the cache holds. It reports nothing if the cache cannot be read.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var vms partialobject.VirtualMachineList
	var vmis partialobject.VirtualMachineInstanceList
	if !m.leads() || m.reader.List(ctx, &vms, client.UnsafeDisableDeepCopy) != nil || m.reader.List(ctx, &vmis, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	for status, n := range byStatus(vms.Items) {
		out <- prometheus.MustNewConstMetric(m.vms, prometheus.GaugeValue, float64(n), status)
	}
	out <- prometheus.MustNewConstMetric(m.start, prometheus.GaugeValue, longestStart(vmis.Items, time.Now()).Seconds())
	for i := range vmis.Items {
		out <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, infoOf(&vmis.Items[i])...)
	}
}

// infoLabels are the labels of KubeVirt's metric kubevirt_vmi_info, except for those that need
// instancetypes or the guest's agent.
var infoLabels = []string{"node", "namespace", "name", "phase", "os", "workload", "flavor", "guest_os_machine", "evictable", "outdated", "vmi_pod"}

// maxLabel bounds what authors of VMs write into a label, in bytes.
const maxLabel = 64

// infoOf returns the values of infoLabels. As in KubeVirt, a VMI is not evictable if it can only be
// migrated, which never happens here.
func infoOf(vmi *partialobject.VirtualMachineInstance) []string {
	machine, pod := "", ""
	if vmi.Status.Machine != nil {
		machine = vmi.Status.Machine.Type
	}
	if len(vmi.Status.ActivePods) > 0 {
		pod = podspec.Name(vmi.Name)
	}
	evictable := ptr.Deref(vmi.Spec.EvictionStrategy, "") != kubevirtv1.EvictionStrategyLiveMigrate
	out := []string{vmi.Status.NodeName, vmi.Namespace, vmi.Name, strings.ToLower(string(vmi.Status.Phase))}
	for _, annotation := range partialobject.MetricAnnotations {
		out = append(out, tree.Truncate(vmi.Annotations[annotation], maxLabel))
	}
	return append(out, machine, strconv.FormatBool(evictable), "false", pod)
}

// byStatus counts VMs by printable status. A VM without one counts as Unknown.
func byStatus(vms []partialobject.VirtualMachine) map[string]int {
	out := map[string]int{}
	for i := range vms {
		out[string(cmp.Or(vms[i].Status.PrintableStatus, kubevirtv1.VirtualMachineStatusUnknown))]++
	}
	return out
}

func longestStart(vmis []partialobject.VirtualMachineInstance, now time.Time) time.Duration {
	var longest time.Duration
	for i := range vmis {
		switch vmis[i].Status.Phase {
		case kubevirtv1.VmPhaseUnset, kubevirtv1.Pending, kubevirtv1.Scheduling, kubevirtv1.Scheduled:
			if vmis[i].DeletionTimestamp == nil {
				longest = max(longest, now.Sub(vmis[i].CreationTimestamp.Time))
			}
		}
	}
	return longest
}
