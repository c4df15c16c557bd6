package e2e

import (
	"encoding/json"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const ownSubresources = "/apis/subresources.virtwright.dev/v1alpha1"

// domain asks for the domain of an instance.
func (s *story) domain(user, name, query string, headers ...string) answer {
	GinkgoHelper()
	return call(user, http.MethodGet, ownSubresources+"/namespaces/"+s.ns+"/virtualmachineinstances/"+name+"/domain"+query, "", headers...)
}

// ask has something done to an instance.
func (s *story) ask(user, name, verb, query string) answer {
	GinkgoHelper()
	return call(user, http.MethodPut, "namespaces/"+s.ns+"/virtualmachineinstances/"+name+"/"+verb+query, "")
}

// claimed writes fields of the status of a VMI, as its controller would.
func (s *story) claimed(name, status string) {
	GinkgoHelper()
	_, err := s.as(clientAs(trusted), instance).Patch(here.ctx, name, types.MergePatchType, []byte(`{"status": {`+status+`}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// rejectedInstance is the answer about an instance that something cannot be done to.
func rejectedInstance(name, text string) OmegaMatcher {
	return rejectedWith(http.StatusConflict, `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "`+name+`": `+text)
}

var _ = Describe("Instances by their subresources", Ordered, func() {
	var s *story
	BeforeAll(func() {
		serveSubresources()
		installRoles()
	})
	BeforeEach(func() { s = newStory() })

	It("show their domain, to users with permission", func() {
		s.create(tinyInstance("web", ""))
		got := s.domain("", "web", "")
		Expect(got.code).To(Equal(http.StatusOK), got.body)
		Expect(got.headers.Get("Content-Type")).To(Equal("application/xml"))
		Expect(got.body).To(And(HavePrefix("<domain type="), ContainSubstring("<name>"+s.ns+"_web</name>"), ContainSubstring("<metadata>")))
		Expect(s.domain("", "web", "?stage=frontend").body).To(And(HavePrefix("<domain"), Not(ContainSubstring("<metadata>"))))

		Expect(s.domain("mallory", "web", "").code).To(Equal(http.StatusForbidden))
		Expect(s.domain("mallory", "web", "").status().Message).To(ContainSubstring(`cannot get resource "virtualmachineinstances/domain" in API group "subresources.virtwright.dev"`))
		s.bind("vera", "view")
		Eventually(func() int { return s.domain("vera", "web", "").code }).Should(Equal(http.StatusOK))

		Expect(s.domain("", "none", "")).To(rejectedWith(http.StatusNotFound, `virtualmachineinstance.kubevirt.io "none" not found`))
		Expect(s.domain("", "web", "?stage=x")).To(rejectedWith(http.StatusBadRequest, `stage: Unsupported value: "x": supported values: "frontend", "backend"`))
		Expect(call("", http.MethodPut, ownSubresources+"/namespaces/"+s.ns+"/virtualmachineinstances/web/domain", "").code).To(Equal(http.StatusMethodNotAllowed))
	})

	It("show the decisions of profiles, as soon as there are some", func() {
		s.create(tinyInstance("web", ", labels: {of: "+s.ns+"}"))
		s.profile(aProfile(backendProfile, s.ns, `{match: {labels: {matchLabels: {of: `+s.ns+`}}}}`))
		whole := map[string]any{}
		Eventually(func() any {
			got := s.domain("", "web", "", "Accept: application/json")
			Expect(got.headers.Get("Content-Type")).To(Equal("application/json"))
			Expect(json.Unmarshal([]byte(got.body), &whole)).To(Succeed(), got.body)
			return whole["profiles"]
		}).Should(HaveKeyWithValue("backend", ContainElement(s.ns)))
		Expect(whole).To(And(HaveKeyWithValue("decisions", Not(BeEmpty())), HaveKeyWithValue("late", Not(BeNil())), HaveKeyWithValue("domain", ContainSubstring("<domain"))))
		stdout, _ := s.kubectl("", "get", "--raw", ownSubresources+"/namespaces/"+s.ns+"/virtualmachineinstances/web/domain")
		Expect(json.Unmarshal([]byte(stdout), &whole)).To(Succeed(), "kubectl asks for JSON")
		Expect(whole["domain"]).To(HavePrefix("<domain"))
	})

	It("leave kubectl and discovery as they were", func() {
		var list metav1.APIResourceList
		Expect(json.Unmarshal([]byte(call("", http.MethodGet, ownSubresources, "").body), &list)).To(Succeed())
		Expect(list.APIResources).To(HaveExactElements(HaveField("Name", "virtualmachineinstances/domain")))
		Expect(list.APIResources[0].Verbs).To(BeEmpty())
		s.create(tinyInstance("web", ""))
		stdout, stderr := s.kubectl("", "get", "vmi", "web", "-o", "name")
		Expect(stdout + stderr).To(Equal("virtualmachineinstance.kubevirt.io/web\n"))
		Eventually(func() string { return call("", http.MethodGet, "/openapi/v3", "").body }).Should(ContainSubstring("apis/subresources.virtwright.dev/v1alpha1"))
	})
})
