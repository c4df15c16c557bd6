package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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
