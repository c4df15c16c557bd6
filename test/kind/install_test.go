package kind

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// shop is the namespace of the machines of these stories.
const shop = "shop"

// sized is a preset that says what the VMs of these stories leave open.
const sized = `{apiVersion: virtwright.dev/v1alpha1, kind: VirtualMachinePreset, metadata: {name: sized, namespace: shop},
  spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}, memory: {guest: 1Gi},
    firmware: {kernelBoot: {container: {image: "docker.io/virtwright/guest:test", kernelPath: /boot/vmlinuz}}}}}}}}}}`

// sparse is a VM of a name and nothing else.
func sparse(name string) string {
	return fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: shop}}`, name)
}

// in is a manifest of a VM in another version than v1.
func in(version, manifest string) string {
	return strings.Replace(manifest, "kubevirt.io/v1,", "kubevirt.io/"+version+",", 1)
}

// bare is a VM of a name and as little else as the schema asks for.
func bare(name string) string {
	return strings.Replace(sparse(name), "}}", "}, spec: {template: {}}}", 1)
}

// decoded decodes base64.
func decoded(text string) string {
	GinkgoHelper()
	content, err := base64.StdEncoding.DecodeString(text)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(content))
}

// seedVersion has v1alpha2 served.
const seedVersion = "--set=apiVersions.v1alpha2=true"

// ours picks what the chart made in the cluster.
const ours = "--selector=app.kubernetes.io/instance=" + release

var _ = Describe("From installation to removal", Ordered, func() {
	BeforeAll(func() {
		helm("uninstall", release, "--ignore-not-found", "--wait") // of a run that failed
		kubectl("delete", "namespace", shop, "--ignore-not-found")
		kubectl("create", "namespace", shop)
		DeferCleanup(func() { kubectl("delete", "namespace", shop) })
	})

	It("says what to do where cert-manager is not installed", func() {
		if strings.Contains(kubectl("api-versions"), "cert-manager.io/v1\n") {
			Skip("cert-manager is here already")
		}
		_, complaint, err := run("helm", "", "install", release, chart, "--namespace", home, "--create-namespace")
		Expect(err).To(HaveOccurred())
		Expect(complaint).To(And(ContainSubstring("cert-manager is not installed"), ContainSubstring("certs.mode=self-signed")))
		Expect(helm("list", "--all", "--short")).To(BeEmpty(), "and leaves nothing")
	})

	It("installs with no flag", func() {
		Expect(here.cluster.InstallCertManager(here.ctx)).To(Succeed())
		notes := helm("install", release, chart, seedVersion, "--create-namespace", "--wait", "--timeout=3m")
		Expect(notes).To(ContainSubstring("helm test " + release))
		Expect(field(home+"/deployment/"+release, ".status.readyReplicas")).To(Equal("2"))
	})

	It("has certificates of cert-manager, and API servers trust them", func() {
		kubectl("wait", "certificates", "--all", "--namespace", home, "--for=condition=Ready", "--timeout=1m")
		ca := decoded(field(home+"/secret/"+release+"-serving", `.data.ca\.crt`))
		Expect(ca).NotTo(BeEmpty())
		for _, object := range []struct{ name, bundles string }{
			{"mutatingwebhookconfiguration/admission.virtwright.dev", ".webhooks[*].clientConfig.caBundle"},
			{"validatingwebhookconfiguration/admission.virtwright.dev", ".webhooks[*].clientConfig.caBundle"},
			{"apiservice/v1.subresources.kubevirt.io", ".spec.caBundle"},
			{"crd/virtualmachines.kubevirt.io", ".spec.conversion.webhook.clientConfig.caBundle"},
		} {
			// cert-manager keeps earlier CAs trusted as long as they are valid.
			Eventually(func() []string { return strings.Fields(field(object.name, object.bundles)) }).Should(
				And(Not(BeEmpty()), HaveEach(WithTransform(decoded, ContainSubstring(ca)))), object.name)
		}
		kubectl("wait", "apiservice/v1.subresources.kubevirt.io", "apiservice/v1alpha3.subresources.kubevirt.io", "apiservice/v1alpha1.subresources.virtwright.dev", "--for=condition=Available", "--timeout=1m")
	})

	It("makes a sparse VM whole", func() {
		create(sized)
		kubectl("wait", "virtualmachinepreset/sized", "--namespace", shop, "--for=condition=Ready", "--timeout=30s")
		Expect(create(sparse("web"))).NotTo(ContainSubstring("Warning"))
		Expect(field(shop+"/vm/web", ".spec.template.spec.domain.memory.guest")).To(Equal("1Gi"))
		Expect(field(shop+"/vm/web", ".spec.template.spec.domain.machine.type")).To(Equal("q35"))
		Expect(field(shop+"/vm/web", ".spec.runStrategy")).To(Equal("Halted"))
	})

	It("reads and writes a VM in the oldest version, which needs conversion", func() {
		Expect(field(shop+"/virtualmachines.v1alpha2.kubevirt.io/web", ".apiVersion")).To(Equal("kubevirt.io/v1alpha2"))
	})

	It("starts a VM through the API server", func() {
		verb(shop, "web", "start")
		Eventually(func() []string { return names("vmi", "--namespace", shop) }).Should(ConsistOf("virtualmachineinstance.kubevirt.io/web"))
		Expect(field(shop+"/vmi/web", ".spec.domain.memory.guest")).To(Equal("1Gi"))
		Expect(field(shop+"/vmi/web", ".metadata.ownerReferences[0].name")).To(Equal("web"))
		Eventually(func() string { return field(shop+"/vm/web", ".status.printableStatus") }).Should(Equal("ErrorUnschedulable"), "no node has KVM")
	})

	It("rejects an edit of owner references", func() {
		for object, merge := range map[string]string{
			"vmi/web": `{"metadata":{"ownerReferences":[]}}`,
			"vm/web":  `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"any","uid":"5a0e3b4c-0000-4000-8000-00000000dead"}]}}`,
		} {
			_, complaint, err := run("kubectl", "", "patch", object, "--namespace", shop, "--type=merge", "--patch="+merge)
			Expect(err).To(HaveOccurred(), object)
			Expect(complaint).To(ContainSubstring("(owner-references)"), object)
		}
		Expect(field(shop+"/vmi/web", ".metadata.ownerReferences[0].kind")).To(Equal("VirtualMachine"))
	})

	It("stops a VM through the API server", func() {
		verb(shop, "web", "stop")
		Eventually(func() []string { return names("vmi", "--namespace", shop) }).Should(BeEmpty())
		Eventually(func() string { return field(shop+"/vm/web", ".status.printableStatus") }).Should(Equal("Stopped"))
	})

	It("goes on when a replica is killed with -9", func() {
		_, err := here.cluster.Exec(here.ctx, here.cluster.Nodes()[0], "pkill", "-KILL", "--oldest", "--full", "^/virtwright-manager")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			_, _, err := run("kubectl", sparse("survivor"), "create", "-f", "-")
			return err
		}).WithTimeout(5 * time.Second).Should(Succeed())
		Expect(field(shop+"/vm/survivor", ".spec.template.spec.domain.memory.guest")).To(Equal("1Gi"))
		Eventually(func() string { return field(home+"/deployment/"+release, ".status.readyReplicas") }).Should(Equal("2"))
	})

	It("passes helm test", func() {
		Expect(helm("test", release, "--timeout=2m")).To(MatchRegexp(`Phase:\s+Succeeded`))
	})

	It("upgrades, and keeps stored objects", func() {
		definition, machine := field("crd/virtualmachines.kubevirt.io", ".metadata.uid"), field(shop+"/vm/web", ".metadata.uid")
		helm("upgrade", release, chart, seedVersion, "--wait", "--timeout=3m", "--set=replicas=3,log.level=debug")
		Expect(field(home+"/deployment/"+release, ".status.readyReplicas")).To(Equal("3"))
		Expect(field("crd/virtualmachines.kubevirt.io", ".metadata.uid")).To(Equal(definition))
		Expect(field(shop+"/vm/web", ".metadata.uid")).To(Equal(machine))
		create(sparse("after-upgrade"))
		Expect(field(shop+"/vm/after-upgrade", ".spec.template.spec.domain.memory.guest")).To(Equal("1Gi"))
		helm("rollback", release, "1", "--wait", "--timeout=3m")
		create(sparse("after-rollback"))
		Expect(field(shop+"/vm/after-rollback", ".spec.template.spec.domain.memory.guest")).To(Equal("1Gi"))
	})

	It("goes, and leaves machines and nothing that blocks the cluster", func() {
		create(in("v1alpha2", sparse("oldest")))
		create(in("v1alpha3", sparse("older")))
		helm("uninstall", release, "--wait", "--timeout=3m")
		By("the kept objects")
		Expect(names("vm", "--namespace", shop)).To(HaveLen(6))
		Expect(names("virtualmachinepresets", "--namespace", shop)).To(HaveLen(1))
		definitions, err := filepath.Glob(chart + "/files/crds/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(names("crd", ours)).To(HaveLen(len(definitions)))
		By("the deleted objects")
		Expect(names("mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,apiservices,clusterroles,clusterrolebindings", ours)).To(BeEmpty())
		Eventually(func() []string {
			return names("all,roles,rolebindings,serviceaccounts,networkpolicies,poddisruptionbudgets,certificates,issuers", "--namespace", home, ours)
		}).Should(BeEmpty(), "pods end when they have answered what API servers may still send")
		By("what works without us")
		create(bare("bare"))
		Expect(field(shop+"/vm/bare", ".spec")).To(Equal(`{"template":{}}`), "no webhook expands it")
		kubectl("delete", "vm", "bare", "web", "--namespace", shop, "--timeout=30s")
		By("what needs no conversion any more")
		Expect(field("crd/virtualmachines.kubevirt.io", ".spec.conversion")).To(Equal(`{"strategy":"None"}`))
		Expect(field("crd/virtualmachines.kubevirt.io", ".metadata.annotations")).NotTo(ContainSubstring("cert-manager.io"))
		for _, version := range []string{"v1", "v1alpha3"} {
			create(in(version, bare("new-in-"+version)))
			for _, name := range []string{"oldest", "older", "survivor", "new-in-v1"} {
				vm := "virtualmachines." + version + ".kubevirt.io/" + name
				Expect(field(shop+"/"+vm, ".apiVersion")).To(Equal("kubevirt.io/" + version))
				kubectl("label", vm, "--namespace", shop, "--overwrite", "written-in="+version)
				applied := strings.Replace(in(version, sparse(name)), "namespace: shop", "namespace: shop, labels: {applied: here}", 1)
				_, _, err := run("kubectl", applied, "apply", "--server-side", "--force-conflicts", "-f", "-")
				Expect(err).NotTo(HaveOccurred(), "of versions in managedFields, too")
			}
		}
		kubectl("delete", "vm", "new-in-v1", "new-in-v1alpha3", "--namespace", shop, "--timeout=30s")
		_, complaint, err := run("kubectl", "", "get", "--raw", "/apis/kubevirt.io/v1alpha2/namespaces/"+shop+"/virtualmachines")
		Expect(err).To(HaveOccurred())
		Expect(complaint).To(ContainSubstring("could not find the requested resource"))
	})

	It("installs again over the kept objects, with its own certificates", func() {
		helm("install", release, chart, seedVersion, "--wait", "--timeout=3m", "--set=certs.mode=self-signed")
		Eventually(func() error {
			_, _, err := run("kubectl", sparse("back"), "create", "-f", "-")
			return err
		}).Should(Succeed())
		Expect(field(shop+"/vm/back", ".spec.template.spec.domain.memory.guest")).To(Equal("1Gi"))
		kubectl("wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s") // which helm does not wait for
		verb(shop, "back", "start")
		Eventually(func() []string { return names("vmi", "--namespace", shop) }).Should(ConsistOf("virtualmachineinstance.kubevirt.io/back"))
		Expect(field(shop+"/virtualmachines.v1alpha2.kubevirt.io/back", ".apiVersion")).To(Equal("kubevirt.io/v1alpha2"))
		kubectl("delete", "vm", "back", "--namespace", shop, "--timeout=30s")
		Eventually(func() []string { return names("vmi", "--namespace", shop) }).Should(BeEmpty(), "VMIs have a finalizer that the manager removes")
		helm("uninstall", release, "--wait", "--timeout=3m")
	})
})
