package presetrollout

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// scrapeTimeout limits how long a scrape waits for the sync of the cache.
const scrapeTimeout = time.Second

var (
	stateMetric = prometheus.NewDesc("virtwright_preset_rollout_state",
		"The current state of a PresetRollout; always 1.", []string{"rollout", "state"}, nil)
	vmsMetric = prometheus.NewDesc("virtwright_preset_rollout_virtual_machines",
		"VirtualMachines in the steps that a PresetRollout has reached, by state.", []string{"rollout", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Controller) Describe(out chan<- *prometheus.Desc) {
	out <- stateMetric
	out <- vmsMetric
}

// countsOf reads what report wrote.
func countsOf(s *v1alpha1.PresetRolloutStatus) counts {
	return counts{selected: ptr.Deref(s.Selected, 0), updated: ptr.Deref(s.Updated, 0), waiting: ptr.Deref(s.Waiting, 0), held: ptr.Deref(s.Held, 0), failed: ptr.Deref(s.Failed, 0)}
}

// Collect reports what the status of each rollout says. Only the leader reports.
func (c *Controller) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var all v1alpha1.PresetRolloutList
	if !c.Lock.Leads() || c.Client.List(ctx, &all) != nil {
		return
	}
	for i := range all.Items {
		r := &all.Items[i]
		if progress := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionProgressing); progress != nil {
			out <- prometheus.MustNewConstMetric(stateMetric, prometheus.GaugeValue, 1, r.Name, progress.Reason)
		}
		if r.Status.Selected == nil { // not counted yet
			continue
		}
		of := countsOf(&r.Status)
		for state, n := range map[string]int64{"updated": of.updated - of.waiting, "waiting": of.waiting, "pending": of.pending(), "held": of.held, "failed": of.failed} {
			out <- prometheus.MustNewConstMetric(vmsMetric, prometheus.GaugeValue, float64(n), r.Name, state)
		}
	}
}
