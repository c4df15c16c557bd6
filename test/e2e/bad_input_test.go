package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var _ = Describe("What cannot be right is rejected with a message worth reading", func() {
	DescribeTable("as a preset", func(spec string, want ...string) {
		s := newStory()
		for _, ref := range []string{"bad", "cluster/bad-" + s.ns} {
			_, _, err := s.tryKubectl(aPreset(ref, spec), "create", "-f", "-")
			Expect(err).To(MatchError(contain(want...)))
			Expect(len(err.Error())).To(BeNumerically("<", 4<<10), "the message is too long to read")
			_, err = s.of(s.parse(aPreset(ref, spec)).GetKind()).Get(here.ctx, strings.TrimPrefix(ref, "cluster/"), metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		}
	},
		Entry("with an unknown field in defaults", `{defaults: {spec: {template: {spec: {domain: {memroy: {guest: 1Gi}}}}}}}`,
			"spec.defaults.spec.template.spec.domain.memroy", `did you mean "memory"?`),
		Entry("with an unknown field in overrides, in a list", `{overrides: {spec: {template: {spec: {volumes: [{name: a, containerDisks: {image: b}}]}}}}}`,
			"spec.overrides.spec.template.spec.volumes[a].containerDisks", `did you mean "containerDisk"?`),
		Entry("with an unknown field of its own", `{default: {}}`, `unknown field "spec.default"`),
		Entry("with a text for a number", `{defaults: {spec: {template: {spec: {domain: {cpu: {cores: four}}}}}}}`,
			"spec.defaults.spec.template.spec.domain.cpu.cores", "must be a whole number"),
		Entry("with an object for a list", `{defaults: {spec: {template: {spec: {domain: {devices: {disks: {name: root}}}}}}}}`,
			"spec.defaults.spec.template.spec.domain.devices.disks", "must be a list"),
		Entry("with a text for everything", `{defaults: everything}`, "spec.defaults", "must be a partial VirtualMachine"),
		Entry("with a bad selector", `{match: {labels: {matchExpressions: [{key: os, operator: Like, values: [win]}]}}}`,
			"spec.match.labels.matchExpressions[0].operator", "not a valid selector operator", "Like"),
		Entry("with CEL that does not compile", `{match: {conditions: [{name: broken, expression: "object.spec.("}]}}`,
			"spec.match.conditions[0].expression", "Syntax error"),
		Entry("with CEL that knows no such variable", `{match: {conditions: [{name: fine, expression: "true"}, {name: broken, expression: "vm.spec"}]}}`,
			"spec.match.conditions[1].expression", "undeclared reference to 'vm'"),
		Entry("with CEL that is no condition", `{match: {conditions: [{name: number, expression: "1 + 1"}]}}`,
			"spec.match.conditions[0].expression", "must be true or false, but is of type int"),
		Entry("with CEL that costs too much", `{match: {conditions: [{name: slow, expression: "object.spec.a.all(a, object.spec.b.all(b, object.spec.c.all(c, object.spec.d.all(d, a == b && c == d))))"}]}}`,
			"spec.match.conditions[0].expression", "too costly"),
		Entry("with a condition that fails for VMs without a label", `{match: {conditions: [{name: tier, expression: "object.metadata.labels['tier'] == 'x'"}]}, overrides: {metadata: {labels: {a: b}}}}`,
			"spec.match.conditions[0].expression", "fails for VMs without object.metadata.labels.tier; write object.metadata.?labels.?tier.orValue('') instead"),
		Entry("with two variables of one name", `{variables: [{name: a, expression: "1"}, {name: a, expression: "2"}]}`,
			"spec.variables[1]", "Duplicate value"),
		Entry("with a variable whose name is not an identifier", `{variables: [{name: a-b, expression: "1"}]}`, "spec.variables[0].name", "a-b"),
		Entry("with a reserved word as the name of a variable", `{variables: [{name: in, expression: "1"}]}`, "spec.variables[0].name", "must be a CEL identifier"),
		Entry("with a misspelt variable", `{variables: [{name: cores, expression: "1"}], match: {conditions: [{name: c, expression: "variables.coers > 1"}]}}`,
			"spec.match.conditions[0].expression", "did you mean variables.cores?"),
		Entry("with a variable that fails for VMs without a label", `{variables: [{name: tier, expression: "object.metadata.labels['tier']"}], overrides: {metadata: {labels: {a: {$cel: variables.tier}}}}}`,
			"spec.variables[0].expression", "write object.metadata.?labels.?tier.orValue('') instead"),
		Entry("with an override that cannot be computed for each VM", `{overrides: {metadata: {labels: {a: {$cel: "namespaceObject.metadata.annotations['a']"}}}}}`,
			"spec.overrides.metadata.labels.a", "write namespaceObject.metadata.annotations.?a.orValue('') instead"),
		Entry("with a machine type that no architecture has", `{defaults: {spec: {template: {spec: {domain: {machine: {type: q53}}}}}}}`,
			"spec.defaults.spec.template.spec.domain.machine.type", `Unsupported value: "q53"`),
		Entry("with a bus that no disk has", `{defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtoi}}]}}}}}}}`,
			"spec.defaults.spec.template.spec.domain.devices.disks[0].disk.bus", `Unsupported value: "virtoi"`),
		Entry("with a path to remove that does not exist", `{remove: [spec.template.spec.domain.devices.rgn]}`,
			"spec.remove[0]", "path does not exist", `did you mean "rng"?`),
		Entry("with a path to forbid that does not exist", `{forbid: [{path: spec.template.spec.domain.hostDevices}]}`,
			"spec.forbid[0].path", "path does not exist"),
		Entry("that overrides and removes one field", `{overrides: {spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}, remove: [spec.template.spec.domain.devices.rng]}`,
			"spec.overrides.spec.template.spec.domain.devices.rng", "spec.remove of this preset removes: keep one of them"),
		Entry("that defaults what it removes", `{defaults: {spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}, remove: [spec.template.spec.domain.devices]}`,
			"spec.remove[0]"),
		Entry("with defaults for status", `{defaults: {status: {ready: true}}}`, "spec.defaults.status", "controllers write status"),
		Entry("with defaults for ownership", `{defaults: {metadata: {ownerReferences: [{name: a}], labels: {a: b}}}}`,
			"spec.defaults.metadata.ownerReferences", "a preset may set only labels and annotations"),
		Entry("with null for everything", `{defaults: null}`, "spec.defaults", "must not be null", "use remove"),
		Entry("with null for a field", `{overrides: {spec: {template: {spec: {hostname: null}}}}}`,
			"spec.overrides.spec.template.spec.hostname", "must not be null", "spec.remove"),
		Entry("with a malformed quantity", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gigs}}}}}}}`,
			"spec.defaults.spec.template.spec.domain.memory.guest", "2Gigs", "must be a quantity such as 2Gi"),
		Entry("with two choices that exclude each other", `{defaults: {spec: {running: true, runStrategy: Always}}}`,
			"spec.defaults.spec", "runStrategy and running exclude each other"),
		Entry("of 2 MiB", `{defaults: {metadata: {annotations: {a: `+strings.Repeat("x", 2<<20)+`}}}}`, "2048 KiB", "split it"),
		Entry("with several problems, all at once", `{priority: 1, defaults: {spec: {template: {spec: {domain: {memroy: {}, cpu: {cores: four}}}}}}, remove: [spec.nowhere]}`,
			"domain.memroy", "cpu.cores", "spec.remove[0]"),
	)

	DescribeTable("as a VM", func(manifest string, want ...string) {
		s := newStory()
		s.preset(aPreset("cluster/bare", `{forbid: [{path: "spec.template.spec.volumes[*].hostDisk", message: no host disks}]}`))
		_, _, err := s.tryKubectl(manifest, "create", "-f", "-")
		Expect(err).To(MatchError(contain(want...)))
		Expect(err).To(MatchError(Not(ContainSubstring("failed calling webhook"))), "a defect of ours")
		_, _, err = s.tryKubectl(manifest, "apply", "--server-side", "-f", "-")
		Expect(err).To(HaveOccurred())
	},
		Entry("whose template is a text", vm("bad", "spec: {template: x}"), "spec.template", "must be an object"),
		Entry("whose spec is a list", vm("bad", "spec: []"), "spec", "must be an object"),
		Entry("whose devices are a number", vm("bad", "spec: {template: {spec: {domain: {devices: 3}}}}"), "spec.template.spec.domain.devices", "must be an object"),
		Entry("with an unknown field", vm("bad", "spec: {template: {spec: {domain: {memroy: {guest: 1Gi}}}}}"), "spec.template.spec.domain.memroy", "unknown field"),
		Entry("with a malformed quantity", vm("bad", "spec: {template: {spec: {domain: {memory: {guest: 2Gigs}}}}}"), memory, "2Gigs"),
		Entry("with forbidden fields", vm("bad", "spec: {template: {spec: {volumes: [{name: host, hostDisk: {path: /a, type: Disk}}]}}}"),
			"spec.template.spec.volumes[host].hostDisk: Forbidden: no host disks (preset cluster/bare)"),
		Entry("that asks for a preset which is not there", strings.Replace(vm("bad"), "name: bad", "name: bad, annotations: {virtwright.dev/presets: cluster/bear}", 1),
			"virtwright.dev/presets", "cluster/bear"),
		Entry("that opts out of a path which is not there", strings.Replace(vm("bad"), "name: bad", `name: bad, annotations: {virtwright.dev/exclude: "a:spec.nowhere"}`, 1),
			"virtwright.dev/exclude", "a:spec.nowhere", "path does not exist"),
		Entry("that names an instancetype, which this cluster does not serve", vm("bad", "spec: {instancetype: {name: large}}"), "spec.instancetype: Forbidden", "standalone mode"),
	)

	It("as an instance, with the paths of an instance", func() {
		s := newStory()
		s.preset(aPreset("cluster/bare", `{forbid: [{path: spec.template.spec.hostname}]}`))
		_, _, err := s.tryKubectl(strings.Replace(sparse("bad", "spec: {domain: {devices: {}}, hostname: a}"), "kind: VirtualMachine", "kind: VirtualMachineInstance", 1), "create", "-f", "-")
		Expect(err).To(MatchError(And(ContainSubstring("spec.hostname: Forbidden"), Not(ContainSubstring("spec.template")))))
	})
})

var _ = Describe("A body that is no AdmissionReview", func() {
	DescribeTable("is answered by the webhooks with a status", func(body string, want string) {
		ownManager()
		for _, path := range []string{"/mutate-kubevirt-io-v1-virtualmachine", "/validate-virtwright-dev-v1alpha1-virtualmachinepreset"} {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
			response, err := client.Post("https://"+here.manager.webhook+path, "application/json", strings.NewReader(body))
			Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
			var status metav1.Status
			Expect(json.NewDecoder(response.Body).Decode(&status)).To(Succeed())
			Expect(status.Message).To(contain("the body is not an AdmissionReview", want))
		}
	},
		Entry("being empty", "", "unexpected end of JSON"),
		Entry("being a text", `"hello"`, "string"),
		Entry("being a VM", `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"}}`, `got "kubevirt.io/v1" and "VirtualMachine"`),
		Entry("having no request", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "it has no request"),
	)
})

var _ = Describe("A preset that is good", func() {
	It("can be waited for right after it was created", func() {
		s := newStory()
		s.kubectl(aPreset("good", defaultMemory), "create", "-f", "-")
		DeferCleanup(func() error { return s.of(preset).Delete(here.ctx, "good", metav1.DeleteOptions{}) })
		s.kubectl("", "wait", "--for=condition=Ready", "--timeout=5m", "vmpreset/good")
		Expect(s.create(vm("web"))).To(haveAt(memory, "2Gi"))
		Expect(s.readiness(s.get(preset, "good"))).To(HavePrefix("True Compiled"))
		out, _ := s.kubectl("", "get", "virtwright")
		Expect(out).To(MatchRegexp(`good\s+0\s+Enforce\s+Definition\s+.*True`))
	})
})

var _ = Describe("A stored preset that has become invalid", func() {
	It("says so, and other presets keep working", func() {
		ownManager()
		s := newStory()
		DeferCleanup(func() error { return s.of(preset).Delete(here.ctx, "stale", metav1.DeleteOptions{}) })
		bad := s.unchecked(aPreset("stale", `{priority: 5, match: {explicit: false}, defaults: {spec: {template: {spec: {domain: {cpu: {cores: four}}}}}}, overrides: {spec: {template: {spec: {hostname: stale}}}}}`))
		good := s.preset(aPreset("good", defaultMemory))
		Eventually(func() string { return s.readiness(bad) }).Should(And(HavePrefix("False Invalid "), ContainSubstring("domain.cpu.cores"), ContainSubstring("must be a whole number")))
		Expect(s.readiness(good)).To(HavePrefix("True"))
		got, warnings := s.createWarned(vm("web"))
		Expect(got).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(1)), lackAt("spec.template.spec.hostname")))
		Expect(warnings).To(beQuiet())
		_, err := s.tryCreate(strings.Replace(vm("asks"), "name: asks", "name: asks, annotations: {virtwright.dev/presets: stale}", 1))
		Expect(err).To(MatchError(contain("stale", "invalid")))

		s.patch("web", `{metadata: {labels: {a: b}}}`)
		s.edit(bad, `{spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 4}}}}}}}}`)
		Expect(s.create(vm("next"))).To(And(haveAt(memory, "2Gi"), haveAt(cores, int64(4))))
	})
})

// unchecked creates a preset while there is no validating webhook, like one that an older version
// accepted.
func (s *story) unchecked(manifest string) object {
	GinkgoHelper()
	in := s.parse(manifest)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	tryOut := func() error {
		_, err := s.of(in.GetKind()).Create(here.ctx, renamed(in, "probe"), dry)
		return err
	}
	var out object
	without("validatingwebhookconfigurations", func() {
		Eventually(tryOut).Should(Succeed())
		out = s.create(manifest)
	})
	Eventually(tryOut).ShouldNot(Succeed(), "validation is off")
	return out
}

// unmutated creates a VM while there is no mutating webhook.
func (s *story) unmutated(manifest string) object {
	GinkgoHelper()
	provenance := func() any {
		return at(s.tryOut(vm("probe", "spec: {running: false, template: {spec: {domain: {devices: {}}}}}")), record)
	}
	var out object
	without("mutatingwebhookconfigurations", func() {
		Eventually(provenance).Should(BeNil())
		out = s.create(manifest)
	})
	Eventually(provenance).ShouldNot(BeNil(), "mutation is off")
	return out
}

// without does something while a registration of the webhooks is not there.
func without(resource string, do func()) {
	GinkgoHelper()
	configurations := here.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
	registration, err := configurations.Get(here.ctx, "admission.virtwright.dev", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(configurations.Delete(here.ctx, registration.GetName(), metav1.DeleteOptions{})).To(Succeed())
	defer func() {
		for _, field := range []string{"resourceVersion", "uid", "managedFields"} {
			unstructured.RemoveNestedField(registration.Object, "metadata", field)
		}
		_, err := configurations.Create(here.ctx, registration, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}()
	do()
}

func renamed(of object, name string) object {
	out := of.DeepCopy()
	out.SetName(name)
	return out
}

// contain matches a text, or an error's, that has every part.
func contain(parts ...string) OmegaMatcher {
	all := make([]OmegaMatcher, 0, len(parts))
	for _, part := range parts {
		all = append(all, ContainSubstring(part))
	}
	return And(all...)
}
