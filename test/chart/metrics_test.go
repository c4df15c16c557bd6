package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// read is a file of the project.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// found are the distinct matches of a pattern's only group.
func found(text, pattern string) []string {
	var out []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, match[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// own are the metrics that the code has.
func own(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, folder := range []string{"webhooks", "certs", "lifecycle", "templates", "subresources", "presets", "validation", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			out = append(out, found(string(content), `(?:Name:\s+|NewDesc\(|Metric\s+= )"(virtwright_\w+)"`)...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ofGuests are KubeVirt's metrics that the manager and launchers have.
func ofGuests(t *testing.T) []string {
	t.Helper()
	out := []string{"kubevirt_vmi_info"}
	for _, name := range found(read(t, "launcher/metrics.go"), `(?m)^\t\{"(\w+)", "[a-z_.*]+", `) {
		out = append(out, "kubevirt_vmi_"+name)
	}
	if len(out) < 30 {
		t.Fatalf("found only %v in the code", out)
	}
	return out
}

// The documentation names KubeVirt's metrics and recording rules. Rules use metrics that exist, or
// each other.
func TestGuestMetrics(t *testing.T) {
	docs, metrics := read(t, "docs/metrics.md"), ofGuests(t)
	rules := read(t, "charts/virtwright/files/kubevirt-rules.yaml")
	names := slices.Concat(metrics, found(rules, `(?m)^- record: (\S+)`))
	for _, name := range names {
		if !strings.Contains(docs, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not name %s", name)
		}
	}
	for _, name := range metricsOf(t, found(rules, `(?m)^  expr: (.+)$`)) {
		if !slices.Contains(names, name) {
			t.Errorf("a rule uses %s, which nothing exports", name)
		}
	}
}

// Prometheus scrapes the port that pods of VMIs name, in mode standalone only. Kubernetes, not the
// pod, says whose metrics they are.
func TestPodMonitor(t *testing.T) {
	for mode, want := range map[string]int{"standalone": 1, "addon": 0} {
		objects, err := render(t, `mode="`+mode+`"`, `metrics.podMonitor.enabled=true`)
		if err != nil {
			t.Fatal(err)
		}
		monitors := (rendered{t, objects}).of("PodMonitor")
		if len(monitors) != want {
			t.Fatalf("mode %s: %d PodMonitors, want %d", mode, len(monitors), want)
		}
		for _, m := range monitors {
			label, _, _ := unstructured.NestedString(m.Object, "spec", "selector", "matchLabels", v1alpha1.LabelPod)
			endpoints, _, _ := unstructured.NestedSlice(m.Object, "spec", "podMetricsEndpoints")
			endpoint := endpoints[0].(map[string]any)
			if label != v1alpha1.LabelPodValue || endpoint["port"] != v1alpha1.MetricsPortName || endpoint["honorLabels"] != nil {
				t.Errorf("it scrapes %v of pods %q", endpoint, label)
			}
		}
	}
}

// Code, documentation, alerts and dashboard know the same metrics.
func TestMetricsAreComplete(t *testing.T) {
	docs, alerts, dashboard := read(t, "docs/metrics.md"), read(t, "charts/virtwright/files/alerts.yaml"), read(t, "charts/virtwright/files/dashboard.json")
	metrics := own(t)
	if len(metrics) < 7 {
		t.Fatalf("found only %v in the code", metrics)
	}
	if documented := found(docs, "(?m)^\\| `(virtwright_\\w+)`"); !slices.Equal(documented, metrics) {
		t.Errorf("documented are %v, the code has %v", documented, metrics)
	}
	for name, text := range map[string]string{"alerts": alerts, "dashboard": dashboard} {
		for _, used := range found(text, `(virtwright_\w+)\{`) {
			if !slices.Contains(metrics, strings.TrimSuffix(used, "_bucket")) {
				t.Errorf("%s use %s, which the code does not have", name, used)
			}
		}
	}
	for _, metric := range metrics {
		if !strings.Contains(dashboard, metric) {
			t.Errorf("the dashboard does not show %s", metric)
		}
	}
	if named, told := found(alerts, `(?m)^- alert: (\w+)`), found(docs, "(?m)^\\| `(Virtwright\\w+)`"); !slices.Equal(named, told) {
		t.Errorf("alerts are %v, documented are %v", named, told)
	}
}
