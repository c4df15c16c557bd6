// Command legacy prints what KubeVirt's own mutating webhook makes of VMIs under
// VirtualMachineInstancePresets. It reads JSON documents and writes one for each.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	jsonpatch "github.com/evanphx/json-patch"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"

	"kubevirt.io/kubevirt/pkg/testutils"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks/mutating-webhook/mutators"
)

// in is a VMI with the presets of its namespace.
type in struct {
	VMI     json.RawMessage                    `json:"vmi"`
	Presets []*v1.VirtualMachineInstancePreset `json:"presets"`
}

// out is the domain of the VMI as it is stored, or why KubeVirt rejects it.
type out struct {
	Domain   *v1.DomainSpec `json:"domain"`
	Rejected string         `json:"rejected"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer) error {
	log.Log = log.DefaultLogger()
	log.Log.SetIOWriter(io.Discard)
	read, write := json.NewDecoder(from), json.NewEncoder(to)
	for {
		var i in
		if err := read.Decode(&i); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read a VMI: %w", err)
		}
		o, err := mutated(i)
		if err != nil {
			return err
		}
		if err := write.Encode(o); err != nil {
			return fmt.Errorf("cannot write a VMI: %w", err)
		}
	}
}

func mutated(i in) (out, error) {
	config, _, _ := testutils.NewFakeClusterConfigUsingKVConfig(&v1.KubeVirtConfiguration{})
	informer, _ := testutils.NewFakeInformerFor(&v1.VirtualMachineInstancePreset{})
	for _, p := range i.Presets {
		if err := informer.GetIndexer().Add(p); err != nil {
			return out{}, err
		}
	}
	mutator := &mutators.VMIsMutator{ClusterConfig: config, VMIPresetInformer: informer}
	answer := mutator.Mutate(&admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: i.VMI},
		Resource: metav1.GroupVersionResource(webhooks.VirtualMachineInstanceGroupVersionResource),
	}})
	if !answer.Allowed {
		return out{Rejected: answer.Result.Message}, nil
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	if err != nil {
		return out{}, err
	}
	raw, err := patch.Apply(i.VMI)
	if err != nil {
		return out{}, fmt.Errorf("cannot apply %s: %w", answer.Patch, err)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(raw, vmi); err != nil {
		return out{}, err
	}
	return out{Domain: &vmi.Spec.Domain}, nil
}
