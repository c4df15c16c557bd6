package webhooks

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/validation/protection"
)

// ConfigurationName is the name of both webhook configurations. API servers call
// mutating webhooks in the order of these names, and virtwright must come before
// KubeVirt, whose defaults would otherwise look like the author's.
const ConfigurationName = "admission.virtwright.dev"

// KubeVirtConfigurationName is the name of KubeVirt's mutating configuration.
const KubeVirtConfigurationName = "virt-api-mutator"

// Paths of the webhooks.
const (
	PathMutateVirtualMachine                = "/mutate-kubevirt-io-v1-virtualmachine"
	PathMutateVirtualMachineInstance        = "/mutate-kubevirt-io-v1-virtualmachineinstance"
	PathValidateVirtualMachine              = "/validate-kubevirt-io-v1-virtualmachine"
	PathValidateVirtualMachineInstance      = "/validate-kubevirt-io-v1-virtualmachineinstance"
	PathValidateLegacyPreset                = "/validate-kubevirt-io-v1-virtualmachineinstancepreset"
	PathConvertVirtualMachine               = "/convert-kubevirt-io-virtualmachine"
	PathValidateVirtualMachinePreset        = "/validate-virtwright-dev-v1alpha1-virtualmachinepreset"
	PathValidateClusterVirtualMachinePreset = "/validate-virtwright-dev-v1alpha1-clustervirtualmachinepreset"
	PathMutateTemplateRequest               = "/mutate-ssp-kubevirt-io-v1alpha1-virtualmachinetemplaterequest"
	PathValidateTemplateRequest             = "/validate-ssp-kubevirt-io-v1alpha1-virtualmachinetemplaterequest"
	PathValidateFrontendProfile             = "/validate-virtwright-dev-v1alpha1-frontendprofile"
	PathValidateBackendProfile              = "/validate-virtwright-dev-v1alpha1-backendprofile"
	PathValidatePresetException             = "/validate-virtwright-dev-v1alpha1-presetexception"
)

// A Registration says how API servers reach the webhooks and whom they leave alone.
type Registration struct {
	// Service leads to the webhooks, for a manager that runs in the cluster.
	Service *admissionregistrationv1.ServiceReference
	// URL leads to the webhooks instead, as https://HOST:PORT.
	URL string
	// CABundle is what API servers shall trust, in PEM; empty where something
	// else injects it.
	CABundle []byte
	// Namespace is the manager's own. What it runs on must not hang on it.
	Namespace string
	// Guard knows the users whose updates are left alone, and the rules that
	// policies hold in the API server.
	Guard protection.Guard
}

// kubevirtVersions are the versions of kubevirt.io whose objects have the form that presets know.
var kubevirtVersions = []string{"v1", "v1alpha3"}

// A hook is one webhook, of either sort.
type hook struct {
	path       string
	group      string
	versions   []string
	resource   string
	scope      admissionregistrationv1.ScopeType
	operations []admissionregistrationv1.OperationType
	conditions []condition
	namespaces *metav1.LabelSelector
	// warns says that the webhook refuses nothing, so that requests do not depend on it.
	warns bool
}

const (
	create = admissionregistrationv1.Create
	update = admissionregistrationv1.Update
)

func (r Registration) mutating() []hook {
	elsewhere := r.otherNamespaces()
	return []hook{{
		path: PathMutateVirtualMachine, group: "kubevirt.io", versions: kubevirtVersions, resource: "virtualmachines",
		scope: admissionregistrationv1.NamespacedScope, namespaces: elsewhere,
		operations: []admissionregistrationv1.OperationType{create, update},
		conditions: []condition{notDeleted(), notTrusted(r.Guard.Trusted), unguarded(r.Guard), machineChanged()},
	}, {
		path: PathMutateVirtualMachineInstance, group: "kubevirt.io", versions: kubevirtVersions, resource: "virtualmachineinstances",
		scope: admissionregistrationv1.NamespacedScope, namespaces: elsewhere,
		operations: []admissionregistrationv1.OperationType{create},
		conditions: []condition{unguarded(r.Guard)},
	}, templateRequests(PathMutateTemplateRequest)}
}

// templateRequests are looked at in every namespace: who asks is written on each.
func templateRequests(path string) hook {
	return hook{
		path: path, group: sspv1alpha1.GroupName, versions: []string{sspv1alpha1.GroupVersion.Version},
		resource: sspv1alpha1.ResourceVirtualMachineTemplateRequests,
		scope:    admissionregistrationv1.NamespacedScope, namespaces: &metav1.LabelSelector{},
		operations: []admissionregistrationv1.OperationType{create, update},
		conditions: []condition{notDeleted(), specChanged()},
	}
}

func (r Registration) validating() []hook {
	// An object that waits for finalizers still acts, so its changes are checked, too.
	ours := func(path, resource string, scope admissionregistrationv1.ScopeType) hook {
		return hook{
			path: path, group: v1alpha1.GroupName, versions: []string{v1alpha1.GroupVersion.Version}, resource: resource,
			scope: scope, namespaces: &metav1.LabelSelector{},
			operations: []admissionregistrationv1.OperationType{create, update},
			conditions: []condition{specChanged()},
		}
	}
	machine := func(path, resource string, changed condition) hook {
		return hook{
			path: path, group: "kubevirt.io", versions: kubevirtVersions, resource: resource,
			scope: admissionregistrationv1.NamespacedScope, namespaces: r.otherNamespaces(),
			operations: []admissionregistrationv1.OperationType{create, update},
			conditions: []condition{notTrusted(r.Guard.Trusted), changed},
		}
	}
	hooks := []hook{
		machine(PathValidateVirtualMachine, "virtualmachines", machineGuarded(r.Guard)),
		machine(PathValidateVirtualMachineInstance, "virtualmachineinstances", instanceGuarded(r.Guard)),
		ours(PathValidateVirtualMachinePreset, v1alpha1.ResourceVirtualMachinePresets, admissionregistrationv1.NamespacedScope),
		ours(PathValidateClusterVirtualMachinePreset, v1alpha1.ResourceClusterVirtualMachinePresets, admissionregistrationv1.ClusterScope),
		ours(PathValidateFrontendProfile, v1alpha1.ResourceFrontendProfiles, admissionregistrationv1.ClusterScope),
		ours(PathValidateBackendProfile, v1alpha1.ResourceBackendProfiles, admissionregistrationv1.ClusterScope),
		ours(PathValidatePresetException, v1alpha1.ResourcePresetExceptions, admissionregistrationv1.NamespacedScope),
		templateRequests(PathValidateTemplateRequest),
	}
	hooks = append(hooks,
		presetDeletions(PathValidateVirtualMachinePreset, v1alpha1.ResourceVirtualMachinePresets, admissionregistrationv1.NamespacedScope),
		presetDeletions(PathValidateClusterVirtualMachinePreset, v1alpha1.ResourceClusterVirtualMachinePresets, admissionregistrationv1.ClusterScope),
	)
	if !r.Guard.Addon { // where KubeVirt applies and validates them itself
		hooks = append(hooks, hook{
			path: PathValidateLegacyPreset, group: "kubevirt.io", versions: kubevirtVersions, resource: "virtualmachineinstancepresets",
			scope: admissionregistrationv1.NamespacedScope, namespaces: &metav1.LabelSelector{},
			operations: []admissionregistrationv1.OperationType{create, update},
			conditions: []condition{specChanged()},
		})
	}
	return hooks
}

// presetDeletions are looked at if VMs have the preset and a person, or a tool of theirs, deletes it.
func presetDeletions(path, resource string, scope admissionregistrationv1.ScopeType) hook {
	return hook{
		path: path, group: v1alpha1.GroupName, versions: []string{v1alpha1.GroupVersion.Version}, resource: resource,
		scope: scope, namespaces: &metav1.LabelSelector{}, warns: true,
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
		conditions: []condition{inUse(), notByCluster()},
	}
}

// otherNamespaces are all but the system's and the manager's own, which must
// come up while no webhook answers.
func (r Registration) otherNamespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: ExcludedNamespaces(r.Namespace),
	}}}
}

// ExcludedNamespaces are those whose VMs no webhook serves and no controller starts: the
// system's, and the manager's own if it has one.
func ExcludedNamespaces(own string) []string {
	excluded := []string{metav1.NamespaceSystem}
	if own != "" && own != metav1.NamespaceSystem {
		excluded = append(excluded, own)
	}
	return excluded
}

// Configurations are the webhooks as API servers know them. Every field that
// an API server would default is set.
func (r Registration) Configurations() (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	mutating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	mutating.Name = ConfigurationName
	for _, h := range r.mutating() {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: h.name(), ClientConfig: r.clientConfig(h.path), Rules: h.rules(),
			FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Equivalent),
			NamespaceSelector: h.namespaces, ObjectSelector: &metav1.LabelSelector{},
			SideEffects: new(admissionregistrationv1.SideEffectClassNoneOnDryRun), TimeoutSeconds: new(int32(Timeout.Seconds())),
			AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
			MatchConditions: h.conditions,
		})
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	validating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	validating.Name = ConfigurationName
	for _, h := range r.validating() {
		failure, timeout := admissionregistrationv1.Fail, int32(Timeout.Seconds())
		if h.warns {
			failure, timeout = admissionregistrationv1.Ignore, warningSeconds
		}
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: h.name(), ClientConfig: r.clientConfig(h.path), Rules: h.rules(),
			FailurePolicy: new(failure), MatchPolicy: new(admissionregistrationv1.Equivalent),
			NamespaceSelector: h.namespaces, ObjectSelector: &metav1.LabelSelector{},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(timeout),
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: h.conditions,
		})
	}
	return mutating, validating
}

// name is the webhook's, which audit annotations and messages carry.
func (h hook) name() string {
	if h.warns {
		return "deletion." + h.resource + "." + ConfigurationName
	}
	return h.resource + "." + ConfigurationName
}

// warningSeconds is how long an API server waits for a webhook that only warns.
const warningSeconds = 1

func (h hook) rules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: h.operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{h.group}, APIVersions: h.versions, Resources: []string{h.resource}, Scope: new(h.scope),
		},
	}}
}

// ConvertedCRD is the name of the CRD whose objects are converted.
const ConvertedCRD = "virtualmachines.kubevirt.io"

// Objects are all that tells API servers of virtwright, in the order in which it
// takes effect: policies hold before webhooks are called.
func (r Registration) Objects() []client.Object {
	var out []client.Object
	policies, bindings := r.Guard.Policies()
	for i := range policies {
		out = append(out, policies[i], bindings[i])
	}
	mutating, validating := r.Configurations()
	return append(out, validating, mutating)
}

// Conversion is how API servers convert VirtualMachines, which only where there
// is no KubeVirt are virtwright's to convert.
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
