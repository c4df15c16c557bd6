package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/webhooks"
)

// FieldOwner is the field manager of virtwright's writes.
const FieldOwner = "virtwright-manager"

// A Registrar registers the webhooks once they can answer. It never removes the registration: from
// then on, requests fail while no webhook answers.
type Registrar struct {
	Client client.Client
	// Registration is registered with the CABundle that Bundle returns.
	Registration webhooks.Registration
	// Bundle returns the CA bundle in PEM.
	Bundle func() []byte
	// Ready returns nil when the webhooks can answer.
	Ready func() error
	// ServeV1Alpha2 also serves VirtualMachines in v1alpha2, which the webhook converts.
	ServeV1Alpha2 bool
}

// Start registers once, and retries until it succeeds.
func (r *Registrar) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("registrar")
	for {
		err, wait := r.Ready(), 20*time.Millisecond
		if err == nil {
			if err = r.register(ctx); err == nil {
				log.Info("Registered webhooks", "name", webhooks.ConfigurationName)
				return nil
			}
			wait = time.Second
			log.Error(err, "Cannot register webhooks; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (r *Registrar) register(ctx context.Context) error {
	registration := r.Registration
	registration.CABundle = r.Bundle()
	for _, config := range registration.Objects() {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
		if err != nil {
			return fmt.Errorf("cannot encode %T: %w", config, err)
		}
		object := &unstructured.Unstructured{Object: fields}
		apply := client.ApplyConfigurationFromUnstructured(object)
		err = r.Client.Apply(ctx, apply, client.FieldOwner(FieldOwner), client.ForceOwnership)
		if apierrors.IsInvalid(err) && fields["webhooks"] != nil {
			if err = r.dropWebhooks(ctx, object); err == nil {
				err = r.Client.Apply(ctx, apply, client.FieldOwner(FieldOwner), client.ForceOwnership)
			}
		}
		if err != nil {
			return fmt.Errorf("cannot apply %T %s: %w", config, object.GetName(), err)
		}
	}
	if !r.ServeV1Alpha2 || r.Registration.Guard.Addon {
		return nil
	}
	return r.serveV1Alpha2(ctx, registration.Conversion())
}

// dropWebhooks removes webhooks from a stored configuration that are not in the wanted one. Apply
// keeps the fields of them that others own, such as a CA bundle, and API servers reject the
// incomplete webhook.
func (r *Registrar) dropWebhooks(ctx context.Context, wanted *unstructured.Unstructured) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(wanted.GroupVersionKind())
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), stored); err != nil {
		return err
	}
	names := map[any]bool{}
	for _, webhook := range wanted.Object["webhooks"].([]any) {
		names[webhook.(map[string]any)["name"]] = true
	}
	there, _, _ := unstructured.NestedSlice(stored.Object, "webhooks")
	there = slices.DeleteFunc(there, func(webhook any) bool { return !names[webhook.(map[string]any)["name"]] })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": stored.GetResourceVersion()}, "webhooks": there})
	if err != nil {
		return fmt.Errorf("cannot encode webhooks: %w", err)
	}
	return r.Client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch))
}

// serveV1Alpha2 makes API servers serve VirtualMachines in v1alpha2. A CRD without that version is
// not virtwright's and is not changed.
func (r *Registrar) serveV1Alpha2(ctx context.Context, conversion *apiextensionsv1.CustomResourceConversion) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: webhooks.ConvertedCRD}, crd)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1alpha2" })
	if at < 0 || crd.Spec.Versions[at].Served && apiequality.Semantic.DeepEqual(crd.Spec.Conversion, conversion) {
		return nil
	}
	// An update would conflict with writes of status.
	patch, err := json.Marshal([]jsonpatch.Operation{
		jsonpatch.NewOperation("test", fmt.Sprintf("/spec/versions/%d/name", at), "v1alpha2"),
		jsonpatch.NewOperation("replace", fmt.Sprintf("/spec/versions/%d/served", at), true),
		jsonpatch.NewOperation("add", "/spec/conversion", conversion),
	})
	if err == nil {
		err = r.Client.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("cannot serve v1alpha2 of VirtualMachine: %w", err)
	}
	return nil
}
