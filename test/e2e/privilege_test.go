package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const roles = root + "/charts/virtwright/files/roles"

// as is the client of a user, impersonated by the administrator.
func as(user string, groups ...string) dynamic.Interface {
	GinkgoHelper()
	config := rest.CopyConfig(here.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return clientOf(config)
}

// installRoles installs the roles that come with virtwright.
func installRoles() {
	GinkgoHelper()
	files, err := filepath.Glob(roles + "/*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		_, _, err = here.kubectl(string(content), "apply", "--server-side", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	}
}

// bind gives a user roles in the story's namespace.
func (s *story) bind(user string, clusterRoles ...string) {
	GinkgoHelper()
	for _, role := range clusterRoles {
		s.kubectl("", "create", "rolebinding", user+"-"+role, "--clusterrole="+role, "--user="+user)
	}
	last := clusterRoles[len(clusterRoles)-1]
	probe := map[string][]string{
		"edit": {"create", "virtualmachines.kubevirt.io"}, "view": {"get", "virtualmachines.kubevirt.io"},
		"virtwright-preset-author":    {"create", "virtualmachinepresets.virtwright.dev"},
		"virtwright-preset-escalate":  {"escalate", "virtualmachinepresets.virtwright.dev"},
		"virtwright-preset-use":       {"use", "virtualmachinepresets.virtwright.dev"},
		"virtwright-exception-author": {"create", "presetexceptions.virtwright.dev"},
	}[last]
	Expect(probe).NotTo(BeNil(), last)
	Eventually(func() error { return s.can(user, probe[0], probe[1]) }).Should(Succeed())
}

// can is nil when a user may do something in the story's namespace.
func (s *story) can(user, verb, resource string) error {
	_, _, err := s.tryKubectl("", "auth", "can-i", "-q", "--as="+user, verb, resource)
	return err
}

var _ = Describe("Writing presets", Ordered, func() {
	// sensitive are parts that reach beyond a VM.
	sensitive := map[string]string{
		"hostDisk":          "volumes: [{name: h, hostDisk: {path: /etc/shadow, type: Disk}}], domain: {devices: {disks: [{name: h}]}}",
		"hostDevices":       "domain: {devices: {hostDevices: [{name: d, deviceName: vendor.com/d}]}}",
		"cloud-init":        "volumes: [{name: c, cloudInitNoCloud: {userData: x}}], domain: {devices: {disks: [{name: c}]}}",
		"config drive":      "volumes: [{name: c, cloudInitConfigDrive: {secretRef: {name: x}}}], domain: {devices: {disks: [{name: c}]}}",
		"accessCredentials": "accessCredentials: [{sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {noCloud: {}}}}]",
		"secret":            "volumes: [{name: s, secret: {secretName: k}}], domain: {devices: {disks: [{name: s}]}}",
		"service account":   "volumes: [{name: s, serviceAccount: {serviceAccountName: k}}], domain: {devices: {disks: [{name: s}]}}",
		"sysprep":           "volumes: [{name: s, sysprep: {secret: {name: k}}}], domain: {devices: {disks: [{name: s}]}}",
		"kernelBoot":        "domain: {firmware: {kernelBoot: {kernelArgs: x, container: {image: i, kernelPath: /k}}}}",
		"downwardMetrics":   "domain: {devices: {downwardMetrics: {}}}",
		"gpus":              "domain: {devices: {gpus: [{name: g, deviceName: vendor.com/d}]}}",
		"labelled config":   "volumes: [{name: c, configMap: {name: c, volumeLabel: cidata}}], domain: {devices: {disks: [{name: c}]}}",
		"sriov":             "domain: {devices: {interfaces: [{name: nic, sriov: {}}]}}, networks: [{name: nic, multus: {networkName: net}}]",
		"reservation":       "volumes: [{name: l, persistentVolumeClaim: {claimName: l}}], domain: {devices: {disks: [{name: l, lun: {reservation: true}}]}}",
		"priority class":    "priorityClassName: system-node-critical",
		"foreign network":   "domain: {devices: {interfaces: [{name: nic, bridge: {}}]}}, networks: [{name: nic, multus: {networkName: elsewhere/net}}]",
		"probe of a host":   "livenessProbe: {httpGet: {host: 10.0.0.1, port: 80}}",
		"guest command":     "livenessProbe: {exec: {command: [reboot]}}",
	}
	const harmless = "hostname: web"
	spec := func(layer, more, part string) string {
		return fmt.Sprintf("{%s%s: {spec: {template: {spec: {%s}}}}}", more, layer, part)
	}
	var s *story
	BeforeAll(installRoles)
	BeforeEach(func() {
		s = newStory()
		s.bind("editor", "edit")
		s.bind("author", "edit", "virtwright-preset-author")
	})
	tryAs := func(user, manifest string) error {
		GinkgoHelper()
		in := s.parse(manifest)
		_, err := s.as(as(user), in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{})
		return err
	}

	It("comes with no role that people have anyway; looking does", func() {
		s.bind("viewer", "view")
		Eventually(func() error { return s.can("viewer", "list", "virtualmachinepresets.virtwright.dev") }).Should(Succeed())
		Expect(s.can("editor", "list", "virtualmachinepresets.virtwright.dev")).To(Succeed())
		for _, verb := range []string{"create", "update", "patch", "delete", "escalate", "use"} {
			Expect(s.can("editor", verb, "virtualmachinepresets.virtwright.dev")).NotTo(Succeed(), verb)
		}
	})

	It("takes the right to write VMs where the preset acts", func() {
		s.kubectl("", "create", "rolebinding", "b", "--clusterrole=virtwright-preset-author", "--user=stranger")
		Eventually(func() error { return s.can("stranger", "create", "virtualmachinepresets.virtwright.dev") }).Should(Succeed())
		Expect(tryAs("stranger", aPreset("p", spec("defaults", "", harmless)))).To(MatchError(And(
			ContainSubstring("may not update virtualmachines.kubevirt.io in namespace "+s.ns), ContainSubstring("spec: Forbidden"))))
		Expect(tryAs("author", aPreset("p", spec("defaults", "", harmless)))).To(Succeed())
	})

	It("for the cluster takes that right in the cluster", func() {
		user := "cluster-author-" + s.ns
		_, _, err := here.kubectl("", "create", "clusterrolebinding", user, "--clusterrole=virtwright-preset-author", "--user="+user)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _, _, _ = here.kubectl("", "delete", "clusterrolebinding", user) })
		s.bind(user, "edit")
		Eventually(func() error { return tryAs(user, aPreset("cluster/"+s.ns, spec("defaults", "", harmless))) }).Should(
			MatchError(ContainSubstring("may not update virtualmachines.kubevirt.io in all namespaces")))
	})

	It("never sets guarded fields, for any user", func() {
		for part, why := range map[string]string{
			"metadata: {ownerReferences: [{uid: a}]}":                                   "ownerReferences",
			"metadata: {finalizers: [a/b]}":                                             "finalizers",
			"metadata: {annotations: {virtwright.dev/presets: x}}":                      "virtwright.dev/presets",
			"metadata: {annotations: {virtwright.dev/generate-template: x}}":            "virtwright.dev/generate-template",
			"metadata: {annotations: {hooks.kubevirt.io/hookSidecars: x}}":              "hooks.kubevirt.io",
			"spec: {template: {metadata: {ownerReferences: [{uid: a}]}}}":               "ownerReferences",
			"spec: {template: {metadata: {annotations: {hooks.kubevirt.io/x: y}}}}":     "hooks.kubevirt.io",
			"spec: {template: {metadata: {annotations: {virtwright.dev/presets: x}}}}":  "virtwright.dev/presets",
			"spec: {template: {metadata: {labels: {kubevirt.io/nodeName: elsewhere}}}}": "kubevirt.io/nodeName",
		} {
			_, err := s.tryCreate(aPreset("p", "{overrides: {"+part+"}}"))
			Expect(err).To(MatchError(ContainSubstring(why)), part)
		}
	})

	It("that reach beyond the VM takes the verb escalate, in every layer, mode and moment", func() {
		for name, part := range sensitive {
			for _, layer := range []string{"defaults", "overrides"} {
				for _, more := range []string{"", "mode: Warn, ", "mode: Audit, ", "mode: \"Off\", ", "applyAt: Launch, ", "match: {explicit: true}, "} {
					Expect(tryAs("author", aPreset("p", spec(layer, more, part)))).To(
						MatchError(And(ContainSubstring("may not escalate virtualmachinepresets.virtwright.dev p in namespace "+s.ns), ContainSubstring("reach beyond the VM"))),
						"%s in %s, %s", name, layer, more)
				}
			}
		}
		s.bind("author", "virtwright-preset-escalate")
		for name, part := range sensitive {
			allowed := strings.ReplaceAll(strings.ToLower(name), " ", "-")
			Expect(tryAs("author", aPreset(allowed, spec("defaults", "mode: \"Off\", ", part)))).To(Succeed(), name)
		}
	})

	It("may not borrow what another wrote: neither by a change, nor by KubeVirt's kind", func() {
		theirs := s.preset(aPreset("theirs", spec("defaults", "match: {labels: {matchLabels: {only: mine}}}, ", sensitive["cloud-init"])))
		widen := func(merge string) error {
			_, err := s.as(as("author"), preset).Patch(here.ctx, theirs.GetName(), types.MergePatchType, []byte(merge), metav1.PatchOptions{})
			return err
		}
		Expect(widen(`{"spec":{"match":null}}`)).To(MatchError(ContainSubstring("may not escalate")))
		Expect(widen(`{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(widen(`{"spec":{"defaults":null}}`)).To(Succeed(), "less is no escalation")
		By("changing a preset that waits for a finalizer, and still acts")
		Expect(widen(`{"metadata":{"finalizers":["example.com/stay"]}}`)).To(Succeed())
		Expect(s.as(as("author"), preset).Delete(here.ctx, theirs.GetName(), metav1.DeleteOptions{})).To(Succeed())
		Expect(widen(`{"spec":{"defaults":{"spec":{"template":{"spec":{"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"x"}}]}}}}}}`)).To(MatchError(ContainSubstring("may not escalate")))
		Expect(widen(`{"metadata":{"finalizers":null}}`)).To(Succeed())
		Expect(tryAs("editor", `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: old}, spec: {selector: {},
domain: {devices: {hostDevices: [{name: d, deviceName: vendor.com/d}]}}}}`)).To(
			MatchError(ContainSubstring("may not escalate virtualmachineinstancepresets.kubevirt.io old")))
		Expect(tryAs("editor", `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstancePreset, metadata: {name: old}, spec: {selector: {},
domain: {devices: {}, cpu: {cores: 2}}}}`)).To(Succeed())
	})

	It("that act on VMs that name them require the verb use", func() {
		s.preset(aPreset("secrets", spec("defaults", "match: {explicit: true}, ", sensitive["cloud-init"])))
		const named = "annotations: {virtwright.dev/presets: secrets}"
		forms := map[string]string{
			"on a VM":       "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, " + named + "}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}",
			"on a template": "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: b}, spec: {template: {metadata: {" + named + "}, spec: {domain: {memory: {guest: 1Gi}}}}}}",
			"on a VMI":      "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: c, " + named + "}, spec: {domain: {memory: {guest: 1Gi}}}}",
		}
		rejected := MatchError(ContainSubstring("may not use preset secrets: requires permission to use virtualmachinepresets.virtwright.dev secrets"))
		for name, form := range forms {
			Expect(tryAs("editor", form)).To(rejected, name)
		}
		s.create(vm("plain", "spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}"))
		_, err := s.as(as("editor"), virtualMachine).Patch(here.ctx, "plain", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"virtwright.dev/presets":"secrets"}}}`), metav1.PatchOptions{})
		Expect(err).To(rejected)
		s.bind("editor", "virtwright-preset-use")
		for name, form := range forms {
			Expect(tryAs("editor", form)).To(Succeed(), name)
		}
		Expect(at(s.get(virtualMachine, "a"), "spec.template.spec.volumes[c].cloudInitNoCloud.userData")).To(Equal("x"))
	})

	It("that VMs name require the verb use again, for more than they had", func() {
		p := s.preset(aPreset("secrets", "{match: {explicit: true}, defaults: {spec: {template: {spec: {hostname: first, subdomain: first}}}}}"))
		const named = "annotations: {virtwright.dev/presets: secrets}"
		s.create(vm("on-template", "spec: {template: {metadata: {"+named+"}, spec: {domain: {memory: {guest: 1Gi}}}}}"))
		for _, name := range []string{"excluding", "emptying"} {
			s.create("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: " + name + ", " + named + "}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}")
		}
		s.edit(p, "spec: {defaults: {spec: {template: {spec: {hostname: second}}}}}")
		change := func(name, merge string) error {
			raw, err := yaml.YAMLToJSON([]byte(merge))
			Expect(err).NotTo(HaveOccurred())
			_, err = s.as(as("editor"), virtualMachine).Patch(here.ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
			return err
		}
		rejected := MatchError(ContainSubstring("may not use preset secrets: requires permission to use virtualmachinepresets.virtwright.dev secrets"))
		By("naming on a VM what its template names")
		Expect(change("on-template", "metadata: {"+named+"}")).To(rejected)
		By("ending an exclusion")
		Expect(change("excluding", "metadata: {annotations: {virtwright.dev/exclude: secrets}}")).To(Succeed())
		Expect(at(s.get(virtualMachine, "excluding"), "spec.template.spec.hostname")).To(BeNil())
		Expect(change("excluding", "metadata: {annotations: {virtwright.dev/exclude: null}}")).To(rejected)
		By("emptying a field, so that the changed preset fills it")
		Expect(change("emptying", "metadata: {labels: {a: b}}")).To(Succeed())
		Expect(change("emptying", "spec: {template: {spec: {hostname: mine}}}")).To(Succeed())
		Expect(change("emptying", "spec: {template: {spec: {hostname: null}}}")).To(rejected)
		s.bind("editor", "virtwright-preset-use")
		Expect(change("on-template", "metadata: {"+named+"}")).To(Succeed())
		Expect(change("excluding", "metadata: {annotations: {virtwright.dev/exclude: null}}")).To(Succeed())
		Expect(change("emptying", "spec: {template: {spec: {hostname: null}}}")).To(Succeed())
		Expect(at(s.get(virtualMachine, "emptying"), "spec.template.spec.hostname")).To(Equal("second"))
	})
})
