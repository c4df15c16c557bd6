package webhooks

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// A LegacyPreset validates KubeVirt's VirtualMachineInstancePresets, which act
// where there is no KubeVirt, as a Preset validates ours: what one kind may
// not bring into a VM, the other may not either.
type LegacyPreset struct {
	Authority Authority
}

var _ admission.Handler = LegacyPreset{}

// Handle answers one request.
func (p LegacyPreset) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return allowed()
	}
	if req.Operation == admissionv1.Update && sameSpec(req.Object.Raw, req.OldObject.Raw) {
		return allowed()
	}
	var preset kubevirtv1.VirtualMachineInstancePreset
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &preset); err != nil {
		return malformed(fmt.Errorf("cannot read the %s: %w", req.Kind.Kind, err))
	}
	compiled, problems := presets.CompileLegacy(&preset)
	if len(problems) > 0 {
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, problems)
	}
	return authorized(ctx, p.Authority, req, compiled)
}
