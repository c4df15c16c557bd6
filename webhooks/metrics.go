package webhooks

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/presets"
)

// Metrics counts and times admission requests. A nil *Metrics does nothing.
type Metrics struct {
	admissions *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	conflicts  prometheus.Counter
	overBudget *prometheus.CounterVec
	matches    *prometheus.CounterVec
	trials     *prometheus.CounterVec

	mu    sync.Mutex
	known sets.Set[string] // presets with their own time series
}

// maxPresets limits the presets with their own time series, because authors could fill the memory
// by creating and deleting presets. All others share the label otherPresets.
const (
	maxPresets   = 10_000
	otherPresets = "other"
)

// NewMetrics creates the metrics of admission and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_admissions_total",
			Help: "Admission requests answered, by kind of the object, operation and result: changed (patched), unchanged (allowed as sent), rejected (the object is invalid or forbidden) or error (virtwright could not answer, so the request failed).",
		}, []string{"kind", "operation", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "virtwright_admission_duration_seconds",
			Help:    "Time from a decoded admission request to the response, in seconds, by kind of the object and operation. Without TLS, HTTP and the API server.",
			Buckets: []float64{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1, 2, 5},
		}, []string{"kind", "operation"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtwright_preset_conflicts_total",
			Help: "Fields that two presets of the same scope, layer and priority set to different values in an admitted object, so that the name decided. Give one of them another priority.",
		}),
		overBudget: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_presets_over_budget_total",
			Help: "Presets that were not evaluated for a request because the conditions of all presets of their scope (cluster or namespace) together exceed the cost limit. Events name the presets.",
		}, []string{"scope"}),
		matches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_preset_matches_total",
			Help: "Admission requests that a preset matched, by preset: cluster/NAME, or NAME with its namespace in preset_namespace. Presets beyond the first 10000 count as other.",
		}, []string{"preset", "preset_namespace"}),
		trials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_preset_trials_total",
			Help: "Creations of VMs and VMIs that a preset in mode Warn or Audit would have changed (effect change) or rejected (effect reject), by preset: cluster/NAME, or NAME with its namespace in preset_namespace. Presets beyond the first 10000 count as other.",
		}, []string{"preset", "preset_namespace", "effect"}),
		known: sets.Set[string]{},
	}
	registry.MustRegister(m.admissions, m.duration, m.conflicts, m.overBudget, m.matches, m.trials)
	return m
}

// countResult counts conflicts, matches, and what presets in mode Warn or Audit would have done.
func (m *Metrics) countResult(result *presets.Result) {
	if m == nil {
		return
	}
	m.conflicts.Add(float64(len(result.Conflicts)))
	for _, c := range result.Matched {
		m.matches.WithLabelValues(m.labels(c)...).Inc()
	}
	for _, w := range result.Previews {
		if w.Changes {
			m.trials.WithLabelValues(append(m.labels(w.Preset), "change")...).Inc()
		}
		if w.Rejects {
			m.trials.WithLabelValues(append(m.labels(w.Preset), "reject")...).Inc()
		}
	}
}

// labels returns the labels of a preset, or those of all beyond maxPresets.
func (m *Metrics) labels(c *presets.Compiled) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := c.Namespace + "/" + c.Ref
	if len(m.known) < maxPresets {
		m.known.Insert(key)
	}
	if !m.known.Has(key) {
		return []string{otherPresets, ""}
	}
	return []string{c.Ref, c.Namespace}
}

func (m *Metrics) countSkipped(overBudget []*presets.Compiled) {
	if m == nil {
		return
	}
	for _, c := range overBudget {
		scope := "namespace"
		if c.Cluster() {
			scope = "cluster"
		}
		m.overBudget.WithLabelValues(scope).Inc()
	}
}

// measured counts and times the answers of a handler. A panic counts as an error.
func (m *Metrics) measured(kind string, handler handler) handler {
	if m == nil {
		return handler
	}
	return handlerFunc(func(ctx context.Context, req Request) Response {
		start := time.Now()
		response := handleSafely(ctx, handler, req)
		op := operation(req.Operation)
		m.duration.WithLabelValues(kind, op).Observe(time.Since(start).Seconds())
		m.admissions.WithLabelValues(kind, op, outcome(response)).Inc()
		return response
	})
}

// operation returns a label with a bounded number of values.
func operation(op admissionv1.Operation) string {
	switch op {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		return string(op)
	}
	return "other"
}

func outcome(r Response) string {
	switch {
	case r.Allowed && len(r.Patches) > 0:
		return "changed"
	case r.Allowed:
		return "unchanged"
	case r.Result != nil && r.Result.Code < http.StatusInternalServerError:
		return "rejected"
	}
	return "error"
}
