package subresources

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/subresources/verdict"
)

// attempts is how often a verdict is made anew because what it was about changed
// before it was carried out.
const attempts = 5

// A power is what a call does to a machine.
type power struct {
	// look reads what is judged.
	look func(*machines, context.Context, types.NamespacedName) (*seen, error)
	// options returns empty options.
	options func() any
	// judge decides, and returns what the options say about a dry run.
	judge func(options any, now *seen) (*verdict.Changes, error)
	dry   func(options any) []string
}

// powers by name.
var powers = map[string]*power{
	"start":   powerOf(verdict.Start, func(o *kubevirtv1.StartOptions) []string { return o.DryRun }),
	"stop":    powerOf(verdict.Stop, func(o *kubevirtv1.StopOptions) []string { return o.DryRun }),
	"restart": powerOf(verdict.Restart, func(o *kubevirtv1.RestartOptions) []string { return o.DryRun }),
}

func powerOf[O any](judge func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance, *O) (*verdict.Changes, error), dry func(*O) []string) *power {
	return &power{
		look:    (*machines).look,
		options: func() any { return new(O) },
		judge: func(options any, now *seen) (*verdict.Changes, error) {
			return judge(now.vm, now.vmi, options.(*O))
		},
		dry: func(options any) []string { return dry(options.(*O)) },
	}
}

// InstanceOptions are those of what is done to an instance. KubeVirt's clients
// send none.
type InstanceOptions struct {
	// DryRun is All where nothing shall change.
	DryRun []string `json:"dryRun,omitempty"`
}

// instancePowers are what is done to instances, by name.
var instancePowers = map[string]*power{
	"reset": instancePowerOf(verdict.Reset), "softreboot": instancePowerOf(verdict.SoftReboot),
}

func instancePowerOf(judge func(*kubevirtv1.VirtualMachineInstance, string, time.Time) (*verdict.Changes, error)) *power {
	return &power{
		look:    (*machines).lookAtInstance,
		options: func() any { return new(InstanceOptions) },
		judge: func(_ any, now *seen) (*verdict.Changes, error) {
			return judge(now.vmi, string(uuid.NewUUID()), time.Now())
		},
		dry: func(options any) []string { return options.(*InstanceOptions).DryRun },
	}
}

// call does what a request asks for.
func (p *power) call(machines *machines, r *http.Request) error {
	info, err := subject(r)
	if err != nil {
		return err
	}
	body, err := read(r, maxOptions)
	if err != nil {
		return err
	}
	options := p.options()
	if err := decodeOptions(body, options); err != nil {
		return err
	}
	dryRun := slices.Concat(p.dry(options), r.URL.Query()["dryRun"])
	if problems := metav1validation.ValidateDryRun(field.NewPath("dryRun"), dryRun); len(problems) > 0 {
		return apierrors.NewInvalid(kindOf(options), info.Name, problems)
	}
	name := types.NamespacedName{Namespace: info.Namespace, Name: info.Name}
	return machines.change(r.Context(), name, len(dryRun) > 0, p.look, func(now *seen) (*verdict.Changes, error) {
		return p.judge(options, now)
	})
}

// change carries a verdict out, or says why not. What loses a race is judged
// anew, so that a caller hears of a conflict only where there is one.
func (m *machines) change(ctx context.Context, name types.NamespacedName, dry bool,
	look func(*machines, context.Context, types.NamespacedName) (*seen, error), judge func(*seen) (*verdict.Changes, error)) error {
	var before *seen
	var refused error
	for range attempts {
		now, err := look(m, ctx, name)
		switch {
		case err != nil:
			return err
		case refused != nil && !now.differs(before, refused):
			return publicly(refused)
		}
		changes, err := judge(now)
		if err != nil {
			return err
		}
		if refused = m.apply(ctx, name, changes, dry); !mayBeLate(refused) {
			return publicly(refused)
		}
		before = now
	}
	return apierrors.NewConflict(before.resource(), name.Name, errors.New("others go on changing it; try again"))
}

// mayBeLate reports whether a patch may have been refused because the object
// changed or went: API servers refuse a failed test as they do an invalid object.
func mayBeLate(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// refusal is what an API server said when it refused a patch. Any other error
// leaves open whether the patch was made.
func refusal(err error) (*apierrors.StatusError, bool) {
	status, said := errors.AsType[*apierrors.StatusError](err)
	return status, said && status.ErrStatus.Code >= http.StatusBadRequest && status.ErrStatus.Code < http.StatusInternalServerError
}

// publicly is an error of a patch as a caller sees it. What API servers say of
// the object is told; what they say of this server is not the caller's fault.
func publicly(err error) error {
	if err == nil {
		return nil
	}
	if status, refused := refusal(err); refused && !apierrors.IsUnauthorized(status) {
		return status
	}
	return apierrors.NewInternalError(err)
}
