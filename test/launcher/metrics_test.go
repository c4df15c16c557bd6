package launcher

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// metrics are the values of the pod's metrics by name and labels, as Prometheus scrapes them.
func (p *pod) metrics() (map[string]float64, string) {
	p.Helper()
	var conn net.Conn
	var err error
	p.inNetwork(func() { conn, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", v1alpha1.MetricsPort)) })
	must(p.T, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return conn, nil
	}}}
	answer, err := client.Get("http://pod/metrics")
	must(p.T, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(p.T, err)
	if answer.StatusCode != http.StatusOK {
		p.Fatalf("%s: %s", answer.Status, body)
	}
	out := map[string]float64{}
	for _, sample := range regexp.MustCompile(`(?m)^(\w+\{.*\}) (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		out[sample[1]], err = strconv.ParseFloat(sample[2], 64)
		must(p.T, err)
	}
	return out, string(body)
}

// The pod of a guest has KubeVirt's metrics: they grow while the guest works.
func TestMetrics(t *testing.T) {
	p := newSparse(t)
	p.input.VMI.Labels = map[string]string{"example.com/vm-size": "small"}
	p.start()
	link := exec.Command("nsenter", "--target", fmt.Sprint(p.first()), "--net", "sh", "-c",
		"ip link add eth0 type veth peer name other && ip link set other up && ip link set eth0 up && ip address add 10.1.0.1/24 dev eth0")
	if out, err := link.CombinedOutput(); err != nil {
		t.Fatalf("the pod has no network: %v: %s", err, out)
	}
	p.boots()
	const vmi = `kubernetes_vmi_label_example_com_vm_size="small",name="web",namespace="shop",node=""`
	before, text := p.metrics()
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("Prometheus' format is not kept: %v, %v\n%s", problems, err, text)
	}
	if got := before["kubevirt_vmi_memory_domain_bytes{"+vmi+"}"]; got != 128<<20 {
		t.Errorf("the domain has %v bytes of memory", got)
	}
	seconds := []string{`kubevirt_vmi_cpu_usage_seconds_total{` + vmi + `}`, `kubevirt_vmi_network_transmit_bytes_total{` + vmi + `,interface="default"}`}
	for _, id := range []string{"0", "1"} {
		seconds = append(seconds, `kubevirt_vmi_vcpu_seconds_total{`+vmi+`,id="`+id+`",state="running"}`)
	}
	p.word("ping", "pong")
	for _, name := range append(seconds, "kubevirt_vmi_memory_resident_bytes{"+vmi+"}",
		`kubevirt_vmi_storage_read_traffic_bytes_total{`+vmi+`,drive="root"}`, `kubevirt_vmi_storage_iops_read_total{`+vmi+`,drive="seed"}`) {
		p.eventually(name, func() error {
			if after, text := p.metrics(); after[name] <= 0 {
				return fmt.Errorf("it is %v of\n%s", after[name], text)
			}
			return nil
		})
	}
	p.eventually("vCPUs are used", func() error {
		if after, _ := p.metrics(); after[seconds[0]] <= before[seconds[0]] || after[seconds[2]] <= before[seconds[2]] {
			return fmt.Errorf("before %v, after %v", before, after)
		}
		return nil
	})
	p.eventually("the guest reports its memory", func() error {
		if after, text := p.metrics(); after["kubevirt_vmi_memory_available_bytes{"+vmi+"}"] <= after["kubevirt_vmi_memory_usable_bytes{"+vmi+"}"] {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	p.terminate()
	p.ends(0, v1alpha1.GuestStopped, "")
}

// A guest that serves the port itself has it.
func TestMetricsPortOfGuest(t *testing.T) {
	p := newPod(t, strings.Replace(sparse, "port: 80}", fmt.Sprintf("port: %d}", v1alpha1.MetricsPort), 1))
	p.write("virtwright/cloud-init/seed/user/userdata", cloudConfig)
	p.start()
	p.boots()
	if messages, err := os.ReadFile(p.path("stderr")); err != nil || !strings.Contains(string(messages), "the guest has no metrics") {
		t.Errorf("the launcher does not say so: %q, %v", messages, err)
	}
	p.terminate()
	p.ends(0, v1alpha1.GuestStopped, "")
}
