package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// pod is one that KubeVirt has just created, with changes.
func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.UID, p.Labels = name, types.UID(name), map[string]string{kubevirtv1.AppLabel: launcherPod, "vm": "web"}
	p.Spec.NodeSelector = map[string]string{kubevirtv1.NodeSchedulable: "true", "machine-type.node.kubevirt.io/q35": "true"}
	p.Spec.Containers = []corev1.Container{{Name: "compute", Image: "example.org:5000/launcher:v1"}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// apart keeps a pod off the hosts of the other pods of its VM.
func apart(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"vm": "web"}},
	}}}}
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector[key] = value }
}

func unscheduled(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
}

func gated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}} }

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func TestDecidePod(t *testing.T) {
	now := metav1.Now()
	cordoned := nodeObject(first)
	cordoned.Spec.Unschedulable = true
	source := func(phase corev1.PodPhase) []corev1.Pod { return []corev1.Pod{*pod("source", on(first), in(phase))} }
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		others []corev1.Pod
		// node01 replaces the first node.
		node01 *corev1.Node
		want   podPlan
	}{
		"a new pod gets a node":              {pod: pod("a"), want: podPlan{bind: first}},
		"a cordoned node gets no pod":        {pod: pod("a"), node01: cordoned, want: podPlan{bind: second}},
		"a pod gets the host it selects":     {pod: pod("a", selects(corev1.LabelHostname, second)), want: podPlan{bind: second}},
		"a pod that fits no node waits":      {pod: pod("a", selects("zone", "b"), unscheduled), want: podPlan{wait: true}},
		"and says so first":                  {pod: pod("a", selects("zone", "b")), want: podPlan{status: unschedulable(pod("a"), now)}},
		"a migration has another host":       {pod: pod("b", apart), others: source(corev1.PodRunning), want: podPlan{bind: second}},
		"unless the source has ended":        {pod: pod("b", apart), others: source(corev1.PodSucceeded), want: podPlan{bind: first}},
		"a pod with a scheduling gate stays": {pod: pod("a", gated)},
		"a bound pod runs":                   {pod: pod("a", on(first)), want: podPlan{status: runs(pod("a"), now)}},
		"a running pod stays":                {pod: pod("a", on(first), in(corev1.PodRunning))},
		"a deleted pod is removed":           {pod: pod("a", on(first), in(corev1.PodRunning), deleted), want: podPlan{remove: true}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []corev1.Node{*nodeObject(first), *nodeObject(second)}
			if c.node01 != nil {
				nodes[0] = *c.node01
			}
			got, err := decidePod(podObservation{pod: c.pod, others: c.others, nodes: nodes, now: now})
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(podPlan{})); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestRunningPodCanMigrate(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := pod("a", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "disk", RestartPolicy: &always}}
	})
	status := runs(p, metav1.Now())
	if got, want := status.ContainerStatuses[0].ImageID, "example.org:5000/launcher@sha256:"; !strings.HasPrefix(got, want) {
		t.Errorf("the image is %s, want %s and a digest", got, want)
	}
	if status.InitContainerStatuses[0].State.Terminated == nil || status.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("want an init container that ended and a sidecar that runs: %+v", status.InitContainerStatuses)
	}
}
