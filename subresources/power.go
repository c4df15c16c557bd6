package subresources

import (
	"context"
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/subresources/decide"
)

// attempts is how often a call decides again because the objects changed.
const attempts = 5

// powers are the calls start, stop and restart.
var powers = map[string]func(*cluster, *http.Request) error{
	"start":   powerOf(decide.Start, func(o *kubevirtv1.StartOptions) []string { return o.DryRun }),
	"stop":    powerOf(decide.Stop, func(o *kubevirtv1.StopOptions) []string { return o.DryRun }),
	"restart": powerOf(decide.Restart, func(o *kubevirtv1.RestartOptions) []string { return o.DryRun }),
}

func powerOf[O any](
	d func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance, *O) (*decide.Changes, error), dryRun func(*O) []string,
) func(*cluster, *http.Request) error {
	return func(c *cluster, r *http.Request) error {
		name, err := subject(r)
		if err != nil {
			return err
		}
		options := new(O)
		dry, err := readOptions(r, name.Name, options, dryRun)
		if err != nil {
			return err
		}
		return c.change(r.Context(), name, dry, (*cluster).readVM, func(now *objects) (*decide.Changes, error) {
			return d(now.vm, now.vmi, options)
		})
	}
}

// readOptions decodes the options in a request, and reports whether it is a dry run.
func readOptions[O any](r *http.Request, name string, options *O, dryRun func(*O) []string) (dry bool, err error) {
	body, err := read(r, maxOptions)
	if err != nil {
		return false, err
	}
	if err := decodeOptions(body, options); err != nil {
		return false, err
	}
	runs := slices.Concat(dryRun(options), r.URL.Query()["dryRun"])
	if problems := metav1validation.ValidateDryRun(field.NewPath("dryRun"), runs); len(problems) > 0 {
		return false, apierrors.NewInvalid(kindOf(options), name, problems)
	}
	return len(runs) > 0, nil
}

// change makes the changes that decide returns. It decides again after losing a race, so that
// callers see only conflicts that last.
func (c *cluster) change(ctx context.Context, name types.NamespacedName, dry bool,
	read func(*cluster, context.Context, types.NamespacedName) (*objects, error), decide func(*objects) (*decide.Changes, error)) error {
	var before *objects
	var rejected error
	for range attempts {
		now, err := read(c, ctx, name)
		switch {
		case err != nil:
			return err
		case rejected != nil && !now.changed(before, rejected):
			return publicly(rejected)
		}
		changes, err := decide(now)
		if err != nil {
			return err
		}
		if rejected = c.apply(ctx, name, changes, dry); !mayBeOutdated(rejected) {
			return publicly(rejected)
		}
		before = now
	}
	return apierrors.NewConflict(before.resource(), name.Name, errors.New("the object keeps changing; try again"))
}

// mayBeOutdated reports whether a patch may have failed because the object changed or was deleted.
// API servers answer a failed test like an invalid object.
func mayBeOutdated(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// rejection returns the error of an API server that rejected a patch. After any other error, the
// patch may have been made.
func rejection(err error) (*apierrors.StatusError, bool) {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return status, ok && status.ErrStatus.Code >= http.StatusBadRequest && status.ErrStatus.Code < http.StatusInternalServerError
}

// publicly returns the error of a patch for the caller. Errors about the object are passed on;
// others are this server's fault.
func publicly(err error) error {
	if err == nil {
		return nil
	}
	if status, rejected := rejection(err); rejected && !apierrors.IsUnauthorized(status) {
		return status
	}
	return apierrors.NewInternalError(err)
}
