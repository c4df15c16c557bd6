package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

const generatedPolicies = 50

// The order matters. API servers (1.37) stop to watch ConfigMaps when the last policy with such
// parameters is deleted, and never begin again. Then they find ConfigMaps by name, as the examples
// name them, but not by selector.
var _ = Describe("Policies say the same offline and from the API server", Ordered, func() {
	It("of generated policies", func() {
		seed := GinkgoRandomSeed()
		GinkgoWriter.Println("seed", seed)
		p := newPolicyStory()
		g := &policyGenerator{Rand: rand.New(rand.NewSource(seed)), policyStory: p}
		p.params = fmt.Sprintf(policyParams, p.ns)
		for i := range generatedPolicies {
			p.policies = append(p.policies, g.policy(i))
			label := fmt.Sprintf("case: '%d'", i)
			p.vm(fmt.Sprintf("v%d-small", i), "v1", label, "memory: {guest: 1Gi}", "example.com/a:1")
			p.vm(fmt.Sprintf("v%d-big", i), "v1", label+", size: big", "memory: {guest: 4Gi}, cpu: {cores: 4}", "example.com/a")
			p.vm(fmt.Sprintf("v%d-preset", i), "v1", label+", size: huge", "cpu: {cores: 2}", "example.com/a:1")
			p.vm(fmt.Sprintf("v%d-old", i), "v1alpha3", label, "memory: {guest: 3Gi}", "example.com/a:2")
		}
		p.apply()
		rejected, warned := p.compare()
		AddReportEntry("VMs", fmt.Sprintf("%d, rejected %d, warned %d", len(p.vms), rejected, warned))
		// Over many seeds, the sum is about 70, with a standard deviation of 11.
		Expect(rejected+warned).To(And(BeNumerically(">", 10), BeNumerically("<", 180)), "the policies say too little or too much to show anything")
	})

	It("of the examples", func() {
		p := newPolicyStory()
		p.examples()
		p.apply()
		const fine = "memory: {guest: 1Gi}, resources: {limits: {memory: 2Gi, cpu: 2}}"
		for name, c := range map[string]struct{ domain, image string }{
			"fine":      {fine, "example.com/a:1"},
			"digest":    {fine, "example.com/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
			"little":    {"memory: {guest: 512Mi}, resources: {limits: {memory: 2Gi, cpu: 2}}", "example.com/a:1"},
			"number":    {"memory: {guest: 536870912}, resources: {limits: {memory: 2Gi, cpu: 2}}", "example.com/a:1"},
			"much":      {"memory: {guest: 128Gi}, resources: {limits: {memory: 2Gi, cpu: 2}}", "example.com/a:1"},
			"preset":    {"resources: {limits: {memory: 2Gi, cpu: 2}}", "example.com/a:1"},
			"unlimited": {"memory: {guest: 1Gi}", "example.com/a:1"},
			"no-cpu":    {"memory: {guest: 1Gi}, resources: {limits: {memory: 2Gi}}", "example.com/a:1"},
			"quota":     {"memory: {guest: 1Gi}, resources: {limits: {memory: 16Gi, cpu: 2}}", "example.com/a:1"},
			"quota-cpu": {"memory: {guest: 1Gi}, resources: {limits: {memory: 2Gi, cpu: 4500m}}", "example.com/a:1"},
			"latest":    {fine, "example.com/a:latest"},
			"untagged":  {fine, "example.com:5000/a"},
			"several":   {"memory: {guest: 512Mi}", "example.com:5000/a"},
		} {
			p.vm(name, "v1", "size: huge", c.domain, c.image)
		}
		rejected, _ := p.compare()
		Expect(rejected).To(Equal(10))
	})

	It("of the examples, which let stored VMs be changed and deleted", func() {
		p := newPolicyStory()
		p.create("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: old, finalizers: [example.com/a]}\nspec: {runStrategy: Halted, template: {spec: " +
			"{domain: {devices: {disks: [{name: root}]}, memory: {guest: 128Gi}}, volumes: [{name: root, containerDisk: {image: 'a:latest'}}]}}}\n")
		p.examples()
		p.apply()
		patch := func(change string) error {
			_, err := p.of(virtualMachine).Patch(here.ctx, "old", types.MergePatchType, []byte(change), metav1.PatchOptions{})
			return err
		}
		Expect(patch(`{"metadata": {"labels": {"a": "b"}}, "spec": {"runStrategy": "Manual"}}`)).To(Succeed())
		Expect(patch(`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "256Gi"}}}}}}`)).To(MatchError(ContainSubstring("memory.guest is 256Gi: must be at most 64Gi")))
		Expect(patch(`{"spec": {"template": {"spec": {"domain": {"resources": {"limits": {"memory": "128Gi"}}}}}}}`)).To(MatchError(ContainSubstring("resources.limits.cpu is missing")))
		Expect(patch(`{"spec": {"template": {"spec": {"volumes": [{"name": "root", "containerDisk": {"image": "b:latest"}}]}}}}`)).To(MatchError(ContainSubstring("denied request: b:latest: must have a digest")))
		Expect(p.of(virtualMachine).Delete(here.ctx, "old", metav1.DeleteOptions{})).To(Succeed())
		Expect(patch(`{"metadata": {"finalizers": null}}`)).To(Succeed())
		_, err := p.of(virtualMachine).Get(here.ctx, "old", metav1.GetOptions{})
		Expect(err).To(MatchError(apierrors.IsNotFound, "deleted"))
	})

	It("of fields that API servers drop, set and convert", func() {
		p := newPolicyStory()
		p.params = fmt.Sprintf(factParams, p.ns)
		for kind, facts := range map[string][]string{"ResourceQuota": quotaFacts, "Secret": secretFacts, "LimitRange": slices.Concat(objectFacts, rangeFacts)} {
			p.policies = append(p.policies, factPolicy("CREATE", kind, facts))
		}
		p.apply()
		const disks = "runStrategy: Halted, template: {spec: {domain: {devices: {disks: [{name: root}]}, memory: {guest: 1Gi}}, volumes: "
		for name, of := range map[string][2]string{
			"fine":   {"", disks + "[{name: root, containerDisk: {image: a}}]}}"},
			"status": {"", disks + "[{name: root, containerDisk: {image: a}}]}}}, status: {created: true"},
			"copy": {"uid: 0a1b, creationTimestamp: '2026-01-01T00:00:00Z', selfLink: /a, deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 3, annotations: null, generation: 7",
				disks + "[{name: root, containerDisk: {image: a}}]}}"},
			"nulls": {"creationTimestamp: null", "runStrategy: Halted, instancetype: null, template: {metadata: {labels: null, annotations: {a: null}}, spec: {hostname: null, nodeSelector: {a: null}, volumes: null, domain: {cpu: null, devices: {disks: null}, memory: {guest: null}}}}"},
			"inner": {"", disks + "[{name: root, containerDisk: {image: a, path: null}, configMap: null}]}}"},
			"empty": {"labels: {size: huge}", "runStrategy: Halted, template: {metadata: null, spec: {volumes: null, domain: {devices: {}, memory: {guest: null}}}}"},
		} {
			p.vms = append(p.vms, p.parse(fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: %s, %s}, spec: {%s}}", name, p.ns, of[0], of[1])))
		}
		_, warned := p.compare()
		Expect(warned).To(Equal(len(p.vms)))
	})
})

const factParams = `apiVersion: v1
kind: ResourceQuota
metadata: {name: facts, namespace: %[1]s}
spec: {hard: {limits.cpu: 4, limits.memory: 1024Mi, pods: "10"}}
---
apiVersion: v1
kind: Secret
metadata: {name: facts, namespace: %[1]s}
stringData: {most: 2Gi}
---
apiVersion: v1
kind: LimitRange
metadata: {name: facts, namespace: %[1]s}
spec: {limits: [{type: Pod, max: {cpu: 2, memory: 2048Mi}}]}
`

// Facts are expressions that are true or false.
var (
	objectFacts = []string{
		"has(object.status)", "has(object.metadata.deletionTimestamp)", "has(object.metadata.deletionGracePeriodSeconds)", "has(object.metadata.selfLink)", "has(object.metadata.annotations)",
		"has(object.spec.instancetype)", "has(object.spec.template.metadata)", "has(object.spec.template.spec.hostname)", "has(object.spec.template.spec.volumes)",
		"has(object.spec.template.spec.domain.cpu)", "has(object.spec.template.spec.domain.memory)", "has(object.spec.template.spec.domain.memory.guest)", "has(object.spec.template.spec.domain.devices.disks)",
		"object.?spec.template.metadata.labels.hasValue()", "object.?spec.template.metadata.annotations.hasValue()", "object.spec.template.spec.?nodeSelector.orValue({}).size() > 0",
		"object.spec.template.spec.?volumes.orValue([]).exists(v, has(v.configMap) || has(v.containerDisk) && has(v.containerDisk.path))",
		"namespaceObject.status.phase == 'Active'", "namespaceObject.spec.finalizers == ['kubernetes']", "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == object.metadata.namespace",
		"has(namespaceObject.metadata.annotations)",
	}
	updateFacts = []string{
		"has(object.metadata.uid)", "has(object.metadata.creationTimestamp)", "object.metadata.resourceVersion == oldObject.metadata.resourceVersion", "has(oldObject.status)",
		"request.operation == 'UPDATE'", "request.name == 'grows'", "request.options.kind == 'UpdateOptions'",
		"'virtwright.dev/reapply' in object.metadata.annotations", "oldObject.metadata.name == 'grows'",
	}
	quotaFacts = []string{
		"type(params.spec.hard['limits.cpu']) == string", "quantity(string(params.spec.hard['limits.cpu'])).compareTo(quantity('4')) == 0", "params.spec.hard['limits.memory'] == '1Gi'",
		"type(params.spec.hard.pods) == string", "params.kind == 'ResourceQuota'", "params.apiVersion == 'v1'", "has(params.spec.scopes)",
	}
	secretFacts = []string{"has(params.stringData)", "params.data.most == 'Mkdp'", "has(params.immutable)"}
	rangeFacts  = []string{"type(params.spec.limits[0].max.cpu) == string", "params.spec.limits[0].max.memory == '2Gi'"}
)

// factPolicy warns which facts are true. Without a kind it has no parameter.
func factPolicy(operation, kind string, facts []string) string {
	name, param, ref := "facts-"+strings.ToLower(operation+kind), "", ""
	if kind != "" {
		param, ref = "\n  paramKind: {apiVersion: v1, kind: "+kind+"}", ", paramRef: {name: facts, parameterNotFoundAction: Deny}"
	}
	text := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: " + name + "}\n" +
		"spec: {policyName: " + name + ", validationActions: [Warn]" + ref + "}\n---\n" +
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " + name + "}\nspec:" + param +
		"\n  matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [" + operation + "], resources: [virtualmachines]}]}\n  validations:\n"
	var results []string
	for _, fact := range facts {
		results = append(results, fmt.Sprintf("'%s: ' + (%s ? 'yes' : 'no')", strings.ReplaceAll(fact, "'", `\'`), fact))
	}
	return text + fmt.Sprintf("  - {expression: %q, messageExpression: %q}\n", "false", "["+strings.Join(results, ", ")+"].join(', ')")
}

// A reapply is an update, whose old object is the stored VM.
var _ = Describe("A policy that compares a VM with the stored one", func() {
	It("says the same of a reapply, offline and from the API server", func() {
		p := newPolicyStory()
		p.story.preset(p.preset)
		p.create("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: grows, labels: {size: huge}}\nspec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n")
		p.preset = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: larger, namespace: " + p.ns + "}\n" +
			"spec: {match: {labels: {matchLabels: {size: huge}}}, overrides: {spec: {template: {spec: {domain: {memory: {guest: 16Gi}}}}}}}\n"
		p.policies = []string{`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: growth}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [UPDATE], resources: [virtualmachines]}]}
  variables:
  - {name: before, expression: string(oldObject.spec.template.spec.domain.memory.guest)}
  - {name: after, expression: string(object.spec.template.spec.domain.memory.guest)}
  validations:
  - {expression: variables.before == variables.after, messageExpression: "'memory changes from ' + variables.before + ' to ' + variables.after"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: growth}
spec: {policyName: growth, validationActions: [Deny]}
`, factPolicy("UPDATE", "", slices.Concat(objectFacts, updateFacts))}
		p.apply()
		const want = "ValidatingAdmissionPolicy 'growth' with binding 'growth' denied request: memory changes from 8Gi to 16Gi"
		var heard warnings
		_, err := p.as(heard.client(), virtualMachine).Patch(here.ctx, "grows", types.MergePatchType, []byte(`{"metadata":{"annotations":{"virtwright.dev/reapply":"1"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(MatchError(ContainSubstring(want)))
		validate := func(flags ...string) string {
			out, _ := exec.CommandContext(here.ctx, here.programs+"/virtwright", append([]string{"validate", "vm/grows", "-n", p.ns, "--kubeconfig", here.kubeconfig}, flags...)...).CombinedOutput()
			return string(out)
		}
		Expect(validate("--reapply")).To(ContainSubstring(want))
		Expect(validate()).To(ContainSubstring("1 object: all fine"))
		facts := ofPolicies(heard.texts)
		Expect(facts).To(HaveLen(1))
		Expect(validate("--reapply")).To(ContainSubstring(facts[0]))
	})
})

// policyParams are parameters of generated policies, in the story's namespace.
const policyParams = `apiVersion: v1
kind: ConfigMap
metadata: {name: bounds, namespace: %[1]s, labels: {for: vms}}
data: {most: 2Gi}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: %[1]s, labels: {for: nothing}}
data: {most: 1Mi}
---
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: bounds, namespace: %[1]s, labels: {for: vms}}
spec: {mode: "Off", match: {}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}
`

// A policyStory compares what policies say of VMs.
type policyStory struct {
	*story
	preset, params string
	policies       []string
	vms            []object
}

func newPolicyStory() *policyStory {
	p := &policyStory{story: newStory("tier=prod")}
	p.preset = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: huge, namespace: " + p.ns + "}\n" +
		"spec: {match: {labels: {matchLabels: {size: huge}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}}\n"
	return p
}

// examples adds the policies of examples, and a quota.
func (p *policyStory) examples() {
	GinkgoHelper()
	p.params = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: team, namespace: " + p.ns + "}\nspec: {hard: {limits.memory: 8Gi, limits.cpu: '4'}}\n"
	for _, name := range []string{"memory-bounds", "limits-under-quota", "image-tags"} {
		text, err := os.ReadFile(filepath.Join(root, "examples/policies", name+".yaml"))
		Expect(err).NotTo(HaveOccurred())
		p.policies = append(p.policies, string(text))
	}
}

// vm adds a VM with one container disk.
func (p *policyStory) vm(name, version, labels, domain, image string) {
	p.vms = append(p.vms, p.parse(fmt.Sprintf("apiVersion: kubevirt.io/%s\nkind: VirtualMachine\nmetadata: {name: %s, namespace: %s, labels: {%s}}\n"+
		"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {disks: [{name: root}]}, %s}, volumes: [{name: root, containerDisk: {image: %q}}]}}}\n",
		version, name, p.ns, labels, domain, image)))
}

// policyMarker rejects a VM. It is created after the policies of a story, so that they act if it
// does.
const policyMarker = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: zz-marker}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: ["*"], operations: [CREATE], resources: [virtualmachines]}]}
  validations: [{expression: object.metadata.name != 'marker'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: zz-marker}
spec: {policyName: zz-marker, validationActions: [Deny]}
`

// apply creates what the VMs need, and waits until the policies act. In the end it waits until they
// no longer do.
func (p *policyStory) apply() {
	GinkgoHelper()
	p.story.preset(p.preset)
	text := p.params + "---\n" + strings.Join(p.policies, "\n---\n")
	var isPolicy, isOther []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		if strings.Contains(document, "apiVersion: admissionregistration.k8s.io/") {
			isPolicy = append(isPolicy, document)
		} else {
			isOther = append(isOther, document)
		}
	}
	all := slices.Concat(isOther, isPolicy, []string{policyMarker})
	marker := p.parse("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: marker}\nspec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}, resources: {limits: {memory: 2Gi, cpu: 2}}}}}}\n")
	create := func() error {
		_, err := p.of(virtualMachine).Create(here.ctx, marker, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	DeferCleanup(func() {
		_, _, err := here.kubectl(strings.Join(all, "\n---\n"), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		Eventually(create).Should(Succeed())
	})
	// Parameters come before policies, so that API servers find them when they begin to watch their
	// kind.
	_, _, err := here.kubectl(strings.Join(all, "\n---\n"), "create", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	Eventually(create).Should(MatchError(ContainSubstring("zz-marker")))
}

// A policyVerdict is what policies say of a VM.
type policyVerdict struct{ problems, warnings []string }

// offline is what validate says of each VM, by name.
func (p *policyStory) offline() map[string]policyVerdict {
	GinkgoHelper()
	namespace, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": p.ns, "labels": map[string]string{"tier": "prod"}},
	})
	Expect(err).NotTo(HaveOccurred())
	documents := append([]string{string(namespace), p.preset, p.params}, p.policies...)
	for _, vm := range p.vms {
		text, err := yaml.Marshal(vm.Object)
		Expect(err).NotTo(HaveOccurred())
		documents = append(documents, string(text))
	}
	file := filepath.Join(GinkgoT().TempDir(), "all.yaml")
	Expect(os.WriteFile(file, []byte(strings.Join(documents, "\n---\n")), 0o600)).To(Succeed())
	out, err := exec.CommandContext(here.ctx, here.programs+"/virtwright", "validate", "-o", "json", "-f", file, "--feature-gates="+gates).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		Expect(exit.ExitCode()).To(Equal(1), string(exit.Stderr))
	}
	var report struct {
		Objects []struct {
			Kind, Name string
			Problems   []struct{ Message string }
			Warnings   []string
		}
	}
	Expect(json.Unmarshal(out, &report)).To(Succeed(), string(out))
	verdicts := map[string]policyVerdict{}
	for _, o := range report.Objects {
		if o.Kind != virtualMachine {
			Expect(o.Problems).To(BeEmpty(), o.Name)
			continue
		}
		var v policyVerdict
		for _, problem := range o.Problems {
			v.problems = append(v.problems, problem.Message)
		}
		v.warnings = ofPolicies(o.Warnings)
		verdicts[o.Name] = v
	}
	return verdicts
}

// ofPolicies are the warnings of policies about VMs. Their VMIs are not created here.
func ofPolicies(warnings []string) []string {
	out := slices.DeleteFunc(warnings, func(text string) bool {
		return !strings.Contains(text, "ValidatingAdmissionPolicy") || strings.HasPrefix(text, "the VM could not start: ")
	})
	slices.Sort(out)
	return out
}

// compare compares the verdicts on all VMs, and counts them. Of several denials an API server
// returns one.
func (p *policyStory) compare() (rejected, warned int) {
	GinkgoHelper()
	said := p.offline()
	for _, vm := range p.vms {
		var heard warnings
		resource := resources[virtualMachine]
		resource.Version = vm.GroupVersionKind().Version
		_, err := heard.client().Resource(resource).Namespace(p.ns).Create(here.ctx, vm, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict, FieldManager: "kubectl-create",
		})
		v, known := said[vm.GetName()]
		Expect(known).To(BeTrue(), vm.GetName())
		text, _ := yaml.Marshal(vm.Object)
		about := fmt.Sprintf("%s\noffline: %q", text, v.problems)
		if err == nil {
			Expect(v.problems).To(BeEmpty(), about)
		} else {
			rejected++
			status, ok := errors.AsType[*apierrors.StatusError](err)
			Expect(ok).To(BeTrue(), err.Error())
			Expect(status.ErrStatus.Details).NotTo(BeNil(), err.Error())
			Expect(status.ErrStatus.Details.Causes).To(HaveLen(1), "%s\nAPI server: %v", about, err)
			Expect(v.problems).To(ContainElement(status.ErrStatus.Details.Causes[0].Message), "%s\nAPI server: %v", about, err)
		}
		Expect(v.warnings).To(HaveExactElements(toAny(ofPolicies(heard.texts))...), about)
		if len(v.warnings) > 0 {
			warned++
		}
	}
	return rejected, warned
}
