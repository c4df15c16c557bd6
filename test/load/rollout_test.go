package load

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	// mostWrites of a VM in a rollout: its spec, and two of its status.
	mostWrites = 3
	// creates is the number of creates for a median.
	creates = 200
	// period is the field that the rollout changes.
	period = "terminationGracePeriodSeconds"
)

var rollouts = schema.GroupVersionResource{Group: "virtwright.dev", Version: "v1alpha1", Resource: "presetrollouts"}

// rollOut changes a preset that acts on all VMs, and brings the change to them in two waves. No VM
// is written more often than needed. The log compares creates while the first wave has the change
// with creates before and after the rollout, and the rollout with clients that update as many VMs.
func rollOut(t *testing.T, client dynamic.Interface) {
	t.Helper()
	vms := client.Resource(machines).Namespace("load")
	create := func(of schema.GroupVersionResource, o *unstructured.Unstructured) {
		if _, err := client.Resource(of).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(of schema.GroupVersionResource, patch string) *unstructured.Unstructured {
		out, err := client.Resource(of).Patch(t.Context(), "all", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	reaches := func(what string) {
		within(t, 10*time.Minute, "the rollout is "+what, func() bool {
			r, err := client.Resource(rollouts).Get(t.Context(), "all", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return reasonOf(r) == what
		})
	}
	create(clusterPresets, object(`{"apiVersion": "virtwright.dev/v1alpha1", "kind": "ClusterVirtualMachinePreset", "metadata": {"name": "all"},
		"spec": {"defaults": {"spec": {"template": {"spec": {%q: 60}}}}}}`, period))
	create(rollouts, object(`{"apiVersion": "virtwright.dev/v1alpha1", "kind": "PresetRollout", "metadata": {"name": "all"}, "spec": {"presets": ["cluster/all"],
		"waves": [{"name": "half", "vms": {"matchLabels": {"half": "h0"}}}, {"name": "rest", "approval": "Required"}]}}`))
	reaches("Complete")
	changing := time.Now()
	atOnce(t, creates, func(ctx context.Context, n int) error {
		_, err := vms.Patch(ctx, fmt.Sprintf("vm-%d", n), types.MergePatchType, []byte(`{"spec": {"template": {"spec": {"subdomain": "mine"}}}}`), metav1.PatchOptions{})
		return err
	})
	control := time.Since(changing) * time.Duration(manyVMs) / creates
	early := createTime(t, vms)

	writes := countWrites(t, vms)
	patch(clusterPresets, fmt.Sprintf(`{"spec": {"defaults": {"spec": {"template": {"spec": {%q: 90}}}}}}`, period))
	began := time.Now()
	busy := createTime(t, vms)
	reaches("WaitingForApproval")
	took := time.Since(began)
	during := createTime(t, vms)
	target, _, _ := unstructured.NestedString(patch(rollouts, `{}`).Object, "status", "target")
	patch(rollouts, fmt.Sprintf(`{"metadata": {"annotations": {"virtwright.dev/rollout-approved": %q}}}`, target+"/rest"))
	began = time.Now()
	reaches("Complete")
	took += time.Since(began)
	changed, most := writes()
	late := createTime(t, vms)

	checkPeriods(t, vms, 90)
	if changed != manyVMs || most > mostWrites {
		t.Errorf("the spec of %d VMs was written once, and a VM was written up to %d times: want %d, and up to %d times", changed, most, manyVMs, mostWrites)
	}
	t.Logf("a rollout over %d VMs: %v, %d clients: %v, ratio %.2f; at most %d writes of a VM; a create: before %v, while VMs are updated %v, while it waits %v, after %v, ratio %.2f and %.2f",
		manyVMs, took, writers, control, took.Seconds()/control.Seconds(), most, early, busy, during, late,
		2*busy.Seconds()/(early+late).Seconds(), 2*during.Seconds()/(early+late).Seconds())
}

// reasonOf returns the reason of the condition Progressing; empty if there is none yet.
func reasonOf(rollout *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(rollout.Object, "status", "conditions")
	i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "Progressing" })
	if i < 0 {
		return ""
	}
	return fmt.Sprint(conditions[i].(map[string]any)["reason"])
}

// checkPeriods checks the field that the rollout changes.
func checkPeriods(t *testing.T, vms dynamic.ResourceInterface, want int64) {
	t.Helper()
	all, err := vms.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if got, _, _ := unstructured.NestedInt64(all.Items[i].Object, "spec", "template", "spec", period); got != want {
			t.Fatalf("%s: %s is %d, want %d", all.Items[i].GetName(), period, got, want)
		}
	}
}

// createTime is the median time of a create that keeps nothing.
func createTime(t *testing.T, vms dynamic.ResourceInterface) time.Duration {
	t.Helper()
	var all []time.Duration
	for range creates {
		vm := vmOf(0)
		vm.SetName("another")
		began := time.Now()
		if _, err := vms.Create(t.Context(), vm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[creates/2]
}

// countWrites counts the writes of each VM from now on, until the function is called. It returns
// the number of VMs whose spec was written once, and the most writes of one.
func countWrites(t *testing.T, vms dynamic.ResourceInterface) func() (changed, most int) {
	t.Helper()
	before, err := vms.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := vms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	writes, generations := map[string]int{}, map[string]int64{}
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if vm, is := event.Object.(*unstructured.Unstructured); is && event.Type == watch.Modified {
				writes[vm.GetName()]++
				generations[vm.GetName()] = vm.GetGeneration()
			}
		}
		if !stopped.Load() {
			t.Error("the watch of VMs has ended early")
		}
	}()
	stop := func() {
		stopped.Store(true)
		events.Stop()
		<-done
	}
	t.Cleanup(stop)
	return func() (changed, most int) {
		time.Sleep(time.Second) // the status of the last VM
		stop()
		for i := range before.Items {
			vm := &before.Items[i]
			if generations[vm.GetName()] == vm.GetGeneration()+1 {
				changed++
			}
			most = max(most, writes[vm.GetName()])
		}
		return changed, most
	}
}
