package validation

import (
	"cmp"
	"encoding/json"
	"fmt"
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
)

// ExpandTemplateRequest returns the spec of a request for a template in full: the
// short form (vmName, templateName, format) as source and target, the namespace
// of the request where the source has none, and the first of formats where no
// form is named. What is of a wrong type stays, for the schema to say.
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
			e.problems = append(e.problems, field.Required(e.at.Child("source", "vmName"), "name the VirtualMachine, here or in vmName, which is short for it"))
		}
	}
	name, named := e.take("templateName")
	format, formed := e.take("format")
	if _, has := e.spec["target"]; !has || named || formed {
		e.target(name, format, formats)
	}
	return e.spec, e.problems
}

// expansion is of one spec.
type expansion struct {
	spec     map[string]any
	at       *field.Path
	problems field.ErrorList
}

// take removes a text of the short form. What is no text stays.
func (e *expansion) take(key string) (text string, given bool) {
	if text, given = e.spec[key].(string); given {
		delete(e.spec, key)
	}
	return text, given
}

func (e *expansion) source(name string) {
	source, ok := e.spec["source"].(map[string]any)
	if !ok {
		source = map[string]any{}
		e.spec["source"] = source
	}
	if other, has := source["vmName"]; has && other != name {
		e.problems = append(e.problems, field.Invalid(e.at.Child("vmName"), name, "it is short for source.vmName, which is another one: leave one of them out"))
		return
	}
	source["vmName"] = name
}

// target puts the form and the name of the template in, if they are not there
// in full already.
func (e *expansion) target(name, format string, formats []string) {
	target, ok := e.spec["target"].(map[string]any)
	if !ok {
		target = map[string]any{}
		e.spec["target"] = target
	}
	form, err := e.form(format, formats, target)
	if err != nil {
		e.problems = append(e.problems, err)
		return
	}
	for other := range target {
		if other != form {
			e.problems = append(e.problems, field.Invalid(e.at.Child("target"), other, "format and templateName are short for target."+form+", and there is another: leave one of them out"))
			return
		}
	}
	of, ok := target[form].(map[string]any)
	if !ok {
		of = map[string]any{}
		target[form] = of
	}
	if other, has := of["name"]; has && name != "" && other != name {
		e.problems = append(e.problems, field.Invalid(e.at.Child("templateName"), name, "it is short for target."+form+".name, which is another one: leave one of them out"))
	}
	if name != "" {
		of["name"] = name
	}
}

// form is the name of the format that is meant.
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

// CheckTemplateRequest reports what is wrong with a request for a template in
// full. formats are the names of those that may be asked for.
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
		return field.ErrorList{field.Required(at, "name it")}
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
		return field.ErrorList{field.Invalid(at, strings.Join(slices.Sorted(maps.Keys(given)), ", "), "give exactly one of openshiftTemplate, virtualMachineTemplate, configMap")}
	}
	if !slices.Contains(formats, format.Name) {
		return field.ErrorList{field.NotSupported(at, format.Name, formats)}
	}
	if name == "" {
		return nil // the request's
	}
	return nameProblems(at.Child(format.Name, "name"), name, kvalidation.IsDNS1123Subdomain)
}

func checkTemplateLabels(at *field.Path, labels map[string]sspv1alpha1.TemplateLabel) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		problems = append(problems, metav1validation.ValidateLabels(map[string]string{key: string(labels[key])}, at)...)
		prefix, _, _ := strings.Cut(key, "/")
		if strings.Contains(key, "/") && (prefix == v1alpha1.GroupName || prefix == "kubevirt.io" || strings.HasSuffix(prefix, ".kubevirt.io")) {
			problems = append(problems, field.Forbidden(at.Key(key), "labels of "+prefix+" tell programs what a template is: give it labels of your own"))
		}
	}
	return problems
}

// CheckGenerateTemplate reports what is wrong with the value of the annotation
// that asks for a template.
func CheckGenerateTemplate(value string) field.ErrorList {
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationGenerateTemplate)
	if value == "" {
		return field.ErrorList{field.Invalid(at, value, "it names the template to make: give a name, or leave the annotation out")}
	}
	var problems field.ErrorList
	for _, wrong := range apivalidation.NameIsDNSSubdomain(value, false) {
		problems = append(problems, field.Invalid(at, value, fmt.Sprintf("it names the template to make: %s", wrong)))
	}
	return problems
}
