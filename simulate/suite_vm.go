package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

func (s *Suite) readVMs(c *Case, at *field.Path) field.ErrorList {
	var out field.ErrorList
	if problem := s.readVM(&c.Step, at); problem != nil {
		out = append(out, problem)
	}
	if c.Before != nil {
		if problem := s.readVM(c.Before, at.Child("before")); problem != nil {
			out = append(out, problem)
		}
	}
	if !c.creates() && c.vm.Kind == string(presets.VirtualMachineInstance) {
		out = append(out, field.NotSupported(at.Child("vm", "kind"), c.vm.Kind, []presets.Kind{presets.VirtualMachine}))
	}
	return out
}

func (s *Suite) readVM(c *Step, at *field.Path) *field.Error {
	if c.VM == nil && c.VMFile == "" {
		return nil // reported before
	}
	read, from := s.inlineVM, "vm"
	if c.VMFile != "" {
		read, from = s.fileVM, "vmFile"
	}
	at = at.Child(from)
	var problem *field.Error
	if c.vm, problem = read(c, at); problem != nil {
		return problem
	}
	kinds := []presets.Kind{presets.VirtualMachine, presets.VirtualMachineInstance}
	switch {
	case roleOf(c.vm) == vmOrVMI:
		return checkVM(c, at)
	case slices.Contains(kinds, presets.Kind(c.vm.Kind)):
		return field.NotSupported(at.Child("apiVersion"), c.vm.APIVersion, []string{kubevirtv1.GroupVersion.String()})
	}
	return field.NotSupported(at.Child("kind"), c.vm.Kind, kinds)
}

func (s *Suite) fileVM(c *Step, at *field.Path) (vm manifest.Object, problem *field.Error) {
	objects, err := manifest.Read(strings.NewReader(""), []string{s.path(c.VMFile)}, false)
	return only(objects, err, at, c.VMFile)
}

func only(objects []manifest.Object, err error, at *field.Path, value any) (vm manifest.Object, problem *field.Error) {
	switch {
	case err != nil:
		return vm, field.Invalid(at, value, err.Error())
	case len(objects) != 1:
		return vm, field.Invalid(at, value, fmt.Sprintf("must contain exactly one object, but has %d", len(objects)))
	}
	return objects[0], nil
}

// inlineVM returns the VM of a case, with defaults for apiVersion, kind and name.
func (s *Suite) inlineVM(c *Step, at *field.Path) (vm manifest.Object, problem *field.Error) {
	setDefault(c.VM, "apiVersion", kubevirtv1.GroupVersion.String())
	setDefault(c.VM, "kind", string(presets.VirtualMachine))
	if c.VM["metadata"] == nil {
		c.VM["metadata"] = map[string]any{}
	}
	if meta, isObject := c.VM["metadata"].(map[string]any); isObject && meta["generateName"] == nil {
		setDefault(meta, "name", "vm")
	}
	raw, err := json.Marshal(c.VM)
	if err != nil {
		return vm, field.InternalError(at, err)
	}
	objects, err := manifest.Inline(raw, s.Where)
	return only(objects, err, at, c.VM["kind"])
}

// A VM with an unknown field is always rejected, and would not test a preset.
func checkVM(c *Step, at *field.Path) *field.Error {
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(c.vm.JSON, &object); err != nil {
		return field.Invalid(at, c.vm.Kind, err.Error())
	}
	if c.vm.APIVersion == conversion.V1Alpha2 {
		return nil // it has other fields
	}
	if unknown := presets.CheckSchema(presets.Kind(c.vm.Kind), object).Unknown; len(unknown) > 0 {
		return beneath(at, unknown)[0]
	}
	return nil
}

func setDefault(fields map[string]any, name, value string) {
	if fields[name] == nil {
		fields[name] = value
	}
}
