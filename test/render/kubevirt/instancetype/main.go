// Command instancetype prints what KubeVirt's own code makes of VMs with instancetypes and
// preferences when they start. It reads JSON documents and writes one for each.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"kubevirt.io/kubevirt/pkg/instancetype/apply"
	"kubevirt.io/kubevirt/pkg/instancetype/preference/validation"
	"kubevirt.io/kubevirt/pkg/util"
)

// in is a VM with the specs of what it names.
type in struct {
	VM           *v1.VirtualMachine                      `json:"vm"`
	Instancetype *v1beta1.VirtualMachineInstancetypeSpec `json:"instancetype"`
	Preference   *v1beta1.VirtualMachinePreferenceSpec   `json:"preference"`
}

// out is the template of the VM as it starts, or why KubeVirt rejects the VM.
type out struct {
	Template *v1.VirtualMachineInstanceTemplateSpec `json:"template"`
	Rejected string                                 `json:"rejected"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer) error {
	read, write := json.NewDecoder(from), json.NewEncoder(to)
	read.DisallowUnknownFields()
	for {
		var i in
		if err := read.Decode(&i); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read a VM: %w", err)
		}
		if err := write.Encode(expanded(i)); err != nil {
			return fmt.Errorf("cannot write a VM: %w", err)
		}
	}
}

func expanded(i in) out {
	template := i.VM.Spec.Template
	if template == nil {
		template = &v1.VirtualMachineInstanceTemplateSpec{}
	}
	if i.Preference != nil {
		if conflict := validation.CheckSpreadCPUTopology(i.Instancetype, i.Preference); conflict != nil {
			return out{Rejected: conflict.Error()}
		}
	}
	util.SetDefaultVolumeDisk(&template.Spec)
	conflicts := apply.NewVMIApplier().ApplyToVMI(field.NewPath("spec"), i.Instancetype, i.Preference, &template.Spec, &template.ObjectMeta)
	if len(conflicts) > 0 {
		return out{Rejected: conflicts.Error()}
	}
	return out{Template: template}
}
