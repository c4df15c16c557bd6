package webhooks

import (
	"context"
	"errors"
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
	preset, err := legacyPreset(req.Object.Raw)
	var refusal *presets.Refusal
	switch {
	case errors.As(err, &refusal):
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, refusal.Problems)
	case err != nil:
		return malformed(fmt.Errorf("cannot read the %s: %w", req.Kind.Kind, err))
	}
	compiled, problems := presets.CompileLegacy(preset)
	if len(problems) > 0 {
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, problems)
	}
	return authorized(ctx, p.Authority, req, compiled)
}

// legacyPreset reads a preset whose quantities can be read in reasonable time.
// Beneath metadata and spec.domain it has the form of an instance.
func legacyPreset(raw []byte) (*kubevirtv1.VirtualMachineInstancePreset, error) {
	safe, err := presets.SafeQuantities(presets.VirtualMachineInstance, raw)
	if err != nil {
		return nil, err
	}
	var preset kubevirtv1.VirtualMachineInstancePreset
	return &preset, kjson.UnmarshalCaseSensitivePreserveInts(safe, &preset)
}
