package controlplane

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// InstallCRDs creates or updates the CustomResourceDefinitions in files and folders, and returns
// when each is Established and every version it serves answers requests.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, paths ...string) error {
	options := envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}
	if err := envtest.ReadCRDFiles(&options); err != nil {
		return fmt.Errorf("cannot read CRDs: %w", err)
	}
	if len(options.CRDs) == 0 {
		return fmt.Errorf("cannot read CRDs: none in %q", paths)
	}
	config := cp.Config()
	config.WarningHandler = rest.NoWarnings{} // that a version is deprecated is its users' business
	if err := envtest.CreateCRDs(config, options.CRDs); err != nil {
		return fmt.Errorf("cannot create CRDs: %w", err)
	}
	return cp.waitForCRDs(ctx, config, options.CRDs)
}

func (cp *ControlPlane) waitForCRDs(ctx context.Context, config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	definitions, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	for _, crd := range crds {
		err := cp.wait(ctx, "CRD "+crd.Name, func(ctx context.Context) error {
			now, err := definitions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := established(now); err != nil {
				return err
			}
			return served(ctx, objects, now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// established is an error unless the CRD is Established. Names that another CRD has are not given
// up by waiting.
func established(crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, condition := range crd.Status.Conditions {
		holds := condition.Status == apiextensionsv1.ConditionTrue
		switch {
		case condition.Type == apiextensionsv1.NamesAccepted && !holds:
			return fmt.Errorf("%w: %s", errHopeless, condition.Message)
		case condition.Type == apiextensionsv1.Established && holds:
			return nil
		}
	}
	return errors.New("it is not Established")
}

// served asks each served version for one object: discovery may promise a version a moment before
// it is there.
func served(ctx context.Context, objects dynamic.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		resource := schema.GroupVersionResource{Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural}
		if _, err := objects.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("cannot list %s: %w", resource, err)
		}
	}
	return nil
}
