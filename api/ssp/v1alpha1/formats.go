package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// A Format is a format of templates.
//
// +kubebuilder:object:generate=false
type Format struct {
	// Name is the field of a request's target that selects the format.
	Name string
	// Kind is the kind of the template object.
	Kind schema.GroupVersionKind
	// Versions are the versions of Kind with equal fields, the preferred ones first; empty if there
	// is only that of Kind.
	Versions []string
	// Resource is the plural name of Kind.
	Resource string
	// Short is another name of the format in the field format of a request; "" if there is none.
	Short string
}

// Names of formats.
const (
	FormatOpenShiftTemplate      = "openshiftTemplate"
	FormatVirtualMachineTemplate = "virtualMachineTemplate"
	FormatConfigMap              = "configMap"
)

// Formats returns all formats.
func Formats() []Format {
	return []Format{{
		Name: FormatOpenShiftTemplate, Resource: "templates", Short: "template.openshift.io/v1",
		Kind: schema.GroupVersionKind{Group: "template.openshift.io", Version: "v1", Kind: "Template"},
	}, {
		Name: FormatVirtualMachineTemplate, Resource: "virtualmachinetemplates", Short: "template.kubevirt.io/v1alpha1",
		Kind:     schema.GroupVersionKind{Group: "template.kubevirt.io", Version: "v1alpha1", Kind: "VirtualMachineTemplate"},
		Versions: []string{"v1beta1", "v1alpha1"},
	}, {
		Name: FormatConfigMap, Resource: "configmaps",
		Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
	}}
}

// InEachVersion returns the format in each of its versions, the preferred ones first.
func (f Format) InEachVersion() []Format {
	if len(f.Versions) == 0 {
		return []Format{f}
	}
	out := make([]Format, 0, len(f.Versions))
	for _, version := range f.Versions {
		f.Kind.Version = version
		out = append(out, f)
	}
	return out
}

// FormatNames returns the names of all formats.
func FormatNames() []string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return names
}

// FormatNamed returns the format with a name.
func FormatNamed(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Format returns the format and the template's name, which may be "". ok is false if the target has
// no format.
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

// SetFormat sets the format and the template's name.
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
