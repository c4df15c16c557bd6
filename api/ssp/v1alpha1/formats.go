package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// A Format is a form that templates have.
//
// +kubebuilder:object:generate=false
type Format struct {
	// Name is the field of a request's target that asks for it.
	Name string
	// Kind is what a template of the form is.
	Kind schema.GroupVersionKind
	// Resource is the plural name of Kind.
	Resource string
	// Short is what stands for the form in the field format of a request, beside
	// Name; empty where that alone does.
	Short string
}

// Names of formats.
const (
	FormatOpenShiftTemplate      = "openshiftTemplate"
	FormatVirtualMachineTemplate = "virtualMachineTemplate"
	FormatConfigMap              = "configMap"
)

// Formats are all of them.
func Formats() []Format {
	return []Format{{
		Name: FormatOpenShiftTemplate, Resource: "templates", Short: "template.openshift.io/v1",
		Kind: schema.GroupVersionKind{Group: "template.openshift.io", Version: "v1", Kind: "Template"},
	}, {
		Name: FormatVirtualMachineTemplate, Resource: "virtualmachinetemplates", Short: "template.kubevirt.io/v1alpha1",
		Kind: schema.GroupVersionKind{Group: "template.kubevirt.io", Version: "v1alpha1", Kind: "VirtualMachineTemplate"},
	}, {
		Name: FormatConfigMap, Resource: "configmaps",
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
	}}
}

// FormatNames are their names.
func FormatNames() []string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return names
}

// FormatNamed is the format of a name.
func FormatNamed(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Format is the form that is asked for, and the template's name, which is empty
// where it is not given. ok is false where none is asked for.
func (t *VirtualMachineTemplateRequestTarget) Format() (f Format, name string, ok bool) {
	switch {
	case t.OpenShiftTemplate != nil:
		f, ok = FormatNamed(FormatOpenShiftTemplate)
		return f, t.OpenShiftTemplate.Name, ok
	case t.VirtualMachineTemplate != nil:
		f, ok = FormatNamed(FormatVirtualMachineTemplate)
		return f, t.VirtualMachineTemplate.Name, ok
	case t.ConfigMap != nil:
		f, ok = FormatNamed(FormatConfigMap)
		return f, t.ConfigMap.Name, ok
	}
	return Format{}, "", false
}

// SetFormat asks for a form and a name.
func (t *VirtualMachineTemplateRequestTarget) SetFormat(format, name string) {
	switch format {
	case FormatOpenShiftTemplate:
		t.OpenShiftTemplate = &OpenShiftTemplate{Name: name}
	case FormatVirtualMachineTemplate:
		t.VirtualMachineTemplate = &VirtualMachineTemplate{Name: name}
	case FormatConfigMap:
		t.ConfigMap = &ConfigMap{Name: name}
	}
}
