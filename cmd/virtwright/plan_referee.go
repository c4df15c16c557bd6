package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/fleet"
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
	presets, _ := split(x.After)
	for _, p := range presets {
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

// judgeVMs sends each VM as it would be.
func (r *referee) judgeVMs(ctx context.Context, client dynamic.Interface, plan *fleet.Plan) error {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var problems []error
	refused := map[string]*fleet.Refused{}
	work := make(chan offline.Compared)
	for range refereeWorkers {
		wait.Go(func() {
			for c := range work {
				text, err := judgeVM(ctx, client, c)
				mu.Lock()
				if err != nil {
					problems = append(problems, err)
				}
				if text != "" {
					if refused[text] == nil {
						refused[text] = &fleet.Refused{Texts: []string{text}}
						plan.Refused = append(plan.Refused, refused[text])
					}
					refused[text].VMs = append(refused[text].VMs, c.Namespace+"/"+c.Name)
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range r.changed {
		work <- c
	}
	close(work)
	wait.Wait()
	return errors.Join(problems...)
}

// judgeVM returns why the API server refuses a VM, or an error where it does not answer.
func judgeVM(ctx context.Context, client dynamic.Interface, c offline.Compared) (string, error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.After, &object.Object); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", c.Machine, err)
	}
	vms := client.Resource(kubevirtv1.GroupVersion.WithResource("virtualmachines")).Namespace(c.Namespace)
	var err error
	if object.GetResourceVersion() == "" {
		_, err = vms.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	} else {
		_, err = vms.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	switch {
	case err == nil, apierrors.IsConflict(err):
		return "", nil // a VM that changed meanwhile is judged when the change is applied
	case judged(err):
		return err.Error(), nil
	}
	return "", fmt.Errorf("cannot have the API server judge %s: %w", c.Machine, err)
}
