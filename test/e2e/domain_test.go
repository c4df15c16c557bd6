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

// claimed says that an instance is in a phase on a node, as its agent would.
func (s *story) claimed(name, phase, node string) {
	GinkgoHelper()
	_, err := s.as(clientAs(trusted), instance).Patch(here.ctx, name, types.MergePatchType,
		[]byte(`{"status": {"phase": "`+phase+`", "nodeName": "`+node+`"}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// refusedInstance is the answer about an instance that something cannot be done to.
func refusedInstance(name, text string) OmegaMatcher {
	return refusedWith(http.StatusConflict, `Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "`+name+`": `+text)
}

var _ = Describe("Instances by their subresources", Ordered, func() {
	var s *story
	BeforeAll(func() {
		serveSubresources()
		installRoles()
	})
	BeforeEach(func() { s = newStory() })

	It("show the domain that they become, to those who may look", func() {
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

		Expect(s.domain("", "none", "")).To(refusedWith(http.StatusNotFound, `virtualmachineinstance.kubevirt.io "none" not found`))
		Expect(s.domain("", "web", "?stage=x")).To(refusedWith(http.StatusBadRequest, `stage must be frontend or backend, not "x"`))
		Expect(call("", http.MethodPut, ownSubresources+"/namespaces/"+s.ns+"/virtualmachineinstances/web/domain", "").code).To(Equal(http.StatusMethodNotAllowed))
	})

	It("show what was decided, and by which profiles, as soon as there are some", func() {
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

	It("are reset and rebooted while they run, by those who may", func() {
		s.create(tinyInstance("web", ""))
		for _, verb := range []string{"reset", "softreboot"} {
			Expect(s.ask("", "none", verb, "")).To(refusedWith(http.StatusNotFound, `virtualmachineinstance.kubevirt.io "none" not found`))
			Expect(s.ask("", "web", verb, "")).To(refusedInstance("web", "VMI is not running"))
		}
		s.claimed("web", "Running", "")
		Expect(s.ask("", "web", "reset", "")).To(refusedInstance("web", "no node agent runs the VMI, which could do it: status.nodeName is empty"))
		s.claimed("web", "Running", "node-a")
		Expect(s.ask("", "web", "reset", "?dryRun=All")).To(accepted())
		Expect(s.get(instance, "web").GetAnnotations()).NotTo(HaveKey("virtwright.dev/power-request"))

		ids := map[any]bool{}
		for _, verb := range []string{"reset", "softreboot", "reset"} {
			Expect(s.ask("", "web", verb, "")).To(accepted())
			var request map[string]any
			Expect(json.Unmarshal([]byte(s.get(instance, "web").GetAnnotations()["virtwright.dev/power-request"]), &request)).To(Succeed())
			Expect(request).To(HaveKeyWithValue("action", verb))
			ids[request["id"]] = true
		}
		Expect(ids).To(HaveLen(3))

		s.bind("vera", "view")
		Expect(s.ask("vera", "web", "reset", "").code).To(Equal(http.StatusForbidden))
		s.bind("eddy", "edit")
		Eventually(func() answer { return s.ask("eddy", "web", "softreboot", "") }).Should(accepted())
		_, err := s.as(as("eddy"), instance).Patch(here.ctx, "web", types.MergePatchType,
			[]byte(`{"metadata": {"annotations": {"virtwright.dev/power-request": "{}"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("reserved-annotations")))

		s.claimed("web", "Succeeded", "node-a")
		Expect(s.ask("", "web", "softreboot", "")).To(refusedInstance("web", "VMI is not running"))
	})

	It("are reset by the program that people have", func() {
		s.create(tinyInstance("web", ""))
		s.claimed("web", "Running", "node-a")
		code, stdout, stderr := s.virtwright("reset", "web").ends()
		Expect(code).To(BeZero(), stderr)
		Expect(stdout).To(Equal("VMI web was scheduled to reset\n"))
		code, _, stderr = s.virtwright("softreboot", "none").ends()
		Expect(code).To(Equal(1))
		Expect(stderr).To(ContainSubstring(`cannot softreboot VMI ` + s.ns + `/none: virtualmachineinstance.kubevirt.io "none" not found`))
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
