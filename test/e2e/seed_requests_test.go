package e2e

import (
	"encoding/json"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/standin"
)

// request sends a request as a program would, and returns the object in the answer.
func request(code int, method, path, body string, headers ...string) object {
	GinkgoHelper()
	got := call("", method, path, body, headers...)
	Expect(got.code).To(Equal(code), "%s %s: %s", method, path, got.body)
	out := object(nil)
	if got.code < http.StatusBadRequest {
		out = (&story{}).parse(got.body)
	}
	return out
}

// asJSON and asYAML are a manifest in one notation, from any of both.
func asJSON(manifest string) string {
	GinkgoHelper()
	out, err := yaml.YAMLToJSON([]byte(manifest))
	Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func asYAML(manifest string) string {
	GinkgoHelper()
	out, err := yaml.JSONToYAML([]byte(manifest))
	Expect(err).NotTo(HaveOccurred())
	return string(out)
}

const (
	sendsJSON = "Content-Type: application/json"
	sendsYAML = "Content-Type: application/yaml"
)

var _ = Describe("The developer documentation of VirtualMachines, by its REST verbs", func() {
	var s *story
	var machines, machine string
	BeforeEach(func() {
		s = newStory()
		s.awaitDocumentedVersion()
		machines = "/apis/kubevirt.io/v1alpha2/namespaces/" + s.ns + "/virtualmachines"
		machine = machines + "/myvm"
	})

	DescribeTable("creates, reads, updates and deletes", func(contentType string, in func(string) string) {
		s.runtime(standin.Delays{})
		By("POST")
		made := request(http.StatusCreated, http.MethodPost, machines, in(documented), contentType)
		Expect(made).To(And(haveAt("metadata.name", "myvm"), haveAt("metadata.namespace", s.ns), haveAt("spec.running", false)))
		Expect(made.GetAPIVersion()).To(Equal("kubevirt.io/v1alpha2"))
		request(http.StatusConflict, http.MethodPost, machines, in(documented), contentType)

		By("GET of the list, and of one")
		list := request(http.StatusOK, http.MethodGet, machines, "")
		Expect(list.GetKind()).To(Equal("VirtualMachineList"))
		Expect(list.Object["items"]).To(HaveLen(1))
		everywhere := request(http.StatusOK, http.MethodGet, "/apis/kubevirt.io/v1alpha2/virtualmachines", "")
		Expect(everywhere.Object["items"]).NotTo(BeEmpty())
		one := request(http.StatusOK, http.MethodGet, machine, "")
		Expect(one).To(haveAt("metadata.uid", string(made.GetUID())))

		By("PUT of the object that was read")
		var now object
		Eventually(func() int {
			now = request(http.StatusOK, http.MethodGet, machine, "")
			now.Object["spec"].(map[string]any)["running"] = true
			body, err := json.Marshal(now.Object)
			Expect(err).NotTo(HaveOccurred())
			return call("", http.MethodPut, machine, in(string(body)), contentType).code
		}).Should(Equal(http.StatusOK), "without a write of its status in between")
		s.machineIs("myvm", "Running")
		stale, err := json.Marshal(one.Object)
		Expect(err).NotTo(HaveOccurred())
		request(http.StatusConflict, http.MethodPut, machine, in(string(stale)), contentType)

		By("PATCH of an item")
		patched := request(http.StatusOK, http.MethodPatch, machine, patchOff, "Content-Type: application/merge-patch+json")
		Expect(patched).To(haveAt("spec.running", false))
		s.machineIs("myvm", "Stopped")
		request(http.StatusOK, http.MethodPatch, machine, `[{"op":"replace","path":"/spec/running","value":true}]`, "Content-Type: application/json-patch+json")
		s.machineIs("myvm", "Running")
		Expect(s.get(instance, "myvm").GetUID()).NotTo(BeEmpty())

		By("DELETE, with all that is its")
		Expect(call("", http.MethodDelete, machine, "").code).To(Equal(http.StatusOK))
		Eventually(func() int { return call("", http.MethodGet, machine, "").code }).Should(Equal(http.StatusNotFound))
		s.noInstance("myvm")
	},
		Entry("in JSON", sendsJSON, asJSON),
		Entry("in YAML", sendsYAML, asYAML),
	)

	It("is served under the plural, as all resources are, and patches what says how", func() {
		request(http.StatusNotFound, http.MethodGet, strings.TrimSuffix(machines, "s"), "")
		request(http.StatusCreated, http.MethodPost, machines, asJSON(documented), sendsJSON)
		request(http.StatusUnsupportedMediaType, http.MethodPatch, machine, patchOn, sendsJSON)
	})
})

var _ = Describe("The example flow of the design of configurations", Ordered, ContinueOnFailure, func() {
	BeforeAll(func() {
		ownManager()
		serveVerbs()
		here.manager.restartWith("--subresources-allow-get")
		awaitAggregated()
	})

	// instances are what the manager has done to instances.
	instances := func(s *story) []string {
		GinkgoHelper()
		out := []string{}
		for _, write := range s.writes() {
			if verb, is := strings.CutSuffix(write, " virtualmachineinstances"); is {
				out = append(out, verb)
			}
		}
		return out
	}

	DescribeTable("makes an instance at each start, and deletes it at each stop", func(method string) {
		s := newStory()
		s.awaitDocumentedVersion()
		s.runtime(standin.Delays{})
		machine := "/apis/kubevirt.io/v1alpha2/namespaces/" + s.ns + "/virtualmachines/myvm"
		tell := func(verb string) {
			GinkgoHelper()
			Expect(call("", method, s.path("myvm", verb), "")).To(accepted())
		}

		By("POST $c1: defining is not launching")
		config := request(http.StatusCreated, http.MethodPost, strings.TrimSuffix(machine, "/myvm"), asJSON(documented), sendsJSON)
		s.machineIs("myvm", "Stopped")
		Expect(instances(s)).To(BeEmpty())

		By("/start, POST $i1")
		tell("start")
		running := s.machineIs("myvm", "Running")
		first := s.get(instance, "myvm")
		Eventually(func() []string { return instances(s) }).Should(Equal([]string{"create"}))
		Expect(first.GetOwnerReferences()).To(ConsistOf(And(HaveField("Kind", virtualMachine), HaveField("UID", config.GetUID()))))
		Expect(first).To(And(haveAt("status.phase", "Running"), haveAt("status.nodeName", "standin")))
		now := request(http.StatusOK, http.MethodGet, machine, "")
		Expect(at(now, "spec.template")).To(Equal(at(config, "spec.template")), "a configuration is static: the state of the running VMI belongs to the VMI")
		Expect(running.GetUID()).To(Equal(config.GetUID()), "running or not, it is the same object of the same API")

		By("/stop, DELETE $i1")
		tell("stop")
		s.machineIs("myvm", "Stopped")
		s.noInstance("myvm")
		Eventually(func() []string { return instances(s) }).Should(Equal([]string{"create", "delete"}))

		By("PATCH $c1: which makes nothing")
		request(http.StatusOK, http.MethodPatch, machine, `{"spec":{"template":{"spec":{"hostname":"second"}}}}`, "Content-Type: application/merge-patch+json")
		Consistently(func() []string { return instances(s) }, "500ms", "100ms").Should(HaveLen(2))

		By("/start, POST $i2")
		tell("start")
		s.machineIs("myvm", "Running")
		second := s.get(instance, "myvm")
		Expect(second.GetUID()).NotTo(Equal(first.GetUID()))
		Expect(first).To(lackAt("spec.hostname"))
		Expect(second).To(haveAt("spec.hostname", "second"))
		Eventually(func() []string { return instances(s) }).Should(Equal([]string{"create", "delete", "create"}))

		By("/stop, DELETE $i2")
		tell("stop")
		s.machineIs("myvm", "Stopped")
		s.noInstance("myvm")
		Eventually(func() []string { return instances(s) }).Should(Equal([]string{"create", "delete", "create", "delete"}))
		Expect(request(http.StatusOK, http.MethodGet, machine, "").GetUID()).To(Equal(config.GetUID()))
	},
		Entry("by GET, where an administrator wants it so", http.MethodGet),
		Entry("by PUT, as KubeVirt has it", http.MethodPut),
	)

	It("does not let a change of the configuration reach what runs", func() {
		s := newStory()
		s.awaitDocumentedVersion()
		s.runtime(standin.Delays{})
		s.kubectl(documented, "create", "-f", "-")
		Expect(s.put("start", "myvm")).To(accepted())
		s.machineIs("myvm", "Running")
		before := s.get(instance, "myvm")
		s.run("patch virtualmachine myvm --type=merge -p", `{"spec":{"template":{"metadata":{"labels":{"my":"other"}},"spec":{"hostname":"second"}}}}`)
		Consistently(func() object { return s.get(instance, "myvm") }, "500ms", "100ms").Should(Equal(before))
		Eventually(func() any { return condition(s.get(virtualMachine, "myvm"), "RestartRequired") }).ShouldNot(BeNil())
		Expect(s.put("restart", "myvm")).To(accepted())
		Eventually(func() any { return s.get(virtualMachine, "myvm").Object["status"] }).Should(And(
			HaveKeyWithValue("printableStatus", "Running"), Not(HaveKey("stateChangeRequests")),
			HaveKeyWithValue("conditions", Not(ContainElement(HaveKeyWithValue("type", "RestartRequired"))))))
		after := s.get(instance, "myvm")
		Expect(after).To(And(haveAt("spec.hostname", "second"), haveAt("metadata.labels.my", "other")))
		Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
	})
})
