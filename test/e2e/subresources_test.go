package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machineOf is a VM of a strategy.
func machineOf(name, strategy string) string {
	return vm(name, "spec: {runStrategy: "+strategy+", template: {spec: {domain: {devices: {}}}}}")
}

const underway = "unable to complete request: stop/start already underway"

var _ = Describe("Starting and stopping VMs by their subresources", Ordered, ContinueOnFailure, func() {
	var s *story
	var port string
	BeforeAll(func() { port = serveSubresources() })
	BeforeEach(func() { s = newStory() })

	It("changes the spec, on the requests that KubeVirt's clients send", func() {
		s.create(machineOf("web", "Halted"))
		Expect(s.put("start", "web")).To(accepted())
		Expect(s.get(virtualMachine, "web")).To(And(haveAt("spec.runStrategy", "Always"), lackAt("status.stateChangeRequests")))
		Expect(s.put("start", "web")).To(conflicts("web", "Always does not support manual start requests"))
		Expect(s.put("stop", "web", "{}")).To(accepted())
		Expect(s.get(virtualMachine, "web")).To(haveAt("spec.runStrategy", "Halted"))
		Expect(s.put("stop", "web")).To(conflicts("web", "VM is not running"))
		Expect(s.put("restart", "web")).To(conflicts("web", "RunStategy Halted does not support manual restart requests"))

		s.create(strings.Replace(machineOf("old", "Halted"), "runStrategy: Halted", "running: false", 1))
		Expect(s.put("start", "old")).To(accepted())
		Expect(s.get(virtualMachine, "old")).To(haveAt("spec.running", true))
		Expect(s.put("stop", "old")).To(accepted())
		Expect(s.get(virtualMachine, "old")).To(And(haveAt("spec.running", false), lackAt("spec.runStrategy")))
	})

	It("asks the controller where the spec has no say, once at a time", func() {
		s.create(machineOf("web", "Manual"))
		Expect(s.put("start", "web")).To(accepted())
		Expect(s.requests("web")).To(Equal([]string{"Start"}))
		Expect(s.put("start", "web")).To(conflicts("web", underway))
		whichever := []string{"Stop " + string(s.get(virtualMachine, "web").GetUID())}
		for range 2 {
			Expect(s.put("stop", "web")).To(accepted(), "for the controller may be making an instance")
			Expect(s.requests("web")).To(Equal(whichever))
		}
		Expect(s.put("start", "web")).To(conflicts("web", underway))
		Expect(s.put("restart", "web")).To(conflicts("web", "VM is not running: Halted"))
	})

	requestStories(func() *story { return s })

	It("lets one of many callers at once through", func() {
		s.create(machineOf("web", "Manual"))
		var group sync.WaitGroup
		answers := make([]answer, 20)
		for at := range answers {
			group.Go(func() {
				defer GinkgoRecover()
				answers[at] = s.put("start", "web")
			})
		}
		group.Wait()
		took := 0
		for _, a := range answers {
			if a.code == http.StatusAccepted {
				took++
				continue
			}
			Expect(a).To(conflicts("web", underway))
		}
		Expect(took).To(Equal(1))
		Expect(s.requests("web")).To(Equal([]string{"Start"}))
	})

	It("ends the instance that is there, and no other", func() {
		s.create(machineOf("web", "Manual"))
		uid := string(s.runs("web", "Running").GetUID())
		Expect(s.put("start", "web")).To(conflicts("web", "VM is already running"))
		Expect(s.put("restart", "web", "gracePeriodSeconds: 1")).To(rejectedWith(http.StatusBadRequest, "For force restart, only gracePeriod=0 is supported for now"))
		Expect(s.put("restart", "web")).To(accepted())
		Expect(s.requests("web")).To(Equal([]string{"Stop " + uid, "Start"}))
		before := s.get(instance, "web")
		Expect(s.put("restart", "web", "gracePeriodSeconds: 0")).To(conflicts("web", underway))
		Expect(s.get(instance, "web")).To(Equal(before), "who is rejected changes nothing")
		Expect(s.put("stop", "web", `{"gracePeriod": 5}`)).To(accepted())
		Expect(s.requests("web")).To(Equal([]string{"Stop " + string(s.get(virtualMachine, "web").GetUID())}), "also if the restart concerned an earlier VMI")
		Expect(s.get(instance, "web")).To(haveAt("spec.terminationGracePeriodSeconds", int64(5)))
	})

	It("restarts by force, and takes the grace period back when the request cannot be written", func() {
		s.create(machineOf("web", "Always"))
		s.runs("web", "Running")
		grace := at(s.get(instance, "web"), "spec.terminationGracePeriodSeconds")
		allow := s.notToday("virtualmachines/status", "false")
		Eventually(func() string { return s.put("restart", "web", "dryRun: [All]").body }).Should(ContainSubstring("not today"))
		rejected := s.put("restart", "web", "gracePeriodSeconds: 0")
		Expect(rejected.code).To(Equal(http.StatusUnprocessableEntity), rejected.body)
		Expect(rejected.status().Message).To(ContainSubstring("not today"))
		Expect(s.get(instance, "web")).To(haveAt("spec.terminationGracePeriodSeconds", grace))
		Expect(s.requests("web")).To(BeEmpty())

		allow()
		Eventually(func() answer { return s.put("restart", "web", "gracePeriodSeconds: 0") }).Should(accepted())
		Expect(s.get(instance, "web")).To(haveAt("spec.terminationGracePeriodSeconds", int64(1)))
	})

	It("changes nothing in a dry run", func() {
		s.create(machineOf("web", "Halted"))
		s.create(machineOf("busy", "Manual"))
		s.runs("busy", "Running")
		machines, instances := s.get(virtualMachine, "busy"), s.get(instance, "busy")
		Expect(s.put("start", "web", `{"dryRun": ["All"]}`)).To(accepted())
		Expect(call("", http.MethodPut, s.path("web", "start")+"?dryRun=All", "")).To(accepted())
		Expect(s.put("stop", "busy", `{"dryRun": ["All"], "gracePeriod": 3}`)).To(accepted())
		Expect(s.put("restart", "busy", `{"dryRun": ["All"], "gracePeriodSeconds": 0}`)).To(accepted())
		Expect(s.put("start", "web", `{"dryrun": ["All"], "later": {"x": 1}}`)).To(accepted(), "KubeVirt's reader does not look at case")
		Expect(s.put("stop", "web", `{"dryRun": ["All"]}`)).To(conflicts("web", "VM is not running"))
		Expect(s.get(virtualMachine, "web")).To(haveAt("spec.runStrategy", "Halted"))
		Expect(s.get(virtualMachine, "busy")).To(Equal(machines))
		Expect(s.get(instance, "busy")).To(Equal(instances))
		Expect(s.put("start", "web", `{"dryRun": ["Some"]}`).code).To(Equal(http.StatusUnprocessableEntity))
	})

	It("reads a body of any content type", func() {
		for at, header := range []string{"Content-Type: application/json", "Content-Type: application/yaml", "Content-Type: text/plain",
			"Content-Type: application/x-www-form-urlencoded", "Accept: application/vnd.kubernetes.protobuf", "Accept: text/html"} {
			name := "web" + string(rune('a'+at))
			s.create(machineOf(name, "Manual"))
			Expect(call("", http.MethodPut, s.path(name, "start"), "paused: true\n", header)).To(accepted(), header)
			Expect(s.requests(name)).To(Equal([]string{"Start map[paused:true]"}), header)
		}
		for _, garbage := range []string{"{", "garbage", `["list"]`, `{"paused": "perhaps"}`, "\x00\x01", "a: b: c"} {
			rejected := s.put("start", "weba", garbage)
			Expect(rejected.code).To(Equal(http.StatusBadRequest), "%q: %s", garbage, rejected.body)
			Expect(rejected.status().Message).To(HavePrefix("Can not unmarshal Request body to struct, error: "))
		}
		bomb := "a: &a [" + strings.Repeat("x,", 8000) + "]\nb: [" + strings.Repeat("*a,", 9000) + "]\n"
		for _, name := range []string{"weba", "none"} {
			rejected := s.put("start", name, bomb)
			Expect(rejected.code).To(Equal(http.StatusBadRequest), rejected.body)
			Expect(rejected.status().Message).To(ContainSubstring("YAML anchors, aliases and merge keys are not supported"))
		}
		Expect(s.put("start", "weba", `{"x": "`+strings.Repeat("x", 1<<20)+`"}`).code).To(Equal(http.StatusRequestEntityTooLarge))
	})

	It("says of KubeVirt's other calls that they are not implemented", func() {
		for path, why := range map[string]string{
			"freeze":         "PUT virtwright does not serve virtualmachineinstances/freeze: file systems of guests are not frozen: stop the VM before you copy or snapshot its volumes",
			"vnc/screenshot": "GET virtwright does not serve virtualmachineinstances/vnc/screenshot: there are no screenshots: connect to the display, for example with virtwright vnc",
			"usbredir":       "GET virtwright does not serve virtualmachineinstances/usbredir: USB devices of clients are not redirected: copy files by the guest's network",
		} {
			method, why, _ := strings.Cut(why, " ")
			path = "namespaces/" + s.ns + "/virtualmachineinstances/none/" + path
			Expect(call("", method, path, "")).To(rejectedWith(http.StatusNotImplemented, why))
			Expect(call("", method, path, "", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Version: 13", "Sec-Websocket-Key: dGhlIHNhbXBsZSBub25jZQ==")).
				To(rejectedWith(http.StatusNotImplemented, why), "as clients of consoles ask")
			Expect(call("mallory", method, path, "").code).To(Equal(http.StatusForbidden))
		}
	})

	It("says who is not there, and who may not", func() {
		Expect(s.put("start", "none")).To(rejectedWith(http.StatusNotFound, `virtualmachine.kubevirt.io "none" not found`))
		for path, why := range map[string]string{
			s.path("a%25b", "start"):                  `Name parameter invalid: "a%b": may not contain '%'`,
			s.path("", "start"):                       `Name parameter invalid: "": must not be empty`,
			s.path("", "expand-spec"):                 `Name parameter invalid: "": must not be empty`,
			s.path("%2e%2e", "stop"):                  `Name parameter invalid: "..": may not be '..'`,
			s.path("a%25b", "expand-spec"):            `Name parameter invalid: "a%b": may not contain '%'`,
			s.path("..", "start"):                     `Name parameter invalid: "..": may not be '..'`,
			"namespaces/a%25b/virtualmachines/x/stop": `Namespace parameter invalid: "a%b": may not contain '%'`,
		} {
			method := http.MethodPut
			if strings.HasSuffix(path, "expand-spec") {
				method = http.MethodGet
			}
			Expect(call("", method, path, "")).To(rejectedWith(http.StatusBadRequest, why), path)
		}
		for _, verb := range []string{"stop", "restart"} {
			Expect(s.put(verb, "none").code).To(Equal(http.StatusNotFound))
		}
		s.create(machineOf("web", "Halted"))
		installRoles()
		rejected := call("mallory", http.MethodPut, s.path("web", "start"), "")
		Expect(rejected.code).To(Equal(http.StatusForbidden))
		Expect(rejected.status().Message).To(ContainSubstring(`cannot update resource "virtualmachines/start" in API group "subresources.kubevirt.io"`))
		s.bind("vera", "view")
		Expect(call("vera", http.MethodPut, s.path("web", "start"), "").code).To(Equal(http.StatusForbidden))
		Eventually(func() int { return call("vera", http.MethodGet, s.path("web", "expand-spec"), "").code }).Should(Equal(http.StatusOK))
		s.bind("eddy", "edit")
		Eventually(func() answer { return call("eddy", http.MethodPut, s.path("web", "start"), "") }).Should(accepted())
		Eventually(func() int { return call("mallory", http.MethodGet, "version", "").code }).Should(Equal(http.StatusOK), "anybody may compare versions")
	})

	It("rejects requests for a VM that is being deleted", func() {
		s.create(strings.Replace(machineOf("web", "Halted"), "name: web", "name: web, finalizers: [example.com/hold]", 1))
		Expect(s.of(virtualMachine).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.put("start", "web")).To(conflicts("web", "VM is being deleted"))
		_, _, err := s.tryPatch("web", "metadata: {finalizers: null}")
		Expect(err).NotTo(HaveOccurred())
	})

	It("does not start by GET unless an administrator wants it", func() {
		s.create(machineOf("web", "Halted"))
		rejected := call("", http.MethodGet, s.path("web", "start"), "")
		Expect(rejected.code).To(Equal(http.StatusMethodNotAllowed))
		Expect(rejected.status().Message).To(ContainSubstring("use PUT"))
		Expect(rejected.headers.Get("Allow")).To(Equal(http.MethodPut))
		Expect(call("", http.MethodPost, s.path("web", "start"), "").code).To(Equal(http.StatusMethodNotAllowed))
		Expect(s.get(virtualMachine, "web")).To(haveAt("spec.runStrategy", "Halted"))
	})

	It("expands machines that are there and machines that are not yet", func() {
		s.submit(aPreset("sized", `{defaults: {spec: {template: {spec: {domain: {cpu: {cores: 3}}}}}}}`))
		sent := machineOf("web", "Halted")
		expand := func(manifest string) answer {
			return call("", http.MethodPut, "namespaces/"+s.ns+"/expand-vm-spec", manifest)
		}
		Eventually(func() string { return expand(sent).body }).Should(ContainSubstring(`"cores":3`))
		out := s.parse(expand(sent).body)
		Expect(out).To(And(haveAt("spec.template.spec.domain.cpu.cores", int64(3)), haveAt("metadata.namespace", s.ns)))
		stored := s.create(sent)
		Expect(stored.Object["spec"]).To(Equal(out.Object["spec"]), "the expanded VM is the stored one")

		got := call("", http.MethodGet, s.path("web", "expand-spec"), "")
		Expect(got.code).To(Equal(http.StatusOK), got.body)
		Expect(s.parse(got.body).Object["spec"]).To(Equal(stored.Object["spec"]))
		Expect(call("", http.MethodGet, s.path("none", "expand-spec"), "")).To(rejectedWith(http.StatusNotFound, `virtualmachine.kubevirt.io "none" not found`))

		Expect(expand("").status().Message).To(Equal("empty request body"))
		Expect(expand(`{"kind": "Pod", "apiVersion": "v1"}`)).To(rejectedWith(http.StatusBadRequest, "Object is not a valid VirtualMachine"))
		Expect(expand("not an object").code).To(Equal(http.StatusBadRequest))
		Expect(expand(strings.Replace(sent, "kubevirt.io/v1", "kubevirt.io/v9", 1))).To(rejectedWith(http.StatusBadRequest, `apiVersion "kubevirt.io/v9" is not supported: use kubevirt.io/v1`))
		misspelt := expand(vm("web", "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memroy: {guest: 9Gi}, cpu: {cores: two}}}}}"))
		Expect(misspelt.code).To(Equal(http.StatusUnprocessableEntity), misspelt.body)
		Expect(misspelt.status().Message).To(And(HavePrefix(`VirtualMachine.kubevirt.io "web" is invalid`), ContainSubstring("domain.memroy"), ContainSubstring("domain.cpu.cores")))
		elsewhere := strings.Replace(sent, "name: web", "name: web, namespace: elsewhere", 1)
		Expect(expand(elsewhere)).To(rejectedWith(http.StatusBadRequest, "VM namespace must be empty or "+s.ns))
	})

	It("does not show presets that the user may not name", func() {
		s.submit(aPreset("secret", `{selection: Explicit, defaults: {spec: {template: {spec: {hostname: hidden}}}}}`))
		installRoles()
		s.bind("eddy", "edit")
		naming := strings.Replace(machineOf("web", "Halted"), "name: web", "name: web, annotations: {virtwright.dev/presets: secret}", 1)
		path := "namespaces/" + s.ns + "/expand-vm-spec"
		Eventually(func() string { return call("", http.MethodPut, path, naming).body }).Should(ContainSubstring("hidden"))
		Eventually(func() int { return call("eddy", http.MethodPut, path, machineOf("web", "Halted")).code }).Should(Equal(http.StatusOK))
		rejected := call("eddy", http.MethodPut, path, naming)
		Expect(rejected.code).To(Equal(http.StatusForbidden), rejected.body)
		Expect(rejected.body).To(And(ContainSubstring("may not use preset secret"), Not(ContainSubstring("hidden"))))
	})

	It("tells the version of KubeVirt whose clients it serves", func() {
		var version map[string]string
		got := call("", http.MethodGet, "version", "")
		Expect(json.Unmarshal([]byte(got.body), &version)).To(Succeed(), got.body)
		Expect(version["gitVersion"]).To(MatchRegexp(`^v1\.\d+\.\d+$`))
		for _, key := range []string{"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} {
			Expect(version).To(HaveKey(key))
		}
		group := call("", http.MethodGet, "/apis/subresources.kubevirt.io", "")
		Expect(group.body).To(ContainSubstring(`"preferredVersion":{"groupVersion":"subresources.kubevirt.io/v1"`))
		Expect(call("", http.MethodGet, "healthz", "").code).To(Equal(http.StatusOK))
	})

	It("leaves kubectl and discovery as they were", func() {
		var list metav1.APIResourceList
		Expect(json.Unmarshal([]byte(call("", http.MethodGet, subresources, "").body), &list)).To(Succeed())
		Expect(list.APIResources).To(HaveLen(12))
		for _, resource := range list.APIResources {
			Expect(resource.Name).To(MatchRegexp("^virtualmachine(instance)?s/"))
			Expect(resource.Verbs).To(BeEmpty(), "no list and delete, which the namespace controller would use")
			Expect(resource.Namespaced).To(BeTrue())
		}
		stdout, stderr := s.kubectl("", "api-resources", "--no-headers")
		Expect(stderr).To(BeEmpty())
		Expect(stdout).To(MatchRegexp(`virtualmachineinstances +vmi,vmis +kubevirt.io/v1 +true +VirtualMachineInstance`))
		Expect(stdout).NotTo(ContainSubstring("subresources.virtwright.dev"))
		Expect(stdout).To(MatchRegexp(`virtualmachines +vm,vms +kubevirt.io/v1 +true +VirtualMachine`))
		Expect(stdout).NotTo(ContainSubstring("subresources.kubevirt.io"))

		s.create(machineOf("web", "Halted"))
		stdout, stderr = s.kubectl("", "get", "vm", "web", "-o", "name")
		Expect(stdout + stderr).To(Equal("virtualmachine.kubevirt.io/web\n"))
		stdout, _ = s.kubectl("", "explain", "vm.spec.runStrategy")
		Expect(stdout).To(ContainSubstring("kubevirt.io"))
		s.kubectl(machineOf("other", "Halted"), "apply", "-f", "-")

		Eventually(func() string { return call("", http.MethodGet, "/openapi/v3", "").body }).Should(ContainSubstring("apis/subresources.kubevirt.io/v1"))
		described := call("", http.MethodGet, "/openapi/v3"+subresources, "")
		Expect(described.code).To(Equal(http.StatusOK), described.body)
		Expect(described.body).To(And(ContainSubstring("/virtualmachines/{name}/start"), ContainSubstring("gracePeriodSeconds")))
	})

	It("is trusted again when a user applies the manifest again", func() {
		_, _, err := here.kubectl("", "patch", "apiservice", aggregation, "--type=merge", "-p", `{"spec": {"caBundle": null}}`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string {
			text, _, _ := here.kubectl("", "get", "apiservice", aggregation, "-o", "jsonpath={.spec.caBundle}")
			return text
		}).ShouldNot(BeEmpty())
		awaitAggregated()
	})

	It("lets namespaces go while it serves", func() {
		s.create(machineOf("web", "Halted"))
		s.kubectl("", "delete", "namespace", s.ns, "--timeout=5m")
	})

	It("believes API servers only", func() {
		url := "https://localhost:" + port + subresources + "/" + s.path("web", "start")
		request, err := http.NewRequestWithContext(here.ctx, http.MethodPut, url, http.NoBody)
		Expect(err).NotTo(HaveOccurred())
		request.Header.Set("X-Remote-User", "admin")
		request.Header.Set("X-Remote-Group", "system:masters")
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		response, err := (&http.Client{Transport: transport}).Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
	})
})

var _ = Describe("Starting VMs by GET, where an administrator wants it", Ordered, func() {
	BeforeAll(func() { serveSubresources("--subresources-allow-get") })

	It("starts, with permission to get VMs", func() {
		s := newStory()
		s.create(machineOf("web", "Halted"))
		Expect(call("mallory", http.MethodGet, s.path("web", "start"), "").code).To(Equal(http.StatusForbidden))
		Expect(call("", http.MethodGet, s.path("web", "start"), "")).To(accepted())
		Expect(s.get(virtualMachine, "web")).To(haveAt("spec.runStrategy", "Always"))
		Expect(call("", http.MethodGet, s.path("web", "stop"), "")).To(accepted())
		Expect(s.get(virtualMachine, "web")).To(haveAt("spec.runStrategy", "Halted"))
	})
})

var _ = Describe("A subresource API without endpoints", Ordered, func() {
	BeforeAll(func() {
		ownManager()
		_, port, err := net.SplitHostPort(freeAddress())
		Expect(err).NotTo(HaveOccurred())
		aggregate(port)
		DeferCleanup(separate)
	})

	It("takes its own verbs away and the deletion of namespaces, which one command gives back", func() {
		s := newStory()
		s.create(machineOf("web", "Halted"))
		_, _, err := here.kubectl("", "wait", "apiservice", aggregation, "--for=condition=Available=False", "--timeout=5m")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.put("start", "web").code).To(Equal(http.StatusServiceUnavailable))

		s.patch("web", "spec: {runStrategy: Always}")
		stdout, _ := s.kubectl("", "get", "vm,configmap", "-o", "name")
		Expect(stdout).To(ContainSubstring("virtualmachine.kubevirt.io/web"))
		s.kubectl("", "create", "configmap", "goes-on")
		s.kubectl(machineOf("other", "Halted"), "apply", "-f", "-")
		s.kubectl("", "delete", "vm", "other", "--timeout=5m")

		s.kubectl("", "delete", "namespace", s.ns, "--wait=false")
		Eventually(func() string {
			text, _, _ := here.kubectl("", "get", "namespace", s.ns, "-o", `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].status}`)
			return text
		}).Should(Equal("True"))
		_, _, err = here.kubectl("", "delete", "apiservice", aggregation, aggregation3, aggregated)
		Expect(err).NotTo(HaveOccurred())
		_, _, err = here.kubectl("", "wait", "--for=delete", "namespace/"+s.ns, "--timeout=5m")
		Expect(err).NotTo(HaveOccurred())
	})
})
