// Package placement says whether an instance may run on a node. It is a
// function of the two alone: there is no scheduler, and agents of several nodes
// race for what fits all of them. What takes more than the two to judge, as
// what other instances run nearby, keeps every agent away.
package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A rule says why an instance may not run on a node; empty where it may.
type rule func(*corev1.Node, *kubevirtv1.VirtualMachineInstanceSpec) string

// rules are all of them.
var rules = []rule{ready, scheduler, architecture, selector, nodeAffinity, others, spread, taints}

// Against is why an instance may not run on a node; empty where it may.
func Against(node *corev1.Node, vmi *kubevirtv1.VirtualMachineInstance) string {
	for _, r := range rules {
		if why := r(node, &vmi.Spec); why != "" {
			return why
		}
	}
	return ""
}

// ready keeps instances from nodes that take none.
func ready(node *corev1.Node, _ *kubevirtv1.VirtualMachineInstanceSpec) string {
	switch {
	case node.DeletionTimestamp != nil:
		return "the node is being deleted"
	case node.Spec.Unschedulable:
		return "the node is cordoned"
	}
	return ""
}

// scheduler leaves instances alone for which somebody else is to find a node.
func scheduler(_ *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	if spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName {
		return fmt.Sprintf("spec.schedulerName leaves it to %q", spec.SchedulerName)
	}
	return ""
}

// architecture wants the instance's, as KubeVirt does.
func architecture(node *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	if is := node.Labels[corev1.LabelArchStable]; is != "" && spec.Architecture != "" && is != spec.Architecture {
		return fmt.Sprintf("spec.architecture is %s, and the node's is %s", spec.Architecture, is)
	}
	return ""
}

func selector(node *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return "spec.nodeSelector selects other nodes"
	}
	return ""
}

// nodeAffinity judges what is required. What is preferred decides between
// nodes, and there is nobody here who does.
func nodeAffinity(node *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return ""
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for i := range required.NodeSelectorTerms {
		if matches(node, &required.NodeSelectorTerms[i]) {
			return ""
		}
	}
	return "spec.affinity.nodeAffinity requires other nodes"
}

// matches says whether a term selects a node. As in Kubernetes an empty term
// selects none, and so does one that cannot be understood.
func matches(node *corev1.Node, term *corev1.NodeSelectorTerm) bool {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return false
	}
	fields := labels.Set{"metadata.name": node.Name}
	return hold(term.MatchExpressions, node.Labels) && hold(term.MatchFields, fields)
}

// operators of node selectors, as label selectors have them.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func hold(requirements []corev1.NodeSelectorRequirement, of labels.Set) bool {
	for _, r := range requirements {
		operator, known := operators[r.Operator]
		if !known {
			return false
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil || !requirement.Matches(of) {
			return false
		}
	}
	return true
}

// others refuses what takes to know what other instances run where.
func others(_ *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	switch a := spec.Affinity; {
	case a == nil:
	case a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0:
		return "spec.affinity.podAffinity requires what an agent cannot judge"
	case a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0:
		return "spec.affinity.podAntiAffinity requires what an agent cannot judge"
	}
	return ""
}

func spread(_ *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	for i := range spec.TopologySpreadConstraints {
		if spec.TopologySpreadConstraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			return fmt.Sprintf("spec.topologySpreadConstraints[%d] requires what an agent cannot judge", i)
		}
	}
	return ""
}

// taints keep away who does not tolerate them.
func taints(node *corev1.Node, spec *kubevirtv1.VirtualMachineInstanceSpec) string {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(taint, spec.Tolerations) {
			return fmt.Sprintf("spec.tolerations do not have the node's taint %s", taint.ToString())
		}
	}
	return ""
}

func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case corev1.TolerationOpEqual, "":
			if t.Key == taint.Key && t.Value == taint.Value {
				return true
			}
		}
	}
	return false
}
