package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// address is the IP of nodes and guests: one that leads nowhere.
const address = "192.0.2.1"

// podObservation is a pod and what decides about it.
type podObservation struct {
	pod *corev1.Pod
	// others are the pods of its namespace, and nodes those of the cluster.
	others []corev1.Pod
	nodes  []corev1.Node
	now    metav1.Time
}

// podPlan is the next step of a pod. At most one of its fields is set.
type podPlan struct {
	// bind is the node that the pod gets.
	bind string
	// status is the new status; nil leaves it.
	status *corev1.PodStatus
	// remove deletes a pod whose grace period is over.
	remove bool
	// wait looks for a node again later.
	wait bool
}

func (n *Nodes) reconcilePod(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := podObservation{pod: &corev1.Pod{}, now: metav1.Now()}
	if err := n.client.Get(ctx, req.NamespacedName, o.pod); err != nil {
		return reconcile.Result{}, err
	}
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods, client.InNamespace(req.Namespace)); err != nil {
		return reconcile.Result{}, err
	}
	var nodes corev1.NodeList
	if err := n.client.List(ctx, &nodes); err != nil {
		return reconcile.Result{}, err
	}
	o.others, o.nodes = pods.Items, nodes.Items
	slices.SortFunc(o.nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	plan, err := decidePod(o)
	if err != nil {
		return reconcile.Result{}, err
	}
	return n.applyPod(ctx, o.pod, plan)
}

func (n *Nodes) applyPod(ctx context.Context, pod *corev1.Pod, plan podPlan) (reconcile.Result, error) {
	log := ctrl.LoggerFrom(ctx)
	switch {
	case plan.wait:
		return reconcile.Result{RequeueAfter: 500 * time.Millisecond}, nil
	case plan.bind != "":
		log.Info("Binds", "node", plan.bind)
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: plan.bind},
		}
		return reconcile.Result{}, n.client.SubResource("binding").Create(ctx, pod, binding)
	case plan.status != nil:
		log.Info("Writes", "phase", plan.status.Phase)
		return reconcile.Result{}, n.writePodStatus(ctx, pod, *plan.status)
	case plan.remove:
		log.Info("Removes")
		return reconcile.Result{}, n.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	}
	return reconcile.Result{}, nil
}

func (n *Nodes) writePodStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	out := pod.DeepCopy()
	out.Status = status
	return n.client.Status().Patch(ctx, out, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
}

// decidePod is the next step of scheduler and kubelet. How a pod ends is decided with its VMI.
func decidePod(o podObservation) (podPlan, error) {
	switch pod := o.pod; {
	case pod.DeletionTimestamp != nil:
		return podPlan{remove: true}, nil
	case ended(pod) || pod.Status.Phase == corev1.PodRunning || len(pod.Spec.SchedulingGates) > 0:
		return podPlan{}, nil
	case pod.Spec.NodeName != "":
		return podPlan{status: runs(pod, o.now)}, nil
	}
	for i := range o.nodes {
		fits, err := fits(o.pod, &o.nodes[i], o.others)
		if err != nil {
			return podPlan{}, err
		}
		if fits {
			return podPlan{bind: o.nodes[i].Name}, nil
		}
	}
	if len(o.pod.Status.Conditions) > 0 {
		return podPlan{wait: true}, nil
	}
	return podPlan{status: unschedulable(o.pod, o.now)}, nil
}

// unschedulable is the status of a pod that fits no node.
func unschedulable(pod *corev1.Pod, now metav1.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: now,
		Reason: corev1.PodReasonUnschedulable, Message: "no node matches the pod's affinity and selector",
	}}
	return status
}

// fits reports whether a pod may run on a node. The nodes have all hardware that KubeVirt asks for
// by label. Anti-affinity, which keeps the target of a migration off its source, is by host.
func fits(pod *corev1.Pod, node *corev1.Node, others []corev1.Pod) (bool, error) {
	if node.Spec.Unschedulable {
		return false, nil
	}
	equipped := node.DeepCopy()
	for key, value := range pod.Spec.NodeSelector {
		if strings.Contains(key, ".node.kubevirt.io/") {
			equipped.Labels[key] = value
		}
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(equipped); !ok || err != nil {
		return false, err
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return true, nil
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		avoided, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			return false, fmt.Errorf("cannot read the anti-affinity of %s: %w", pod.Name, err)
		}
		for i := range others {
			if other := &others[i]; other.UID != pod.UID && other.Spec.NodeName == node.Name && !ended(other) && avoided.Matches(labels.Set(other.Labels)) {
				return false, nil
			}
		}
	}
	return true, nil
}

// ended reports whether a pod has ended.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// runs is the status of a pod whose containers run.
func runs(pod *corev1.Pod, now metav1.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.PodIP, status.PodIPs = address, []corev1.PodIP{{IP: address}}
	status.Conditions = nil
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, kubevirtv1.VirtualMachineUnpaused,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, c := range pod.Spec.InitContainers {
		of := running(c, now)
		if c.RestartPolicy == nil { // no sidecar
			of.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, of)
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, running(c, now))
	}
	return status
}

// running is the status of a container that runs.
func running(c corev1.Container, now metav1.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: imageID(c.Image), ContainerID: "simulated://" + c.Name,
		Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}
}

// imageID is a digest, without which KubeVirt does not migrate containerDisks.
func imageID(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	return name + "@sha256:" + strings.Repeat("0123456789abcdef", 4)
}
