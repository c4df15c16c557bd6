package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/webhooks"
)

const (
	// convertedVersion is the one version of another form than the others, which
	// is served where somebody converts it.
	convertedVersion = "v1alpha2"
	// injectedFrom is the annotation by which cert-manager knows whose authority
	// to write into a CRD.
	injectedFrom = "cert-manager.io/inject-ca-from"
	// retireWithin bounds a retirement: whoever uninstalls waits for it.
	retireWithin = 30 * time.Second
	// retireRetry is between two looks.
	retireRetry = 100 * time.Millisecond
)

// retire ends the conversion of VirtualMachines by an installation that is about
// to go. Their CRD stays, and must ask nobody who is not there: it becomes what
// it is without virtwright's webhook. A CRD that somebody else converts is left
// alone. Calling it again changes nothing.
func retire(ctx context.Context, o *options, output io.Writer) error {
	if o.mode != modeStandalone {
		fmt.Fprintf(output, "Alongside KubeVirt %s is KubeVirt's: left alone.\n", webhooks.ConvertedCRD)
		return nil
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot find the cluster: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("cannot make a scheme: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	versions, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, retireWithin)
	defer cancel()
	var what retirement
	err = insist(ctx, func() (err error) {
		what, err = endConversion(ctx, c, o.webhookService)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot end the conversion of %s: %w", webhooks.ConvertedCRD, err)
	}
	fmt.Fprintf(output, "%s: %s.\n", webhooks.ConvertedCRD, what.said)
	if len(what.patch) == 0 {
		return nil
	}
	// The rest is for the comfort of others, and no reason not to go.
	if err := insist(ctx, func() error { return disown(ctx, c) }); err != nil {
		fmt.Fprintln(output, "It will take force to apply the CRD again server-side:", err)
	}
	if !noticed(ctx, versions) {
		fmt.Fprintln(output, "The API server has not taken notice yet.")
	}
	return nil
}

// insist tries until nobody has come in between, or there is no time left.
func insist(ctx context.Context, try func() error) error {
	for {
		err := try()
		// What a patch tests is Invalid when it does not hold any more.
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retireRetry):
		}
	}
}

// endConversion looks, decides and writes.
func endConversion(ctx context.Context, c client.Client, service types.NamespacedName) (retirement, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.Get(ctx, types.NamespacedName{Name: webhooks.ConvertedCRD}, crd)
	if apierrors.IsNotFound(err) {
		return retirement{said: "there is none, so there is nothing to do"}, nil
	}
	if err != nil {
		return retirement{}, err
	}
	what, err := decideRetirement(crd, service)
	if err != nil || len(what.patch) == 0 {
		return what, err
	}
	return what, patchCRD(ctx, c, what.patch)
}

// disown leaves what was written to nobody: otherwise whoever applies the CRD
// again, server-side, would be in conflict with somebody who is gone.
func disown(ctx context.Context, c client.Client) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, types.NamespacedName{Name: webhooks.ConvertedCRD}, crd); err != nil {
		return err
	}
	at := slices.IndexFunc(crd.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == webhooks.FieldOwner })
	if at < 0 {
		return nil
	}
	entry := fmt.Sprintf("/metadata/managedFields/%d", at)
	return patchCRD(ctx, c, []jsonpatch.Operation{
		jsonpatch.NewOperation("test", entry+"/manager", webhooks.FieldOwner),
		jsonpatch.NewOperation("remove", entry, nil),
	})
}

func patchCRD(ctx context.Context, c client.Client, operations []jsonpatch.Operation) error {
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConvertedCRD}}
	return c.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(webhooks.FieldOwner))
}

// A retirement is what is to become of a CRD, and how to say so.
type retirement struct {
	patch []jsonpatch.Operation // none: the CRD is left alone
	said  string
}

// decideRetirement takes away the conversion by a Service and what is served for its
// sake, in one write: v1, which is stored, and v1alpha3, which has the same form,
// can be read throughout.
func decideRetirement(crd *apiextensionsv1.CustomResourceDefinition, service types.NamespacedName) (retirement, error) {
	by := convertedBy(crd.Spec.Conversion)
	switch {
	case by == "":
		return retirement{said: "nobody is asked to convert, so there is nothing to do"}, nil
	case by != "Service "+service.String():
		return retirement{said: fmt.Sprintf("%s converts, not Service %s: left alone", by, service)}, nil
	case slices.Contains(crd.Status.StoredVersions, convertedVersion):
		return retirement{}, errors.New("objects may be stored as " + convertedVersion + ", which nobody could read in v1 without it: " +
			"write each of them again (kubectl get virtualmachines --all-namespaces -o json | kubectl replace -f -), " +
			"take " + convertedVersion + " from status.storedVersions, and try again")
	}
	const reference = "/spec/conversion/webhook/clientConfig/service/"
	patch := []jsonpatch.Operation{
		jsonpatch.NewOperation("test", reference+"namespace", service.Namespace),
		jsonpatch.NewOperation("test", reference+"name", service.Name),
		jsonpatch.NewOperation("replace", "/spec/conversion", apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}),
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == convertedVersion })
	if at >= 0 {
		patch = append(patch,
			jsonpatch.NewOperation("test", fmt.Sprintf("/spec/versions/%d/name", at), convertedVersion),
			jsonpatch.NewOperation("replace", fmt.Sprintf("/spec/versions/%d/served", at), false))
	}
	if strings.HasPrefix(crd.Annotations[injectedFrom], service.Namespace+"/") {
		patch = append(patch, jsonpatch.NewOperation("remove", "/metadata/annotations/"+strings.ReplaceAll(injectedFrom, "/", "~1"), nil))
	}
	return retirement{patch: patch, said: "nobody is asked to convert any more, and " + convertedVersion + " is no longer served; v1 and v1alpha3 go on"}, nil
}

// convertedBy is who is asked to convert, in words; empty for nobody.
func convertedBy(c *apiextensionsv1.CustomResourceConversion) string {
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return ""
	}
	to := c.Webhook.ClientConfig
	if to.Service != nil {
		return "Service " + to.Service.Namespace + "/" + to.Service.Name
	}
	if to.URL != nil {
		return *to.URL
	}
	return "somebody else"
}

// noticed waits until the API server that answers knows of the retirement: from
// then on the Service may go. It reports whether that happened in time.
func noticed(ctx context.Context, versions discovery.ServerResourcesInterfaceWithContext) bool {
	resource, group, _ := strings.Cut(webhooks.ConvertedCRD, ".")
	for {
		served, err := versions.ServerResourcesForGroupVersionWithContext(ctx, group+"/"+convertedVersion)
		if apierrors.IsNotFound(err) || err == nil && !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retireRetry):
		}
	}
}
