package main

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// TestRolloutStatus: the VMs that wait are counted until a rollout is complete.
func TestRolloutStatus(t *testing.T) {
	for reason, want := range map[string]string{
		"Updating": "1 of the updated VMs wait for a restart, or to be ready",
		"Complete": "1 of the updated VMs waited at the end for a restart by their owners (virtwright restart), or to be ready",
		"Invalid":  "Invalid - 1 - -",
		"Paused":   "virtwright has not acted on the last change",
	} {
		r := &v1alpha1.PresetRollout{}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Reason: reason}}
		r.Status.Waiting, r.Status.Selected = new(int64(1)), new(int64(1))
		var out bytes.Buffer
		if err := printRollout(streams{nil, &out, &out}, r, reason == "Paused"); err != nil || !strings.Contains(single(out.String()), want) {
			t.Errorf("%s: %v\n%s", reason, err, out.String())
		}
	}
}
