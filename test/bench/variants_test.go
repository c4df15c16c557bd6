package bench

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks"
)

// answering is a webhook that reads a review no further than its UID and answers the rest from
// memory.
func answering(rest []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, after, _ := bytes.Cut(body, []byte(`"uid":"`))
		uid, _, _ := bytes.Cut(after, []byte(`"`))
		w.Header().Set("Content-Type", "application/json")
		for _, part := range [][]byte{[]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"`), uid, []byte(`",`), rest, []byte(`}}`)} {
			_, _ = w.Write(part)
		}
	})
}

// canned answers what ours answered once to the VM that is measured.
func canned(b *testing.B, ours http.Handler) http.Handler {
	raw, err := json.Marshal(object("virtwright", "canned"))
	if err != nil {
		b.Fatal(err)
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Namespace: "virtwright", Name: "canned",
			Object: runtime.RawExtension{Raw: raw}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		b.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	ours.ServeHTTP(recorder, request)
	var answer struct{ Response map[string]json.RawMessage }
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || len(answer.Response["patch"]) == 0 {
		b.Fatalf("cannot record an answer: %v, %s", err, recorder.Body)
	}
	delete(answer.Response, "uid")
	rest, err := json.Marshal(answer.Response)
	if err != nil {
		b.Fatal(err)
	}
	return answering(bytes.Trim(rest, "{}"))
}

// setUp makes the namespace of each variant and what acts in it.
func setUp(b *testing.B, clients kubernetes.Interface, server *httptest.Server) {
	b.Helper()
	ctx := b.Context()
	for _, variant := range variants {
		if _, err := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: variant}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	mutating, validating := hooks(server.URL, ca)
	configuration.Webhooks = append(configuration.Webhooks, mutating)
	for _, variant := range []string{"virtwright", "canned", "noop"} {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    variant + ".bench.virtwright.dev",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new(server.URL + "/" + variant), CABundle: ca},
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule()},
			NamespaceSelector:       inNamespace(variant),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	registration := clients.AdmissionregistrationV1()
	if _, err := registration.MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	guard(b, registration, &validating)
	if _, err := registration.MutatingAdmissionPolicies().Create(ctx, policy(), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "bench"}}
	if _, err := registration.MutatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// hooks are the webhooks of VMs as an installation registers them, for the namespace guarded.
func hooks(url string, ca []byte) (admissionregistrationv1.MutatingWebhook, admissionregistrationv1.ValidatingWebhook) {
	mutating, validating := webhooks.Registration{URL: url, CABundle: ca}.Configurations()
	at := slices.IndexFunc(mutating.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return strings.HasSuffix(*w.ClientConfig.URL, webhooks.PathMutateVirtualMachine)
	})
	first := mutating.Webhooks[at]
	at = slices.IndexFunc(validating.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return strings.HasSuffix(*w.ClientConfig.URL, webhooks.PathValidateVirtualMachine)
	})
	second := validating.Webhooks[at]
	first.NamespaceSelector, second.NamespaceSelector = inNamespace("guarded"), inNamespace("guarded")
	return first, second
}

// guard installs what validates in the namespace guarded.
func guard(b *testing.B, registration admissionregistrationclient.AdmissionregistrationV1Interface, webhook *admissionregistrationv1.ValidatingWebhook) {
	b.Helper()
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{*webhook}}
	if _, err := registration.ValidatingWebhookConfigurations().Create(b.Context(), validating, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	policies, bindings := protection.Guard{}.Policies()
	for i := range policies {
		if _, err := registration.ValidatingAdmissionPolicies().Create(b.Context(), policies[i], metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		bindings[i].Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: inNamespace("guarded")}
		if _, err := registration.ValidatingAdmissionPolicyBindings().Create(b.Context(), bindings[i], metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func rule() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualmachines"}},
	}
}

func inNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

// policy sets the scalar leaves of presettest.RealisticPresets that lie outside lists, which a
// policy cannot merge.
func policy() *admissionregistrationv1.MutatingAdmissionPolicy {
	const expression = `
Object{
  metadata: Object.metadata{labels: {"example.com/managed": "true"}},
  spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
    terminationGracePeriodSeconds: 180, evictionStrategy: "LiveMigrate", architecture: "amd64",
    nodeSelector: {"example.com/pool": "web"},
    dnsPolicy: "ClusterFirst", hostname: "web", subdomain: "shop", priorityClassName: "production", schedulerName: "default-scheduler",
    domain: Object.spec.template.spec.domain{
      ioThreadsPolicy: "auto",
      machine: Object.spec.template.spec.domain.machine{type: "q35"},
      cpu: Object.spec.template.spec.domain.cpu{model: "host-model", sockets: 1, threads: 1},
      features: Object.spec.template.spec.domain.features{
        acpi: Object.spec.template.spec.domain.features.acpi{enabled: true},
        apic: Object.spec.template.spec.domain.features.apic{enabled: true}},
      firmware: Object.spec.template.spec.domain.firmware{bootloader: Object.spec.template.spec.domain.firmware.bootloader{
        efi: Object.spec.template.spec.domain.firmware.bootloader.efi{secureBoot: false}}},
      chassis: Object.spec.template.spec.domain.chassis{manufacturer: "Example", sku: "web"},
      devices: Object.spec.template.spec.domain.devices{
        blockMultiQueue: true, networkInterfaceMultiqueue: true, autoattachMemBalloon: true}
    }}}}
}`
	return &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: inNamespace("policy"),
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule()}},
			},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
			}},
		},
	}
}
