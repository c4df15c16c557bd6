package e2e

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
)

// addressVariable is the address under which API servers of a cluster that was there before reach
// this process.
const addressVariable = "E2E_ADDRESS"

// A meddler is another mutating webhook, which the API server calls after ours, in the story's
// namespace only.
func (s *story) meddler(patch string) {
	GinkgoHelper()
	address := cmp.Or(os.Getenv(addressVariable), "127.0.0.1")
	pem, key, err := cert.GenerateSelfSignedCertKey(address, []net.IP{net.ParseIP(address)}, nil)
	Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(pem, key)
	Expect(err).NotTo(HaveOccurred())
	listener, err := tls.Listen("tcp", net.JoinHostPort(address, "0"), &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: new(admissionv1.PatchTypeJSONPatch),
		}
		_ = json.NewEncoder(w).Encode(review)
	})}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "zz-meddler-" + s.ns},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "meddler.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://" + listener.Addr().String()), CABundle: pem},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualmachines"}},
			}},
		}},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	Expect(err).NotTo(HaveOccurred())
	api := here.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"})
	_, err = api.Create(here.ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return api.Delete(here.ctx, config.Name, metav1.DeleteOptions{}) })
}

var _ = Describe("A webhook that acts after virtwright", func() {
	var s *story
	BeforeEach(func() {
		s = newStory()
		s.preset(aPreset("rules", `{overrides: {spec: {template: {spec: {hostname: ours, domain: {memory: {guest: 1Gi}}}}}},
remove: ["spec.template.spec.domain.devices.rng"], forbid: [{path: spec.template.spec.subdomain, message: "no subdomains here"}]}`))
	})
	aVM := vm("web", "spec: {template: {spec: {domain: {devices: {rng: {}}}}}}")
	for what, c := range map[string]struct{ patch, says string }{
		"an override": {
			`[{"op":"replace","path":"/spec/template/spec/hostname","value":"theirs"}]`,
			"spec.template.spec.hostname: Invalid value: \"\\\"theirs\\\"\": must have the preset's value: preset rules overrules it, but a later webhook changed it",
		},
		"a removal": {`[{"op":"add","path":"/spec/template/spec/domain/devices/rng","value":{}}]`, "spec.template.spec.domain.devices.rng"},
		"a rule":    {`[{"op":"add","path":"/spec/template/spec/subdomain","value":"x"}]`, "no subdomains here (preset rules)"},
	} {
		It("cannot undo "+what, func() {
			s.meddler(c.patch)
			// The API server takes a moment to call a new webhook.
			Eventually(func() error {
				in := s.parse(aVM)
				_, err := s.of(virtualMachine).Create(here.ctx, in, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}).Should(MatchError(ContainSubstring(c.says)))
		})
	}

	It("may add what no preset minds", func() {
		s.meddler(`[{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}},{"op":"add","path":"/spec/template/spec/nodeSelector","value":{"a":"b"}}]`)
		Eventually(func(g Gomega) {
			in := s.parse(aVM)
			got, err := s.of(virtualMachine).Create(here.ctx, in, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(And(haveAt("metadata.labels.seen", "yes"), haveAt("spec.template.spec.hostname", "ours")))
		}).Should(Succeed())
	})
})
