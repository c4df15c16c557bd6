package webhooks

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtwright/virtwright/presets"
)

// Metrics of admission. A nil *Metrics measures nothing.
type Metrics struct {
	admissions *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	conflicts  prometheus.Counter
	overBudget *prometheus.CounterVec
	matches    *prometheus.CounterVec
	trials     *prometheus.CounterVec

	mu    sync.Mutex
	known sets.Set[string] // presets with a time series of their own
}

// maxPresets limits how many presets have a time series of their own: authors
// could fill the memory with presets that they create and delete.
const maxPresets = 10_000

// otherPresets is the label of all presets beyond maxPresets.
const otherPresets = "other"

// NewMetrics makes the metrics of admission and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_admissions_total",
			Help: "Admission requests answered, by kind of the object, operation and result: changed (patched), unchanged (allowed as sent), refused (the object is wrong or forbidden) or error (virtwright could not answer, and the request failed).",
		}, []string{"kind", "operation", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "virtwright_admission_duration_seconds",
			Help:    "Time from a decoded admission request to the response, in seconds, by kind of the object and operation. TLS, HTTP and the API server are not in it.",
			Buckets: []float64{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1, 2, 5},
		}, []string{"kind", "operation"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtwright_preset_conflicts_total",
			Help: "Fields that two presets of the same scope, layer and priority set to different values in an admitted object, so that only their names decided. Give one of them another priority.",
		}),
		overBudget: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_presets_over_budget_total",
			Help: "Presets that were not evaluated for a request because the conditions of all presets of their scope (cluster or namespace) cost too much together. Their events name them.",
		}, []string{"scope"}),
		matches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_preset_matches_total",
			Help: "Admission requests that a preset matched, by preset: cluster/NAME, or NAME with its namespace in preset_namespace. Presets beyond the first 10000 count as other.",
		}, []string{"preset", "preset_namespace"}),
		trials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtwright_preset_trials_total",
			Help: "Creations of VMs and VMIs that a preset in mode Warn or Audit would have changed (effect change) or refused (effect refuse), by preset: cluster/NAME, or NAME with its namespace in preset_namespace. Presets beyond the first 10000 count as other.",
		}, []string{"preset", "preset_namespace", "effect"}),
		known: sets.Set[string]{},
	}
	registry.MustRegister(m.admissions, m.duration, m.conflicts, m.overBudget, m.matches, m.trials)
	return m
}

func (m *Metrics) conflicted(n int) {
	if m != nil && n > 0 {
		m.conflicts.Add(float64(n))
	}
}

func (m *Metrics) matched(matched []*presets.Compiled) {
	if m == nil {
		return
	}
	for _, c := range matched {
		m.matches.WithLabelValues(m.labels(c)...).Inc()
	}
}

// tried counts what presets in mode Warn or Audit would have done.
func (m *Metrics) tried(would []presets.Would) {
	if m == nil {
		return
	}
	for _, w := range would {
		if w.Change {
			m.trials.WithLabelValues(append(m.labels(w.Preset), "change")...).Inc()
		}
		if w.Refuse {
			m.trials.WithLabelValues(append(m.labels(w.Preset), "refuse")...).Inc()
		}
	}
}

// labels name a preset, or all beyond maxPresets.
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

func (m *Metrics) skipped(overBudget []*presets.Compiled) {
	for _, c := range overBudget {
		scope := "namespace"
		if c.Cluster() {
			scope = "cluster"
		}
		if m != nil {
			m.overBudget.WithLabelValues(scope).Inc()
		}
	}
}

// measured counts and times what a handler answers. A panic counts as an error.
func (m *Metrics) measured(kind string, handler admission.Handler) admission.Handler {
	if m == nil {
		return handler
	}
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		start := time.Now()
		response := guarded(ctx, handler, req)
		op := operation(req.Operation)
		m.duration.WithLabelValues(kind, op).Observe(time.Since(start).Seconds())
		m.admissions.WithLabelValues(kind, op, outcome(response)).Inc()
		return response
	})
}

// operation is a label of bounded variety, whoever calls.
func operation(op admissionv1.Operation) string {
	switch op {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		return string(op)
	}
	return "other"
}

func outcome(r admission.Response) string {
	switch {
	case r.Allowed && len(r.Patches) > 0:
		return "changed"
	case r.Allowed:
		return "unchanged"
	case r.Result != nil && r.Result.Code < http.StatusInternalServerError:
		return "refused"
	}
	return "error"
}
