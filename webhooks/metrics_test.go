package webhooks

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

func TestAdmissionsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	answers := map[string]Response{
		"changed":   {Patches: []jsonpatch.Operation{{}}, AdmissionResponse: allowed().AdmissionResponse},
		"unchanged": allowed(),
		"rejected":  malformed(errors.New("x")),
		"error":     unavailable(t.Context(), Request{}, errors.New("x")),
	}
	for _, answer := range answers {
		m.measured("VirtualMachine", handlerFunc(func(context.Context, Request) Response { return answer })).
			Handle(t.Context(), creates("VirtualMachine", "lab", smallVM))
	}
	want := "# HELP virtwright_admissions_total " + help(t, registry, "virtwright_admissions_total") + "\n# TYPE virtwright_admissions_total counter\n"
	for result := range answers {
		want += `virtwright_admissions_total{kind="VirtualMachine",operation="CREATE",result="` + result + "\"} 1\n"
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "virtwright_admissions_total"); err != nil {
		t.Error(err)
	}
	if got := testutil.CollectAndCount(m.duration); got != 1 {
		t.Errorf("want one histogram, got %d", got)
	}
}

func TestMatchesAreCounted(t *testing.T) {
	m := machines(t, presets.VirtualMachine)
	m.Metrics = NewMetrics(prometheus.NewRegistry())
	for range 2 {
		m.Handle(t.Context(), creates("VirtualMachine", "lab", smallVM))
	}
	if got := testutil.ToFloat64(m.Metrics.matches.WithLabelValues("cluster/small", "")); got != 2 {
		t.Errorf("cluster/small matched 2 requests, %v are counted", got)
	}
	before := testutil.CollectAndCount(m.Metrics.matches)
	for i := range maxPresets + 5 {
		m.Metrics.countResult(&presets.Result{Matched: []*presets.Compiled{{Ref: strconv.Itoa(i), Namespace: "lab"}}})
	}
	if got := testutil.CollectAndCount(m.Metrics.matches); got > maxPresets+1 || got <= before {
		t.Errorf("%d time series", got)
	}
	if got := testutil.ToFloat64(m.Metrics.matches.WithLabelValues(otherPresets, "")); got < 5 {
		t.Errorf("%v matches of other presets are counted", got)
	}
}

func TestTrialsAreCounted(t *testing.T) {
	m := machines(t, presets.VirtualMachine)
	m.Metrics = NewMetrics(prometheus.NewRegistry())
	m.Snapshots = fixed{presettest.Snapshot(t,
		presettest.Cluster("memory", `{mode: Audit, overrides: {spec: {template: {spec: {domain: {memory: {guest: 7Gi}}}}}}, forbid: [{path: spec.template.spec.hostname}]}`),
		presettest.Namespaced("lab", "memory", `{mode: Warn, forbid: [{path: spec.template.spec.hostname}]}`),
	)}
	for _, object := range []string{smallVM, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x}, spec: {template: {spec: {hostname: x}}}}`} {
		if resp := m.Handle(t.Context(), creates("VirtualMachine", "lab", object)); !resp.Allowed {
			t.Fatalf("got %+v", resp.Result)
		}
	}
	for labels, want := range map[[3]string]float64{
		{"cluster/memory", "", "change"}: 2, {"cluster/memory", "", "reject"}: 1, {"memory", "lab", "reject"}: 1, {"memory", "lab", "change"}: 0,
	} {
		if got := testutil.ToFloat64(m.Metrics.trials.WithLabelValues(labels[:]...)); got != want {
			t.Errorf("%v: want %v, got %v", labels, want, got)
		}
	}
}

func help(t *testing.T, registry *prometheus.Registry, name string) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetHelp()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return ""
}

func TestOutcomeOfRejections(t *testing.T) {
	req := creates("VirtualMachine", "lab", smallVM)
	rejection := unresolved(t.Context(), req, &presets.Rejection{Problems: field.ErrorList{field.Required(field.NewPath("spec"), "")}})
	if got := outcome(rejection); got != "rejected" || rejection.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("got %s", got)
	}
	if got := outcome(internalError(req)); got != "error" {
		t.Errorf("got %s", got)
	}
	if got := operation("CREATE\n"); got != "other" {
		t.Errorf("got %s", got)
	}
}
