package chart

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// columns is how wide a dashboard of Grafana is.
const columns = 24

// A dashboard has the fields of Grafana's dashboard JSON, version 39, that ours uses.
type dashboard struct {
	Title, UID, Timezone, Refresh string
	Tags                          []string
	SchemaVersion, GraphTooltip   int
	Editable                      bool
	Time                          struct{ From, To string }
	Templating                    struct {
		List []struct {
			Name, Type, Query, Label string
			Datasource               struct{ Type, UID string }
			Refresh                  int
			IncludeAll               bool
		}
	}
	Links []struct {
		link

		Icon, Tooltip                     string
		Tags                              []string
		AsDropdown, IncludeVars, KeepTime bool
	}
	Panels []panel
}

type link struct {
	Title, URL, Type string
	TargetBlank      bool
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               *struct{ Type, UID string }
	Links                    []link
	FieldConfig              struct {
		Defaults struct {
			Unit, NoValue string
			Min           *float64
			Decimals      *int
			Color         map[string]string
			Mappings      []json.RawMessage
			Custom        json.RawMessage
			Thresholds    thresholds
		}
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value map[string]string
			}
		}
	}
	Options   json.RawMessage
	Targets   []target
	Collapsed bool
	Panels    []panel
}

type thresholds struct {
	Mode  string
	Steps []struct {
		Color string
		Value *float64
	}
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                struct{ Type, UID string }
}

// theDashboard is the one that the chart renders.
func theDashboard(t *testing.T) dashboard {
	t.Helper()
	objects, err := render(t, `metrics.dashboard.enabled=true`)
	if err != nil {
		t.Fatal(err)
	}
	var out dashboard
	for _, o := range (rendered{t, objects}).of("ConfigMap") {
		if text, found, _ := unstructured.NestedString(o.Object, "data", "virtwright.json"); found {
			strict := json.NewDecoder(strings.NewReader(text))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&out); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// The dashboard begins with six figures, each with thresholds. Its panels lie side by side, and
// their links lead to sections of docs/runbooks.md.
func TestDashboard(t *testing.T) {
	d := theDashboard(t)
	if file := read(t, "charts/virtwright/files/dashboard.json"); strings.Contains(file, "@") {
		t.Error("Grafana cannot import the file: it has placeholders of the chart")
	}
	sections := sectionsOf(read(t, "docs/runbooks.md"))
	cells, ids := map[[2]int]string{}, map[int]string{}
	var figures []string
	for _, p := range d.Panels {
		if other := ids[p.ID]; other != "" || p.ID == 0 {
			t.Errorf("%s has the ID of %s", p.Title, other)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= columns {
					t.Fatalf("%s lies on %q, or outside", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, l := range append(p.Links, d.Links[0].link) {
			if page, anchor, _ := strings.Cut(l.URL, "#"); page != runbooks(t) || sections[anchor] == "" {
				t.Errorf("%s: link %s leads to no section", p.Title, l.URL)
			}
		}
		if p.Type == "stat" {
			figures = append(figures, p.Title)
			if p.GridPos.Y != 0 || len(p.FieldConfig.Defaults.Thresholds.Steps) == 0 {
				t.Errorf("%s has no thresholds, or is not in the first row", p.Title)
			}
		}
	}
	if want := []string{"Admission requests", "p99", "Rejected", "Errors", "Presets invalid", "Certificate"}; !slices.Equal(figures, want) {
		t.Errorf("the first row has %q, want %q", figures, want)
	}
}

// Alerts and dashboard use metrics that the manager exports, in expressions that Prometheus reads.
func TestExpressions(t *testing.T) {
	var expressions []string
	for _, p := range theDashboard(t).Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	objects, err := render(t, `metrics.prometheusRule.enabled=true`)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alertsOf(t, rendered{t, objects}) {
		expressions = append(expressions, a.Expr)
	}
	exported := append(slices.Concat(own(t), ofGuests(t)), "up", // Prometheus' own
		"controller_runtime_reconcile_total", "workqueue_depth", "process_resident_memory_bytes", "process_cpu_seconds_total")
	for _, name := range metricsOf(t, expressions) {
		if !slices.Contains(exported, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("the manager does not export %s", name)
		}
	}
}

// metricsOf are the names in expressions. Prometheus' parser is in a Go module of its own, because
// go mod tidy fails with it in the main one.
func metricsOf(t *testing.T, expressions []string) []string {
	t.Helper()
	var problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "run", "-C", "promql", ".")
	cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Join(expressions, "\n")), &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("expressions do not parse: %v\n%s", err, &problems)
	}
	return strings.Fields(string(out))
}
