package validation

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/tree"
)

// ExpandTemplateRequest expands the spec of a template request: it converts the short form (vmName,
// templateName, format) to source and target, and defaults the namespace of the source to that of
// the request, and the format to the first of formats. Values of a wrong type stay; the schema
// rejects them.
func ExpandTemplateRequest(spec map[string]any, namespace string, formats []string) (map[string]any, field.ErrorList) {
	e := &expansion{spec: runtime.DeepCopyJSON(spec), at: field.NewPath("spec")}
	if name, given := e.take("vmName"); given {
		e.source(name)
	}
	if e.spec["source"] == nil {
		e.spec["source"] = map[string]any{}
	}
	if source, ok := e.spec["source"].(map[string]any); ok {
		if source["vmNamespace"] == nil {
			source["vmNamespace"] = namespace
		}
		if _, misplaced := e.spec["vmName"]; source["vmName"] == nil && !misplaced {
			e.problems = append(e.problems, field.Required(e.at.Child("source", "vmName"), "must be the name of the VirtualMachine; or set spec.vmName"))
		}
	}
	name, named := e.take("templateName")
	format, formed := e.take("format")
	if _, has := e.spec["target"]; !has || named || formed {
		e.target(name, format, formats)
	}
	return e.spec, e.problems
}

// An expansion expands one spec.
type expansion struct {
	spec     map[string]any
	at       *field.Path
	problems field.ErrorList
}

// take removes a string of the short form and returns it.
func (e *expansion) take(key string) (text string, given bool) {
	if text, given = e.spec[key].(string); given {
		delete(e.spec, key)
	}
	return text, given
}

func (e *expansion) source(name string) {
	source := tree.Child(e.spec, "source")
	if other, has := source["vmName"]; has && other != name {
		e.problems = append(e.problems, field.Invalid(e.at.Child("vmName"), name, "must be equal to source.vmName; leave one of them out"))
		return
	}
	source["vmName"] = name
}

// target sets the format and the name of the template, unless they are set.
func (e *expansion) target(name, format string, formats []string) {
	target := tree.Child(e.spec, "target")
	form, err := e.form(format, formats, target)
	if err != nil {
		e.problems = append(e.problems, err)
		return
	}
	for other := range target {
		if other != form {
			e.problems = append(e.problems, field.Invalid(e.at.Child("target"), other, "must be "+form+", which spec.format and spec.templateName set; leave them or this one out"))
			return
		}
	}
	of := tree.Child(target, form)
	if other, has := of["name"]; has && name != "" && other != name {
		e.problems = append(e.problems, field.Invalid(e.at.Child("templateName"), name, "must be equal to target."+form+".name; leave one of them out"))
	}
	if name != "" {
		of["name"] = name
	}
}

// form returns the name of the selected format.
func (e *expansion) form(format string, formats []string, target map[string]any) (string, *field.Error) {
	if format == "" {
		if len(target) == 1 {
			return slices.Collect(maps.Keys(target))[0], nil
		}
		if len(formats) > 0 {
			return formats[0], nil
		}
		return sspv1alpha1.FormatOpenShiftTemplate, nil
	}
	var known []string
	for _, f := range sspv1alpha1.Formats() {
		if !slices.Contains(formats, f.Name) {
			continue
		}
		if f.Short == format || f.Name == format {
			return f.Name, nil
		}
		known = append(known, cmp.Or(f.Short, f.Name))
	}
	return "", field.NotSupported(e.at.Child("format"), format, known)
}

// CheckTemplateRequest validates an expanded template request. formats are the names of the
// supported formats.
func CheckTemplateRequest(request *sspv1alpha1.VirtualMachineTemplateRequest, formats []string) field.ErrorList {
	at := field.NewPath("spec")
	source := at.Child("source")
	problems := nameProblems(source.Child("vmName"), request.Spec.Source.VMName, kvalidation.IsDNS1123Subdomain)
	problems = append(problems, nameProblems(source.Child("vmNamespace"), request.Spec.Source.VMNamespace, kvalidation.IsDNS1123Label)...)
	problems = append(problems, checkTarget(at.Child("target"), &request.Spec.Target, formats)...)
	return append(problems, checkTemplateLabels(at.Child("templateLabels"), request.Spec.TemplateLabels)...)
}

func nameProblems(at *field.Path, name string, check func(string) []string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "must be a name")}
	}
	var problems field.ErrorList
	for _, wrong := range check(name) {
		problems = append(problems, field.Invalid(at, name, wrong))
	}
	return problems
}

func checkTarget(at *field.Path, target *sspv1alpha1.VirtualMachineTemplateRequestTarget, formats []string) field.ErrorList {
	given := map[string]json.RawMessage{}
	raw, err := json.Marshal(target)
	if err == nil {
		err = json.Unmarshal(raw, &given)
	}
	format, name, ok := target.Format()
	if err != nil || !ok || len(given) != 1 {
		return field.ErrorList{field.Invalid(at, strings.Join(slices.Sorted(maps.Keys(given)), ", "), "set exactly one of openshiftTemplate, virtualMachineTemplate, configMap")}
	}
	if !slices.Contains(formats, format.Name) {
		return field.ErrorList{field.NotSupported(at, format.Name, formats)}
	}
	if name == "" {
		return nil // defaults to the name of the request
	}
	return nameProblems(at.Child(format.Name, "name"), name, kvalidation.IsDNS1123Subdomain)
}

func checkTemplateLabels(at *field.Path, labels map[string]sspv1alpha1.TemplateLabel) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		problems = append(problems, metav1validation.ValidateLabels(map[string]string{key: string(labels[key])}, at)...)
		prefix, _, _ := strings.Cut(key, "/")
		if strings.Contains(key, "/") && (prefix == v1alpha1.GroupName || prefix == "kubevirt.io" || strings.HasSuffix(prefix, ".kubevirt.io")) {
			problems = append(problems, field.Forbidden(at.Key(key), "must not have the reserved prefix "+prefix+": use a prefix of your own"))
		}
	}
	return problems
}

// CheckGenerateTemplate validates the value of the annotation that requests a template.
func CheckGenerateTemplate(value string) field.ErrorList {
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationGenerateTemplate)
	if value == "" {
		return field.ErrorList{field.Invalid(at, value, "must be the name of the template; leave the annotation out to create none")}
	}
	var problems field.ErrorList
	for _, wrong := range apivalidation.NameIsDNSSubdomain(value, false) {
		problems = append(problems, field.Invalid(at, value, "must be the name of the template: "+wrong))
	}
	return problems
}
