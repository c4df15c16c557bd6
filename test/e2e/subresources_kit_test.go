package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	aggregation  = "v1.subresources.kubevirt.io"
	aggregation3 = "v1alpha3.subresources.kubevirt.io"
	aggregated   = "v1alpha1.subresources.virtwright.dev"
	subresources = "/apis/subresources.kubevirt.io/v1"
	home         = "virtwright-system"
	backend      = "virtwright-subresources"
)

// An answer is what an HTTP request was answered with.
type answer struct {
	code    int
	body    string
	headers http.Header
}

// status is the answer as the error that it should be.
func (a answer) status() metav1.Status {
	GinkgoHelper()
	var out metav1.Status
	Expect(yaml.UnmarshalStrict([]byte(a.body), &out)).To(Succeed(), a.body)
	Expect(out.Kind+" "+out.APIVersion+" "+out.Status).To(Equal("Status v1 Failure"), a.body)
	Expect(out.Code).To(Equal(int32(a.code)))
	Expect(a.headers.Get("Content-Type")).To(Equal("application/json"))
	return out
}

// accepted is the answer to a start, stop or restart that was taken.
func accepted() OmegaMatcher {
	return WithTransform(func(a answer) string { return fmt.Sprint(a.code, " ", a.body) }, Equal("202 "))
}

// conflicts is the answer to one that does not fit the machine.
func conflicts(name, text string) OmegaMatcher {
	return rejectedWith(http.StatusConflict, `Operation cannot be fulfilled on virtualmachine.kubevirt.io "`+name+`": `+text)
}

func rejectedWith(code int, message string) OmegaMatcher {
	return WithTransform(func(a answer) string { return fmt.Sprint(a.code, " ", a.status().Message) }, Equal(fmt.Sprint(code, " ", message)))
}

// call sends a request as a user, without default headers; user "" is the administrator. Relative
// paths are of the subresource API.
func call(user, method, path, body string, headers ...string) answer {
	GinkgoHelper()
	config := rest.CopyConfig(here.config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	if !strings.HasPrefix(path, "/") {
		path = subresources + "/" + path
	}
	request, err := http.NewRequestWithContext(here.ctx, method, config.Host+path, content)
	Expect(err).NotTo(HaveOccurred())
	for _, header := range headers {
		key, value, _ := strings.Cut(header, ": ")
		request.Header.Set(key, value)
	}
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return answer{response.StatusCode, string(received), response.Header}
}

// put calls a subresource of a machine as KubeVirt's clients do.
func (s *story) put(verb, name string, body ...string) answer {
	GinkgoHelper()
	return call("", http.MethodPut, s.path(name, verb), strings.Join(body, ""))
}

func (s *story) path(name, verb string) string {
	return "namespaces/" + s.ns + "/virtualmachines/" + name + "/" + verb
}

// notToday rejects updates of a resource of kubevirt.io in the namespace unless an expression is
// true, until allow is called.
func (s *story) notToday(resource, unless string) (allow func()) {
	GinkgoHelper()
	name := s.ns + "-not-today"
	s.kubectl(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: ["*"], operations: [UPDATE], resources: [%[2]s]}]}
  validations: [{expression: "%[3]s", message: not today}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}}}
`, name, resource, unless, s.ns), "create", "-f", "-")
	allow = func() {
		s.kubectl("", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name, "--ignore-not-found")
	}
	DeferCleanup(allow)
	return allow
}

// requests are what a machine's controller is asked to do, each as words.
func (s *story) requests(name string) []string {
	GinkgoHelper()
	out := []string{}
	list, _ := at(s.get(virtualMachine, name), "status.stateChangeRequests").([]any)
	for _, one := range list {
		of := one.(map[string]any)
		words := []string{fmt.Sprint(of["action"])}
		if uid, ok := of["uid"]; ok {
			words = append(words, fmt.Sprint(uid))
		}
		if data, ok := of["data"]; ok {
			words = append(words, fmt.Sprint(data))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// says writes into the status of a machine, as its controller would.
func (s *story) says(name, status string) {
	GinkgoHelper()
	_, err := s.as(clientAs(trusted), virtualMachine).Patch(here.ctx, name, types.MergePatchType, []byte(`{"status": `+status+`}`), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

// runs gives a machine an instance, as its controller would, in a phase.
func (s *story) runs(name, phase string) object {
	GinkgoHelper()
	s.launch(s.get(virtualMachine, name))
	out, err := s.as(clientAs(trusted), instance).Patch(here.ctx, name, types.MergePatchType, []byte(`{"status": {"phase": "`+phase+`"}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// aggregate makes API servers find the subresource API at a port of this host.
func aggregate(port string) {
	GinkgoHelper()
	_, _, err := here.kubectl(`
{apiVersion: v1, kind: Service, metadata: {name: `+backend+`, namespace: `+home+`}, spec: {type: ExternalName, externalName: localhost}}
`, "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	manifest := here.chart("virtwright", "apiservices")
	Expect(manifest).To(And(ContainSubstring("name: "+backend), ContainSubstring("port: 443")))
	_, _, err = here.kubectl(strings.ReplaceAll(manifest, "port: 443", "port: "+port), "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

func separate() {
	_, _, err := here.kubectl("", "delete", "apiservice", aggregation, aggregation3, aggregated, "--ignore-not-found")
	Expect(err).NotTo(HaveOccurred())
}

// awaitAggregated waits until API servers reach the subresource API.
func awaitAggregated() {
	GinkgoHelper()
	_, _, err := here.kubectl("", "wait", "apiservice", aggregation, aggregated, "--for=condition=Available", "--timeout=5m")
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() int { return call("", http.MethodGet, "version", "").code }).Should(Equal(http.StatusOK))
}

// serveSubresources restarts the manager with the subresource API, until the stories are over. It
// leaves out controllers: requests to them stay visible.
func serveSubresources(more ...string) (port string) {
	GinkgoHelper()
	ownManager()
	address := freeAddress()
	_, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	here.manager.restartWith(append([]string{
		"--roles=serving",
		"--subresources-bind-address=" + address, "--subresources-service=" + home + "/" + backend,
	}, more...)...)
	aggregate(port)
	DeferCleanup(separate)
	awaitAggregated()
	return port
}
