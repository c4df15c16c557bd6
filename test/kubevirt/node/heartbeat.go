package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// period is how often a node says that it is alive. virt-controller gives it five minutes.
const period = time.Minute

// model is the CPU of the nodes.
const model = "Skylake-Client"

// register creates the Nodes, and the pods of virt-handler by which virt-api finds it.
func (n *Nodes) register(ctx context.Context) error {
	for _, name := range names {
		for _, object := range []client.Object{nodeObject(name), n.handlerPod(name)} {
			status := object.DeepCopyObject().(client.Object)
			if err := n.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("cannot create %s: %w", object.GetName(), err)
			}
			status.SetResourceVersion("")
			if err := n.client.Status().Patch(ctx, status, client.Merge); err != nil {
				return fmt.Errorf("cannot write the status of %s: %w", object.GetName(), err)
			}
		}
		// API servers taint new nodes.
		if err := n.client.Patch(ctx, nodeObject(name), client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"taints":null}}`))); err != nil {
			return fmt.Errorf("cannot remove the taint of %s: %w", name, err)
		}
	}
	return n.beat(ctx)
}

// heartbeat writes that the nodes are alive, until the context ends.
func (n *Nodes) heartbeat(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
		if err := n.beat(ctx); err != nil {
			n.options.Log.Error(err, "Will try again", "in", period)
		}
	}
}

func (n *Nodes) beat(ctx context.Context) error {
	for _, name := range names {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kubevirtv1.VirtHandlerHeartbeat, time.Now().UTC().Format(time.RFC3339))
		if err := n.client.Patch(ctx, nodeObject(name), client.RawPatch(client.Merge.Type(), patch)); err != nil {
			return fmt.Errorf("cannot write the heartbeat of %s: %w", name, err)
		}
	}
	return nil
}

// nodeObject is a node that virt-handler has labelled.
func nodeObject(name string) *corev1.Node {
	capacity := corev1.ResourceList{}
	for resourceName, quantity := range map[corev1.ResourceName]string{
		"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "500Gi",
		"devices.kubevirt.io/kvm": "1k", "devices.kubevirt.io/tun": "1k", "devices.kubevirt.io/vhost-net": "1k",
	} {
		capacity[resourceName] = resource.MustParse(quantity)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			kubevirtv1.NodeSchedulable: "true", kubevirtv1.CPUManager: "true",
			kubevirtv1.HostModelCPULabel + model: "true", kubevirtv1.CPUModelLabel + model: "true", kubevirtv1.SupportedHostModelMigrationCPU + model: "true",
		}},
		Status: corev1.NodeStatus{
			Allocatable: capacity, Capacity: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
			NodeInfo:   corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux"},
		},
	}
}

// handlerPod is virt-handler on a node.
func (n *Nodes) handlerPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "virt-handler-" + node, Labels: map[string]string{kubevirtv1.AppLabel: "virt-handler"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "virt-handler", Image: "virt-handler"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: n.options.Address, PodIPs: []corev1.PodIP{{IP: n.options.Address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}
