// Command flux compares and applies one object with the libraries of Flux, as its
// kustomize-controller does. It reads the object, as Git has it, from standard input.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	"github.com/fluxcd/pkg/ssa/normalize"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// group is that of Flux's Kustomization.
const group = "kustomize.toolkit.fluxcd.io"

// owner is the field manager of kustomize-controller.
const owner = "kustomize-controller"

// A report says what Flux does with the object.
type report struct {
	// Status is the action of an apply: created, configured, unchanged or skipped.
	Status string `json:"status"`
	// Drift is what helm-controller's drift detection finds before the apply, as a JSON patch.
	Drift json.RawMessage `json:"drift,omitempty"`
	// ResourceVersion is that of the stored object after the apply.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster")
	syncs := flag.Int("syncs", 1, "how often to apply")
	health := flag.String("health", "", "a Kustomization: say how healthy the object is, without a cluster")
	flag.Parse()
	var err error
	if *health != "" {
		err = assess(*health)
	} else {
		err = run(*kubeconfig, *syncs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
}

// run prints a report for each apply.
func run(kubeconfig string, syncs int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 500
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	object, err := read(os.Stdin)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for range syncs {
		done, err := sync(context.Background(), c, object.DeepCopy())
		if err != nil {
			return err
		}
		if err := out.Encode(done); err != nil {
			return err
		}
	}
	return nil
}

// read reads an object.
func read(in io.Reader) (*unstructured.Unstructured, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("cannot read the object: %w", err)
	}
	return object, nil
}

// sync follows the apply of kustomize-controller, after a drift detection as in helm-controller.
func sync(ctx context.Context, c client.Client, object *unstructured.Unstructured) (report, error) {
	manager := ssa.NewResourceManager(c, nil, ssa.Owner{Field: owner, Group: group})
	objects := []*unstructured.Unstructured{object}
	if err := normalize.UnstructuredList(objects); err != nil {
		return report{}, err
	}
	manager.SetOwnerLabels(objects, "vms", "flux-system")
	drift, err := jsondiff.Unstructured(ctx, c, object, jsondiff.FieldOwner(owner))
	if err != nil {
		return report{}, err
	}
	changes, err := manager.ApplyAllStaged(ctx, objects, applyOptions())
	if err != nil {
		return report{}, err
	}
	if len(changes.Entries) != 1 {
		return report{}, errors.New("no single change")
	}
	done := report{Status: changes.Entries[0].Action.String()}
	if drift.Type == jsondiff.DiffTypeUpdate {
		if done.Drift, err = json.Marshal(drift.Patch); err != nil {
			return report{}, err
		}
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(object.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(object), stored)
	done.ResourceVersion = stored.GetResourceVersion()
	return done, client.IgnoreNotFound(err)
}

// applyOptions are those of kustomize-controller for a Kustomization without options.
func applyOptions() ssa.ApplyOptions {
	options := ssa.DefaultApplyOptions()
	options.ExclusionSelector = map[string]string{group + "/reconcile": "disabled", group + "/ssa": "Ignore"}
	options.IfNotPresentSelector = map[string]string{group + "/ssa": "IfNotPresent"}
	options.ForceSelector = map[string]string{group + "/force": "enabled"}
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: owner, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{group + "/ssa": "Merge"},
	}
	return options
}
