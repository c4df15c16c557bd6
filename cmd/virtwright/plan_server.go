package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// serverCheck sends the presets, and each VM that would change, to the API server in a dry run. It
// includes webhooks, policies and quotas of others. A nil serverCheck does nothing.
type serverCheck struct{ changed []simulate.Compared }

func (o *planCommand) serverCheck() *serverCheck {
	if o.dryRun == dryRunServer {
		return &serverCheck{}
	}
	return nil
}

func (r *serverCheck) visit(c simulate.Compared) {
	if r != nil && c.After != nil && len(c.Changes) > 0 {
		r.changed = append(r.changed, c)
	}
}

func (r *serverCheck) run(ctx context.Context, o *planCommand, x *simulate.Comparison, plan *fleet.Plan) error {
	if r == nil {
		return nil
	}
	config, _, err := o.connection.config()
	if err != nil {
		return err
	}
	client, err := newClient(quiet(config), dynamic.NewForConfig)
	if err != nil {
		return err
	}
	wanted, _ := split(x.After)
	for _, p := range wanted {
		if p.Context {
			continue
		}
		if err := applyPreset(ctx, client, o.namespace, p); err != nil {
			return err
		}
	}
	return r.checkVMs(ctx, client, plan)
}

// applyPreset sends an object like kubectl apply --server-side --dry-run=server.
func applyPreset(ctx context.Context, client dynamic.Interface, namespace string, p manifest.Object) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(p.JSON); err != nil {
		return fmt.Errorf("%s: cannot read the preset: %w", p.Where, err)
	}
	resource := v1alpha1.GroupVersion.WithResource("clustervirtualmachinepresets")
	switch p.Kind {
	case v1alpha1.KindVirtualMachinePreset:
		resource.Resource = v1alpha1.ResourceVirtualMachinePresets
	case v1alpha1.KindPresetException:
		resource.Resource = v1alpha1.ResourcePresetExceptions
	}
	if p.Kind != v1alpha1.KindClusterVirtualMachinePreset && object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: program, Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("%s: the API server rejects %s %s: %w", p.Where, p.Kind, object.GetName(), err)
	}
	return nil
}

// checkVMs sends each VM as it would be stored. It ignores rejections by presets that the plan
// changes, because the API server still uses the old ones.
func (r *serverCheck) checkVMs(ctx context.Context, client dynamic.Interface, plan *fleet.Plan) error {
	denials, problems := make([]error, len(r.changed)), make([]error, len(r.changed))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, c := range r.changed {
		group.Go(func() error {
			denials[i], problems[i] = checkVM(ctx, client, c)
			return nil
		})
	}
	_ = group.Wait() // problems has the errors
	for i, c := range r.changed {
		texts := slices.DeleteFunc(rejections(denials[i]), func(text string) bool {
			return slices.ContainsFunc(plan.Presets, func(p *fleet.ObjectChange) bool {
				return (p.Namespace == "" || p.Namespace == c.Namespace) && namesPreset(text, p.Name)
			})
		})
		plan.Reject(c.Namespace+"/"+c.Name, texts)
	}
	plan.Finish()
	return errors.Join(problems...)
}

// namesPreset reports whether an API server, which sends only text, names a preset in a message.
func namesPreset(text, ref string) bool {
	before := `presets? (\S+ and )?`
	if strings.HasPrefix(ref, "cluster/") {
		before = `(^|[^\w/.-])`
	}
	return regexp.MustCompile(before + regexp.QuoteMeta(ref) + `([^\w/.-]|\.?$|\.\s)`).MatchString(text)
}

// checkVM returns why the API server rejects a VM, or an error if there is no answer.
func checkVM(ctx context.Context, client dynamic.Interface, c simulate.Compared) (rejection, err error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.After, &object.Object); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.VM, err)
	}
	resource := virtualMachines
	if c.Kind == presets.VirtualMachineInstance {
		resource.Resource = "virtualmachineinstances"
	}
	vms := client.Resource(resource).Namespace(c.Namespace)
	exists := object.GetResourceVersion() != ""
	if !exists && object.GetName() != "" {
		stored, err := vms.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && c.Kind == presets.VirtualMachineInstance:
			return nil, nil // VMIs never change
		case err == nil:
			object, exists = merged(stored, object), true
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("cannot validate %s by a dry run of the API server: %w", c.VM, err)
		}
	}
	if exists {
		_, err = vms.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	} else {
		_, err = vms.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	switch {
	case err == nil, apierrors.IsConflict(err):
		return nil, nil // a concurrent change is validated when the plan is applied
	case isRejection(err) && !lacksRight(err):
		return err, nil
	}
	return nil, fmt.Errorf("cannot validate %s by a dry run of the API server: %w", c.VM, err)
}

func merged(stored, file *unstructured.Unstructured) *unstructured.Unstructured {
	stored.Object["spec"] = file.Object["spec"]
	stored.SetLabels(labels.Merge(stored.GetLabels(), file.GetLabels()))
	stored.SetAnnotations(labels.Merge(stored.GetAnnotations(), file.GetAnnotations()))
	return stored
}

// Details of an API error do not contain the name of the VM.
func rejections(rejection error) []string {
	var status apierrors.APIStatus
	if rejection == nil || !errors.As(rejection, &status) {
		return nil
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		return []string{rejection.Error()}
	}
	var out []string
	for _, cause := range details.Causes {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(cause.Field, "<nil>")+": "+cause.Message, ": "))
	}
	slices.Sort(out)
	return out
}
