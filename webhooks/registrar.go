package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is under which name virtwright writes to API servers.
const FieldOwner = "virtwright-manager"

// A Registrar makes API servers call the webhooks once they can answer. It does
// not take the registration back: from then on requests that nobody answers fail.
type Registrar struct {
	Client client.Client
	// Registration is what to register; its CABundle comes from Bundle.
	Registration Registration
	// Bundle returns what API servers shall trust, in PEM.
	Bundle func() []byte
	// Ready returns nil when the webhooks can answer.
	Ready func() error
	// SeedVersion serves VirtualMachines in v1alpha2, too, which the webhook then converts.
	SeedVersion bool
}

// NeedLeaderElection says that every replica that serves registers: the
// registration is the same.
func (*Registrar) NeedLeaderElection() bool { return false }

// Start registers as soon as it can, and then has nothing more to do.
func (r *Registrar) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("registrar")
	for {
		err, wait := r.Ready(), 20*time.Millisecond
		if err == nil {
			if err = r.register(ctx); err == nil {
				log.Info("Registered webhooks", "name", ConfigurationName)
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
		object := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
		if err := r.Client.Apply(ctx, object, client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("cannot apply %T %s: %w", config, config.GetName(), err)
		}
	}
	if !r.SeedVersion || r.Registration.Guard.Addon {
		return nil
	}
	return r.serveSeedVersion(ctx, registration.Conversion())
}

// serveSeedVersion makes API servers serve v1alpha2 of VirtualMachine. A CRD without that version is not ours and stays as it is.
func (r *Registrar) serveSeedVersion(ctx context.Context, conversion *apiextensionsv1.CustomResourceConversion) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: ConvertedCRD}, crd)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1alpha2" })
	if at < 0 || crd.Spec.Versions[at].Served && apiequality.Semantic.DeepEqual(crd.Spec.Conversion, conversion) {
		return nil
	}
	// API servers write status at the same time: an update would conflict.
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
