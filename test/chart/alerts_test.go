package chart

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// runbooks returns the address of the page whose sections say what to do about an alert, in the
// version of the chart.
func runbooks(t *testing.T) string {
	t.Helper()
	versions := found(read(t, "charts/virtwright/Chart.yaml"), `(?m)^appVersion: (\S+)$`)
	return "https://github.com/virtwright/virtwright/blob/v" + versions[0] + "/docs/runbooks.md"
}

// Each alert links to its own section of docs/runbooks.md.
func TestAlerts(t *testing.T) {
	for _, mode := range []string{"standalone", "addon"} {
		t.Run(mode, func(t *testing.T) {
			objects, err := render(t, `mode="`+mode+`"`, `metrics.prometheusRule.enabled=true`)
			if err != nil {
				t.Fatal(err)
			}
			alerts := alertsOf(t, rendered{t, objects})
			if len(alerts) < 10 {
				t.Fatalf("only %d alerts", len(alerts))
			}
			sections := sectionsOf(read(t, "docs/runbooks.md"))
			seconds := timeoutOf(rendered{t, objects})
			timeout := fmt.Sprintf(" %ds.", seconds)
			if text := fmt.Sprintf("after %d s", seconds); !strings.Contains(sections["virtwrightadmissionslow"], text) {
				t.Errorf("docs/runbooks.md must say that API servers reject a request %s", text)
			}
			for _, a := range alerts {
				page, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
				if text := sections[anchor]; page != runbooks(t) || anchor != strings.ToLower(a.Alert) || len(text) < 100 {
					t.Errorf("%s: runbook_url %q is no section of docs/runbooks.md", a.Alert, a.Annotations["runbook_url"])
				}
				if text := a.Annotations["description"]; a.Alert == "VirtwrightAdmissionSlow" && !strings.Contains(text, timeout) {
					t.Errorf("the webhooks' timeout is%s The alert says: %s", timeout, text)
				}
			}
		})
	}
}

// An alert is one rule of the rendered PrometheusRule.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

func alertsOf(t *testing.T, r rendered) []alert {
	t.Helper()
	var rule struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}
	raw, err := yaml.Marshal(r.of("PrometheusRule")[0].Object)
	if err == nil {
		err = yaml.Unmarshal(raw, &rule)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rule.Spec.Groups[0].Rules
}

// timeoutOf is the timeout of the webhooks, in seconds. All have the same, but those that only
// warn.
func timeoutOf(r rendered) int64 {
	r.Helper()
	var timeout int64
	for _, o := range append(r.of("MutatingWebhookConfiguration"), r.of("ValidatingWebhookConfiguration")...) {
		hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, h := range hooks {
			if policy, _, _ := unstructured.NestedString(h.(map[string]any), "failurePolicy"); policy == "Ignore" {
				continue // requests do not wait for long, and do not fail
			}
			seconds, _, _ := unstructured.NestedFieldNoCopy(h.(map[string]any), "timeoutSeconds")
			now := int64(seconds.(float64))
			if timeout != 0 && now != timeout {
				r.Errorf("timeouts differ: %ds and %ds", timeout, now)
			}
			timeout = now
		}
	}
	return timeout
}

// sectionsOf are the texts under a page's headings, by their anchors on GitHub.
func sectionsOf(page string) map[string]string {
	out, anchor := map[string]string{}, ""
	isCode := false // where # begins a comment
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			isCode = !isCode
		}
		if heading := regexp.MustCompile(`^#+ (.+)\n$`).FindStringSubmatch(line); heading != nil && !isCode {
			anchor = regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
			anchor = strings.ReplaceAll(anchor, " ", "-")
			continue
		}
		out[anchor] += line
	}
	return out
}
