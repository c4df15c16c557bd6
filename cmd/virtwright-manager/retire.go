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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/subresources"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/clients"
)

const (
	// convertedVersion is the version that is served only if a webhook converts it.
	convertedVersion = "v1alpha2"
	injectedFrom     = "cert-manager.io/inject-ca-from"
	// retireTimeout bounds a retirement, because the uninstallation waits for it.
	retireTimeout = 30 * time.Second
	retirePeriod  = 100 * time.Millisecond
)

// retire disables the conversion of VirtualMachines by an installation before it is uninstalled.
// Their CRD stays, and must not name a webhook that no longer exists. A CRD that another program
// converts is not changed. A second call changes nothing.
func retire(ctx context.Context, o *options, output io.Writer) error {
	if o.mode != modeStandalone {
		fmt.Fprintf(output, "Alongside KubeVirt, %s belongs to KubeVirt: not changed.\n", webhooks.ConvertedCRD)
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
	ctx, cancel := context.WithTimeout(ctx, retireTimeout)
	defer cancel()
	var done retirement
	err = retryConflicts(ctx, func() (err error) {
		done, err = endConversion(ctx, c, o.webhookService)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot disable the conversion of %s: %w", webhooks.ConvertedCRD, err)
	}
	fmt.Fprintf(output, "%s: %s.\n", webhooks.ConvertedCRD, done.message)
	if len(done.patch) == 0 {
		return nil
	}
	// The uninstallation may continue even if the rest fails.
	if err := retryConflicts(ctx, func() error { return removeFieldOwner(ctx, c) }); err != nil {
		fmt.Fprintln(output, "Applying the CRD again server-side will require --force-conflicts:", err)
	}
	if !isUnserved(ctx, versions) {
		fmt.Fprintln(output, "The API server still serves "+convertedVersion+", or does not answer.")
	}
	return nil
}

// retryConflicts retries while other writers interfere.
func retryConflicts(ctx context.Context, try func() error) error {
	for {
		err := try()
		// A patch whose test fails is Invalid.
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retirePeriod):
		}
	}
}

func endConversion(ctx context.Context, c client.Client, service types.NamespacedName) (retirement, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.Get(ctx, types.NamespacedName{Name: webhooks.ConvertedCRD}, crd)
	if apierrors.IsNotFound(err) {
		return retirement{message: "not found, nothing to do"}, nil
	}
	if err != nil {
		return retirement{}, err
	}
	decided, err := decideRetirement(crd, service)
	if err != nil || len(decided.patch) == 0 {
		return decided, err
	}
	return decided, patchCRD(ctx, c, decided.patch)
}

// removeFieldOwner prevents conflicts of a later server-side apply of the CRD.
func removeFieldOwner(ctx context.Context, c client.Client) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, types.NamespacedName{Name: webhooks.ConvertedCRD}, crd); err != nil {
		return err
	}
	at := slices.IndexFunc(crd.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == clients.FieldOwner })
	if at < 0 {
		return nil
	}
	entry := fmt.Sprintf("/metadata/managedFields/%d", at)
	return patchCRD(ctx, c, []jsonpatch.Operation{
		jsonpatch.NewOperation("test", entry+"/manager", clients.FieldOwner),
		jsonpatch.NewOperation("remove", entry, nil),
	})
}

func patchCRD(ctx context.Context, c client.Client, operations []jsonpatch.Operation) error {
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConvertedCRD}}
	return c.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(clients.FieldOwner))
}

// A retirement is the change of a CRD, with a message. Without a patch the CRD is not changed.
type retirement struct {
	patch   []jsonpatch.Operation
	message string
}

// decideRetirement decides how to disable the conversion by a Service. One patch disables both the
// conversion and the version that requires it, so v1 and v1alpha3 can be read at any time.
func decideRetirement(crd *apiextensionsv1.CustomResourceDefinition, service types.NamespacedName) (retirement, error) {
	converter := converterOf(crd.Spec.Conversion)
	switch {
	case converter == "":
		return retirement{message: "no webhook converts it, nothing to do"}, nil
	case converter != "Service "+service.String():
		return retirement{message: fmt.Sprintf("%s converts it, not Service %s: not changed", converter, service)}, nil
	case slices.Contains(crd.Status.StoredVersions, convertedVersion):
		return retirement{}, errors.New("objects may be stored as " + convertedVersion + " and could not be read without conversion: " +
			"write each of them again (kubectl get virtualmachines --all-namespaces -o json | kubectl replace -f -), " +
			"remove " + convertedVersion + " from status.storedVersions, and try again")
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
	return retirement{patch: patch, message: "conversion disabled, and " + convertedVersion + " is no longer served; v1 and v1alpha3 are"}, nil
}

func converterOf(c *apiextensionsv1.CustomResourceConversion) string {
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
	return "an unknown webhook"
}

// isUnserved returns true as soon as the Service may be deleted, and false on a timeout.
func isUnserved(ctx context.Context, versions discovery.ServerResourcesInterfaceWithContext) bool {
	resource, group, _ := strings.Cut(webhooks.ConvertedCRD, ".")
	return wait.PollUntilContextCancel(ctx, retirePeriod, true, func(ctx context.Context) (bool, error) {
		served, err := versions.ServerResourcesForGroupVersionWithContext(ctx, group+"/"+convertedVersion)
		gone := err == nil && !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
		return gone || apierrors.IsNotFound(err), nil
	}) == nil
}

const noPreset = "there-is-no-such-preset"

// selfTest checks an installation as a user. It creates no objects.
func selfTest(ctx context.Context, o *options, output io.Writer) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot find the cluster: %w", err)
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := checkWebhooks(ctx, config); err != nil {
		return err
	}
	fmt.Fprintln(output, "API servers call the webhooks.")
	if o.mode != modeStandalone || !o.subresources.on() {
		return nil
	}
	clients, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	if err := clients.RESTClient().Get().AbsPath("/apis/" + subresources.Group + "/v1/version").Do(ctx).Error(); err != nil {
		return fmt.Errorf("API servers cannot call start, stop and restart: %w", err)
	}
	fmt.Fprintln(output, "API servers call start, stop and restart.")
	return nil
}

func checkWebhooks(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	vm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}},
	}}
	vm.SetNamespace(metav1.NamespaceDefault) // the manager's own is excluded
	vm.SetGenerateName("virtwright-self-test-")
	vm.SetAnnotations(map[string]string{v1alpha1.AnnotationPresets: noPreset})
	err = c.Create(ctx, vm, client.DryRunAll)
	switch {
	case err == nil:
		return errors.New("API servers do not call the webhooks: a VM that names a preset that does not exist was admitted")
	case strings.Contains(err.Error(), noPreset) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)):
		return nil
	}
	return fmt.Errorf("API servers cannot call the webhooks: %w", err)
}
