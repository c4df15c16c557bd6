package offline

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks"
)

// nameless is what an API server says to an object without a name.
var nameless = field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")}

// presetReader compiles presets one after the other.
type presetReader struct {
	ctx      context.Context
	seen     map[string]manifest.Position
	legacy   bool
	compiled []*presets.Compiled
	// selecting are the presets that choose namespaces by label.
	selecting []string
	notes     []string
}

func (p *presetReader) read(e *entry, namespace string) error {
	if err := e.place(namespace); err != nil {
		return err
	}
	refused := &Refusal{Where: e.Where, Object: e.ref()}
	if e.meta.Name == "" {
		refused.Problems = problemLines(nameless)
		return refused
	}
	if first, ok := p.seen[e.ref()]; ok {
		refused.Problems = []string{fmt.Sprintf("metadata.name: it exists already, in %s", first)}
		return refused
	}
	p.seen[e.ref()] = e.Where
	if e.role == legacyPreset {
		refused.Problems = p.compileLegacy(e)
	} else {
		refused.Problems = p.compile(e)
	}
	if len(refused.Problems) > 0 {
		return refused
	}
	return nil
}

// compile lets the validating webhook judge the preset first, so that an author
// reads here what the cluster would say.
func (p *presetReader) compile(e *entry) []string {
	answer := webhooks.Preset{Kind: e.Kind}.Handle(p.ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Name: e.meta.Name, Namespace: e.meta.Namespace, Object: runtime.RawExtension{Raw: e.JSON},
	}})
	if !answer.Allowed {
		return statusLines(answer.Result)
	}
	var object v1alpha1.Preset = &v1alpha1.VirtualMachinePreset{}
	if e.Kind == v1alpha1.KindClusterVirtualMachinePreset {
		object = &v1alpha1.ClusterVirtualMachinePreset{}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, object); err != nil {
		return []string{err.Error()}
	}
	c, problems := presets.Compile(object)
	if len(problems) > 0 {
		return problemLines(problems)
	}
	p.compiled = append(p.compiled, c)
	if object.GetSpec().Match.Namespaces != nil {
		p.selecting = append(p.selecting, c.Ref)
	}
	return nil
}

func (p *presetReader) compileLegacy(e *entry) []string {
	if !p.legacy {
		p.notes = append(p.notes, fmt.Sprintf("%s: ignored %s, which KubeVirt itself applies in addon mode", e.Where, e.ref()))
		return nil
	}
	object := &kubevirtv1.VirtualMachineInstancePreset{}
	strict, err := kjson.UnmarshalStrict(e.JSON, object)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, unknown := range strict {
		out = append(out, unknown.Error())
	}
	c, problems := presets.CompileLegacy(object)
	if out = append(out, problemLines(problems)...); len(out) == 0 {
		p.compiled = append(p.compiled, c)
	}
	return out
}
