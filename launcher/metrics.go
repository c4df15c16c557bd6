package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Limits of the server of metrics, because all clients that reach the pod can connect to it, and so
// can the guest.
const (
	mostScrapes   = 4                // connections at the same time
	scrapeTimeout = 10 * time.Second // of a request and its answer
	scrapePeriod  = time.Second      // the shortest time between two readings of libvirt
)

// A metric is one of KubeVirt's metrics of a VMI. It is a counter if its name ends in _total.
type metric struct {
	name string // without kubevirt_vmi_
	// from is the name of a statistic in libvirt, or GROUP.*.NAME for one of each vCPU, disk or
	// interface.
	from  string
	scale float64
	help  string
}

const kibi, nano = 1 << 10, 1e-9

var vmiMetrics = []metric{
	{"cpu_usage_seconds_total", "cpu.time", nano, "CPU time of the guest and of QEMU."},
	{"cpu_user_usage_seconds_total", "cpu.user", nano, "CPU time in user mode."},
	{"cpu_system_usage_seconds_total", "cpu.system", nano, "CPU time in system mode."},
	{"vcpu_seconds_total", "vcpu.*.time", nano, "CPU time of a vCPU."},
	{"vcpu_wait_seconds_total", "vcpu.*.wait", nano, "Time that a vCPU waited for I/O."},
	{"vcpu_delay_seconds_total", "vcpu.*.delay", nano, "Time that a vCPU was ready to run but waited for a CPU."},
	{"memory_domain_bytes", "balloon.maximum", kibi, "Memory of the domain."},
	{"memory_actual_balloon_bytes", "balloon.current", kibi, "Memory that the balloon leaves to the guest."},
	{"memory_resident_bytes", "balloon.rss", kibi, "Resident memory of QEMU."},
	{"memory_available_bytes", "balloon.available", kibi, "Memory that the guest sees."},
	{"memory_unused_bytes", "balloon.unused", kibi, "Memory that the guest does not use at all."},
	{"memory_usable_bytes", "balloon.usable", kibi, "Memory that the guest can use without swapping."},
	{"memory_cached_bytes", "balloon.disk_caches", kibi, "Memory of the guest's disk caches."},
	{"memory_swap_in_traffic_bytes", "balloon.swap_in", kibi, "Memory that the guest has read from its swap space."},
	{"memory_swap_out_traffic_bytes", "balloon.swap_out", kibi, "Memory that the guest has written to its swap space."},
	{"memory_pgmajfault_total", "balloon.major_fault", 1, "Page faults of the guest that needed I/O."},
	{"memory_pgminfault_total", "balloon.minor_fault", 1, "Page faults of the guest that needed no I/O."},
	{"storage_iops_read_total", "block.*.rd.reqs", 1, "Read operations."},
	{"storage_iops_write_total", "block.*.wr.reqs", 1, "Write operations."},
	{"storage_read_traffic_bytes_total", "block.*.rd.bytes", 1, "Bytes read."},
	{"storage_write_traffic_bytes_total", "block.*.wr.bytes", 1, "Bytes written."},
	{"storage_read_times_seconds_total", "block.*.rd.times", nano, "Time of read operations."},
	{"storage_write_times_seconds_total", "block.*.wr.times", nano, "Time of write operations."},
	{"storage_flush_requests_total", "block.*.fl.reqs", 1, "Flushes of caches."},
	{"storage_flush_times_seconds_total", "block.*.fl.times", nano, "Time of flushes."},
	{"network_receive_bytes_total", "net.*.rx.bytes", 1, "Bytes that the pod received for the guest."},
	{"network_receive_packets_total", "net.*.rx.pkts", 1, "Packets that the pod received for the guest."},
	{"network_receive_errors_total", "net.*.rx.errs", 1, "Packets that the pod received with errors."},
	{"network_receive_packets_dropped_total", "net.*.rx.drop", 1, "Received packets that the pod dropped."},
	{"network_transmit_bytes_total", "net.*.tx.bytes", 1, "Bytes that the pod sent for the guest."},
	{"network_transmit_packets_total", "net.*.tx.pkts", 1, "Packets that the pod sent for the guest."},
	{"network_transmit_errors_total", "net.*.tx.errs", 1, "Packets that the pod could not send."},
	{"network_transmit_packets_dropped_total", "net.*.tx.drop", 1, "Packets to send that the pod dropped."},
}

// serveMetrics serves metrics in Prometheus' text format until the launcher ends. The guest's ports
// have precedence.
func (g *guest) serveMetrics() error {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(v1alpha1.MetricsPort)))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var last string
	var read time.Time
	current := func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) >= scrapePeriod {
			stats, err := g.stats()
			if err != nil {
				return "", err
			}
			last, read = exposition(stats, g.identity()), time.Now()
		}
		return last, nil
	}
	handler := http.NewServeMux()
	handler.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		text, err := current()
		if err != nil {
			http.Error(w, "cannot read the statistics of the guest", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, text)
	})
	server := &http.Server{Handler: handler, ReadTimeout: scrapeTimeout, WriteTimeout: scrapeTimeout, IdleTimeout: scrapeTimeout, MaxHeaderBytes: 4 << 10}
	go func() { _ = server.Serve(netutil.LimitListener(listener, mostScrapes)) }() // until the process ends
	return nil
}

// stats returns the statistics of the domain and of its network, with the names of disks and
// interfaces in the VMI.
func (g *guest) stats() (map[string]any, error) {
	ctx, c := context.Background(), g.connection.Load() // a scrape that ends must not close the connection
	stats, err := c.Stats(ctx, g.domain)
	d, unread := c.XML(ctx, g.domain)
	counters, unknown := os.ReadFile("/proc/self/net/dev")
	if err := errors.Join(err, unread, unknown); err != nil {
		return nil, err
	}
	names := map[any]string{} // of disks, by target
	for i := range d.Devices.Disks {
		if disk := &d.Devices.Disks[i]; disk.Target != nil && disk.Alias != nil {
			names[disk.Target.Dev] = strings.TrimPrefix(disk.Alias.Name, "ua-")
		}
	}
	for at := range elements(stats, "block") {
		if name := names[stats[at+"name"]]; name != "" {
			stats[at+"name"] = name
		}
	}
	stats["vcpu.count"] = stats["vcpu.maximum"]
	if nic := userNetworkOf(g.input.VMI); nic != "" {
		stats["net.count"], stats["net.0.name"] = 1.0, strings.TrimPrefix(nic, "hostua-")
		maps.Copy(stats, networkStats(string(counters)))
	}
	return stats, nil
}

// networkStats sums the counters of the pod's interfaces in Linux' /proc/net/dev. QEMU's user
// network has none of its own, and all its traffic passes through them.
func networkStats(dev string) map[string]any {
	fields := []string{"rx.bytes", "rx.pkts", "rx.errs", "rx.drop", "", "", "", "", "tx.bytes", "tx.pkts", "tx.errs", "tx.drop"}
	out := map[string]any{}
	for line := range strings.Lines(dev) {
		name, counters, is := strings.Cut(line, ":")
		if !is || strings.TrimSpace(name) == "lo" {
			continue
		}
		for i, text := range strings.Fields(counters) {
			if n, err := strconv.ParseFloat(text, 64); err == nil && i < len(fields) && fields[i] != "" {
				sum, _ := out["net.0."+fields[i]].(float64)
				out["net.0."+fields[i]] = sum + n
			}
		}
	}
	return out
}

// identity returns the labels of all metrics, in the text format. Labels of the VMI are those that
// it had when its pod was created.
func (g *guest) identity() string {
	vmi, clean := g.input.VMI, strings.NewReplacer(".", "_", "/", "_", "-", "_")
	labels := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(vmi.Labels)) { // two may have one name
		labels["kubernetes_vmi_label_"+clean.Replace(key)] = vmi.Labels[key]
	}
	labels["namespace"], labels["name"], labels["node"] = vmi.Namespace, vmi.Name, os.Getenv(v1alpha1.EnvNode)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, fmt.Sprintf("%s=%q", key, labels[key]))
	}
	return strings.Join(out, ",")
}

// exposition writes statistics as metrics in Prometheus' text format.
func exposition(stats map[string]any, identity string) string {
	var out strings.Builder
	for _, m := range vmiMetrics {
		group, field, isList := strings.Cut(m.from, ".*.")
		samples := map[string]string{m.from: ""} // labels by statistic
		if isList {
			samples = map[string]string{}
			for at, index := range elements(stats, group) {
				samples[at+field] = elementLabels(stats, group, field, at, index)
			}
		}
		kind := "gauge"
		if strings.HasSuffix(m.name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(&out, "# HELP kubevirt_vmi_%[1]s %[2]s\n# TYPE kubevirt_vmi_%[1]s %[3]s\n", m.name, m.help, kind)
		for _, from := range slices.Sorted(maps.Keys(samples)) {
			if value, is := stats[from].(float64); is {
				fmt.Fprintf(&out, "kubevirt_vmi_%s{%s%s} %v\n", m.name, identity, samples[from], value*m.scale)
			}
		}
	}
	return out.String()
}

// elements yields the prefix and the index of each vCPU, disk or interface.
func elements(stats map[string]any, group string) func(func(string, int) bool) {
	count, _ := stats[group+".count"].(float64)
	return func(yield func(string, int) bool) {
		for i := range int(count) {
			if !yield(fmt.Sprintf("%s.%d.", group, i), i) {
				return
			}
		}
	}
}

// vcpuStates are KubeVirt's names of libvirt's states of vCPUs.
var vcpuStates = map[any]string{0.0: "offline", 1.0: "running", 2.0: "blocked"}

// elementLabels returns the labels that only one element has.
func elementLabels(stats map[string]any, group, field, at string, index int) string {
	switch {
	case group == "vcpu" && field == "time":
		return fmt.Sprintf(`,id="%d",state=%q`, index, cmp.Or(vcpuStates[stats[at+"state"]], "unknown"))
	case group == "vcpu":
		return fmt.Sprintf(`,id="%d"`, index)
	case group == "block":
		return fmt.Sprintf(",drive=%q", stats[at+"name"])
	}
	return fmt.Sprintf(",interface=%q", stats[at+"name"])
}
