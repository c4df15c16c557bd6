package webhooks

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
)

// ConfigurationName is the name of both webhook configurations. API servers call mutating webhooks
// in the order of these names. virtwright must come before KubeVirt, because KubeVirt's defaults
// look like values of the author.
const ConfigurationName = "admission.virtwright.dev"

// ConvertedCRD is the name of the CRD whose objects are converted.
const ConvertedCRD = "virtualmachines.kubevirt.io"

// Paths of the webhooks.
const (
	PathMutateVirtualMachine                = "/mutate-kubevirt-io-v1-virtualmachine"
	pathMutateVirtualMachineInstance        = "/mutate-kubevirt-io-v1-virtualmachineinstance"
	PathValidateVirtualMachine              = "/validate-kubevirt-io-v1-virtualmachine"
	pathValidateVirtualMachineInstance      = "/validate-kubevirt-io-v1-virtualmachineinstance"
	pathValidateLegacyPreset                = "/validate-kubevirt-io-v1-virtualmachineinstancepreset"
	PathConvertVirtualMachine               = "/convert-kubevirt-io-virtualmachine"
	pathValidateVirtualMachinePreset        = "/validate-virtwright-dev-v1alpha1-virtualmachinepreset"
	PathValidateClusterVirtualMachinePreset = "/validate-virtwright-dev-v1alpha1-clustervirtualmachinepreset"
	pathMutateTemplateRequest               = "/mutate-ssp-kubevirt-io-v1alpha1-virtualmachinetemplaterequest"
	pathValidateTemplateRequest             = "/validate-ssp-kubevirt-io-v1alpha1-virtualmachinetemplaterequest"
	pathValidateFrontendProfile             = "/validate-virtwright-dev-v1alpha1-frontendprofile"
	pathValidateBackendProfile              = "/validate-virtwright-dev-v1alpha1-backendprofile"
	pathValidatePresetException             = "/validate-virtwright-dev-v1alpha1-presetexception"
	pathValidatePresetRollout               = "/validate-virtwright-dev-v1alpha1-presetrollout"
	pathValidateEviction                    = "/validate-v1-pod-eviction"
	pathValidateCopies                      = "/validate-copies"
)

// A Registration describes the webhooks to API servers.
type Registration struct {
	// Service leads to the webhooks, for a manager that runs in the cluster.
	Service *admissionregistrationv1.ServiceReference
	// URL leads to the webhooks instead, as https://HOST:PORT.
	URL string
	// CABundle verifies the webhooks, in PEM; empty if another program injects it.
	CABundle []byte
	// Namespace is the manager's own, where VMs are not admitted by webhooks: the manager must be
	// able to start before it serves them.
	Namespace string
	// Guard has the users whose updates are not checked, and the admission policies.
	Guard protection.Guard
}

// A hook is one mutating or validating webhook.
type hook struct {
	path       string
	group      string
	versions   []string
	resource   string
	scope      admissionregistrationv1.ScopeType
	operations []admissionregistrationv1.OperationType
	conditions []matchCondition
	// allNamespaces includes the namespaces that ExcludedNamespaces returns.
	allNamespaces bool
	// warns means that the webhook never rejects, so requests do not depend on it.
	warns bool
	// notes means that the webhook has side effects, and that requests do not depend on it.
	notes bool
}

const (
	clusterScope    = admissionregistrationv1.ClusterScope
	namespacedScope = admissionregistrationv1.NamespacedScope
)

var (
	onCreate = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	onWrite  = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	onDelete = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
)

func kubevirtHook(path, resource string, conditions ...matchCondition) hook {
	return hook{
		path: path, group: "kubevirt.io", versions: []string{"v1", "v1alpha3"}, resource: resource, scope: namespacedScope,
		operations: onWrite, conditions: conditions,
	}
}

// virtwrightHook matches objects that are being deleted, too: they have an effect until they are
// gone.
func virtwrightHook(path, resource string, scope admissionregistrationv1.ScopeType) hook {
	return hook{
		path: path, group: v1alpha1.GroupName, versions: []string{v1alpha1.GroupVersion.Version}, resource: resource, scope: scope,
		operations: onWrite, conditions: []matchCondition{specChanged()}, allNamespaces: true,
	}
}

// templateHook matches every namespace, because the requester is recorded on each request.
func templateHook(path string) hook {
	return hook{
		path: path, group: sspv1alpha1.GroupName, versions: []string{sspv1alpha1.GroupVersion.Version},
		resource: sspv1alpha1.ResourceVirtualMachineTemplateRequests, scope: namespacedScope,
		operations: onWrite, conditions: []matchCondition{notDeleted(), specChanged()}, allNamespaces: true,
	}
}

// deletionHook matches deletions of presets that VMs use, by users.
func deletionHook(path, resource string, scope admissionregistrationv1.ScopeType) hook {
	h := virtwrightHook(path, resource, scope)
	h.warns, h.operations, h.conditions = true, onDelete, []matchCondition{inUse(), notByCluster()}
	return h
}

func rolloutHook() hook {
	h := virtwrightHook(pathValidatePresetRollout, v1alpha1.ResourcePresetRollouts, clusterScope)
	h.conditions = []matchCondition{specOrApprovalChanged()}
	return h
}

func (r Registration) mutating() []hook {
	vm, vmi := presets.VirtualMachine, presets.VirtualMachineInstance
	vmis := kubevirtHook(pathMutateVirtualMachineInstance, "virtualmachineinstances", unguarded(r.Guard, vmi))
	vmis.operations = onCreate
	return []hook{
		kubevirtHook(PathMutateVirtualMachine, "virtualmachines", notDeleted(), notTrusted(r.Guard, vm), unguarded(r.Guard, vm), vmChanged(r.Guard)),
		vmis,
		templateHook(pathMutateTemplateRequest),
	}
}

func (r Registration) validating() []hook {
	const namespacedPresets, clusterPresets = v1alpha1.ResourceVirtualMachinePresets, v1alpha1.ResourceClusterVirtualMachinePresets
	hooks := []hook{
		kubevirtHook(PathValidateVirtualMachine, "virtualmachines", notTrusted(r.Guard, presets.VirtualMachine), vmValidated(r.Guard)),
		kubevirtHook(pathValidateVirtualMachineInstance, "virtualmachineinstances", notTrusted(r.Guard, presets.VirtualMachineInstance), vmiValidated(r.Guard)),
		virtwrightHook(pathValidateVirtualMachinePreset, namespacedPresets, namespacedScope),
		virtwrightHook(PathValidateClusterVirtualMachinePreset, clusterPresets, clusterScope),
		virtwrightHook(pathValidateFrontendProfile, v1alpha1.ResourceFrontendProfiles, clusterScope),
		virtwrightHook(pathValidateBackendProfile, v1alpha1.ResourceBackendProfiles, clusterScope),
		virtwrightHook(pathValidatePresetException, v1alpha1.ResourcePresetExceptions, namespacedScope),
		rolloutHook(),
		templateHook(pathValidateTemplateRequest),
		deletionHook(pathValidateVirtualMachinePreset, namespacedPresets, namespacedScope),
		deletionHook(PathValidateClusterVirtualMachinePreset, clusterPresets, clusterScope),
	}
	if r.Guard.Addon { // KubeVirt has the other webhooks itself
		return append(hooks, r.copying()...)
	}
	legacy := kubevirtHook(pathValidateLegacyPreset, "virtualmachineinstancepresets", specChanged())
	legacy.allNamespaces = true
	return append(hooks, legacy, hook{
		path: pathValidateEviction, versions: []string{"v1"}, resource: "pods/eviction", scope: namespacedScope,
		operations: onCreate, conditions: []matchCondition{ofLauncher()}, notes: true,
	})
}

// ExcludedNamespaces returns the namespaces whose VMs no webhook admits and no controller starts:
// kube-system, and the manager's own if it has one. They must work while no webhook answers.
func ExcludedNamespaces(own string) []string {
	excluded := []string{metav1.NamespaceSystem}
	if own != "" && own != metav1.NamespaceSystem {
		excluded = append(excluded, own)
	}
	return excluded
}

func (r Registration) namespaces(h hook) *metav1.LabelSelector {
	if h.allNamespaces {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: ExcludedNamespaces(r.Namespace),
	}}}
}

// Configurations returns the webhook configurations. Every field that API servers would default is
// set.
func (r Registration) Configurations() (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	mutating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	mutating.Name = ConfigurationName
	timeout := int32(defaultTimeout.Seconds())
	for _, h := range r.mutating() {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: h.name(), ClientConfig: r.clientConfig(h.path), Rules: h.rules(),
			FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Equivalent),
			NamespaceSelector: r.namespaces(h), ObjectSelector: &metav1.LabelSelector{},
			SideEffects: new(admissionregistrationv1.SideEffectClassNoneOnDryRun), TimeoutSeconds: new(timeout),
			AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
			MatchConditions: h.conditions,
		})
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	validating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	validating.Name = ConfigurationName
	for _, h := range r.validating() {
		failure, effects, timeout := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, timeout
		switch {
		case h.warns:
			failure, timeout = admissionregistrationv1.Ignore, 1
		case h.notes:
			failure, effects = admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNoneOnDryRun
		}
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: h.name(), ClientConfig: r.clientConfig(h.path), Rules: h.rules(),
			FailurePolicy: new(failure), MatchPolicy: new(admissionregistrationv1.Equivalent),
			NamespaceSelector: r.namespaces(h), ObjectSelector: &metav1.LabelSelector{},
			SideEffects: new(effects), TimeoutSeconds: new(timeout),
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: h.conditions,
		})
	}
	return mutating, validating
}

// name returns the name of the webhook, which is in audit annotations and messages.
func (h hook) name() string {
	if h.warns {
		return "deletion." + h.resource + "." + ConfigurationName
	}
	return strings.ReplaceAll(h.resource, "/", "-") + "." + ConfigurationName
}

func (h hook) rules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: h.operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{h.group}, APIVersions: h.versions, Resources: []string{h.resource}, Scope: new(h.scope),
		},
	}}
}

// Objects returns all objects that register virtwright, in the order in which they must be applied:
// policies before webhooks.
func (r Registration) Objects() []runtime.Object {
	var out []runtime.Object
	policies, bindings := r.Guard.Policies()
	for i := range policies {
		out = append(out, policies[i], bindings[i])
	}
	mutating, validating := r.Configurations()
	return append(out, validating, mutating)
}

// Conversion returns the conversion of VirtualMachines, for clusters without KubeVirt.
func (r Registration) Conversion() *apiextensionsv1.CustomResourceConversion {
	reach := r.clientConfig(PathConvertVirtualMachine)
	client := &apiextensionsv1.WebhookClientConfig{URL: reach.URL, CABundle: reach.CABundle}
	if s := reach.Service; s != nil {
		client.Service = &apiextensionsv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path, Port: s.Port}
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: client, ConversionReviewVersions: []string{"v1"}},
	}
}

func (r Registration) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: r.CABundle}
	if r.URL != "" {
		config.URL = new(strings.TrimSuffix(r.URL, "/") + path)
		return config
	}
	if config.Service = r.Service.DeepCopy(); config.Service != nil {
		config.Service.Path = new(path)
		if config.Service.Port == nil {
			config.Service.Port = new(int32(443))
		}
	}
	return config
}
