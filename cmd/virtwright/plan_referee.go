package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

// A referee has the API server judge, without storing anything, what a plan predicts: the presets,
// and each VM that would change. So webhooks, policies and quotas of others are heard, too. A nil
// referee judges nothing.
type referee struct{ changed []offline.Compared }

func (o *planning) referee() *referee {
	if o.dryRun == "server" {
		return &referee{}
	}
	return nil
}

// visit keeps a VM that would change.
func (r *referee) visit(c offline.Compared) {
	if r != nil && c.After != nil && len(c.Changes) > 0 {
		r.changed = append(r.changed, c)
	}
}

// refereeWorkers is how many requests are on their way at once.
const refereeWorkers = 8

// judge adds to the plan what the API server refuses.
func (r *referee) judge(ctx context.Context, o *planning, x *offline.Comparison, plan *fleet.Plan) error {
	if r == nil {
		return nil
	}
	config, _, err := o.connection.config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(quiet(config))
	if err != nil {
		return fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	wanted, _ := split(x.After)
	for _, p := range wanted {
		if p.Context {
			continue
		}
		if err := judgePreset(ctx, client, o.namespace, p); err != nil {
			return err
		}
	}
	return r.judgeVMs(ctx, client, plan)
}

// judgePreset sends a preset or an exception as kubectl apply --server-side --dry-run=server does.
func judgePreset(ctx context.Context, client dynamic.Interface, namespace string, p manifest.Object) error {
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
		return fmt.Errorf("%s: the API server refuses %s %s: %w", p.Where, p.Kind, object.GetName(), err)
	}
	return nil
}

// judgeVMs sends each VM as it would be. A refusal by a preset that the plan changes does not count:
// the API server judges with the presets that it has.
func (r *referee) judgeVMs(ctx context.Context, client dynamic.Interface, plan *fleet.Plan) error {
	refusals, problems := make([]error, len(r.changed)), make([]error, len(r.changed))
	var group errgroup.Group
	group.SetLimit(refereeWorkers)
	for i, c := range r.changed {
		group.Go(func() error {
			refusals[i], problems[i] = judgeVM(ctx, client, c)
			return nil
		})
	}
	_ = group.Wait() // each error is in problems
	for i, c := range r.changed {
		texts := slices.DeleteFunc(causes(refusals[i]), func(text string) bool {
			return slices.ContainsFunc(plan.Presets, func(p fleet.PresetChange) bool {
				return (p.Namespace == "" || p.Namespace == c.Namespace) && namesPreset(text, p.Preset)
			})
		})
		plan.Refuse(c.Namespace+"/"+c.Name, texts)
	}
	plan.Finish()
	return errors.Join(problems...)
}

// judgeVM returns why the API server refuses a VM or a VMI, or an error if it does not answer. One that
// exists is updated.
func judgeVM(ctx context.Context, client dynamic.Interface, c offline.Compared) (refusal, err error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.After, &object.Object); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.Machine, err)
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
			return nil, nil // it never changes
		case err == nil:
			object, exists = merged(stored, object), true
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("cannot have the API server judge %s: %w", c.Machine, err)
		}
	}
	if exists {
		_, err = vms.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	} else {
		_, err = vms.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	switch {
	case err == nil, apierrors.IsConflict(err):
		return nil, nil // a VM that changed meanwhile is judged when the change is applied
	case judged(err):
		return err, nil
	}
	return nil, fmt.Errorf("cannot have the API server judge %s: %w", c.Machine, err)
}

// merged is a stored VM with the spec, labels and annotations of a file.
func merged(stored, file *unstructured.Unstructured) *unstructured.Unstructured {
	stored.Object["spec"] = file.Object["spec"]
	labels, annotations := stored.GetLabels(), stored.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, file.GetLabels())
	maps.Copy(annotations, file.GetAnnotations())
	stored.SetLabels(labels)
	stored.SetAnnotations(annotations)
	return stored
}

// causes are those of a refusal, sorted, without the name of the VM where the API server says them
// apart.
func causes(refusal error) []string {
	var status apierrors.APIStatus
	if refusal == nil || !errors.As(refusal, &status) {
		return nil
	}
	details := status.Status().Details
	if details == nil || len(details.Causes) == 0 {
		return []string{refusal.Error()}
	}
	var out []string
	for _, cause := range details.Causes {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(cause.Field, "<nil>")+": "+cause.Message, ": "))
	}
	slices.Sort(out)
	return out
}

// namesPreset reports whether a message names a preset, as in "preset NAME" or "presets NAME and NAME".
func namesPreset(text, ref string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/.-", r)
	})
	for i, word := range words {
		named := i > 0 && slices.Contains([]string{"preset", "presets", "and"}, words[i-1])
		if strings.TrimSuffix(word, ".") == ref && (named || strings.HasPrefix(ref, "cluster/")) {
			return true
		}
	}
	return false
}
