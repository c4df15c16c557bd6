package e2e

import (
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// seedVM is the VM of the founding document, as a VirtualMachine has it.
const seedVM = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm-ephemeral}
spec:
  runStrategy: Halted
  template:
    spec:
      domain:
        devices:
          disks:
          - {disk: {bus: virtio}, name: containerdisk}
        resources: {requests: {memory: 128Mi}}
      volumes:
      - {containerDisk: {image: "registry:5000/kubevirt/cirros-container-disk-demo:devel"}, name: containerdisk}
`

var _ = Describe("A template of a live VM, in a cluster without a template API", Ordered, func() {
	var s *story
	BeforeAll(func() { withdraw(openShiftCRD) })

	It("waits, also while there is no manager, and is made once its API is there", func() {
		ownManager()
		s = newStory()
		s.create(seedVM)
		made := s.create(order("sample", "{vmName: vm-ephemeral, templateName: vm-ephemeral-template, format: template.openshift.io/v1}"))
		Expect(made).To(haveAt("spec.source", map[string]any{"vmName": "vm-ephemeral", "vmNamespace": s.ns}))
		Expect(made).To(haveAt("spec.target", map[string]any{"openshiftTemplate": map[string]any{"name": "vm-ephemeral-template"}}))
		for _, short := range []string{"vmName", "templateName", "format"} {
			Expect(made).To(lackAt("spec." + short))
		}
		s.becomes("sample", waitsAPI)
		Expect(s.saying("sample")).To(ContainSubstring("template.openshift.io/v1 is not served by this cluster"))
		here.manager.stop(syscall.SIGKILL)
		serve(openShiftTemplates, openShiftCRD)
		DeferCleanup(withdraw, openShiftCRD)
		here.manager.start()
		here.manager.awaitAnswering()
		s.becomes("sample", isMade)

		template := s.template("vm-ephemeral-template")
		values := parameters(template)
		for name, value := range map[string]string{
			"DISK0_BUS": "virtio", "REQUESTS_MEMORY": "128Mi", "VOLUME0_IMAGE": "registry:5000/kubevirt/cirros-container-disk-demo:devel", "LABELS": "{}",
		} {
			Expect(values).To(HaveKeyWithValue(name, value))
		}
		Expect(at(s.get(templateOrder, "sample"), "status.templateRef.uid")).To(Equal(string(template.GetUID())))
		Expect(at(s.get(templateOrder, "sample"), "status.parameterCount")).To(Equal(int64(len(values))))
	})

	It("does not delay anything else, not even without an API server to ask", func() {
		ownManager()
		const requests = "virtualmachinetemplaterequests.ssp.kubevirt.io"
		withdraw(requests)
		manifest, err := os.ReadFile(crds + "/ssp.kubevirt.io_virtualmachinetemplaterequests.yaml")
		Expect(err).NotTo(HaveOccurred())
		install := func() { serve(string(manifest), requests) }
		DeferCleanup(install)
		here.manager.restartWith()
		s = newStory()
		s.create(always("web"))
		s.machineIs("web", "Starting")
		install()
		s.create(order("plain", "{source: {vmName: web}, target: {configMap: {}}}"))
		s.becomes("plain", isMade)
	})

	It("needs none as a ConfigMap", func() {
		s = newStory()
		s.create(seedVM)
		s.create(order("plain", "{source: {vmName: vm-ephemeral}, target: {configMap: {}}}"))
		s.becomes("plain", isMade)
		Expect(at(s.get("ConfigMap", "plain"), "data")).To(HaveKeyWithValue("template.yaml", ContainSubstring("kind: Template")))
	})
})

var _ = Describe("Templates of live VMs", Ordered, func() {
	templateAPIs()
	var s *story
	BeforeEach(func() { s = newStory() })

	annotate := func(name, value string) {
		GinkgoHelper()
		s.kubectl("", "annotate", "--overwrite", "vm", name, "virtwright.dev/generate-template="+value)
	}
	requests := func() []string {
		GinkgoHelper()
		list, err := s.of(templateOrder).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		return names
	}
	templates := func() []string {
		GinkgoHelper()
		list, err := s.of("Template").List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		return names
	}

	It("are made of a request, in each form, and say where they come from", func() {
		vm := s.create(strings.Replace(seedVM, "metadata: {name: vm-ephemeral}", "metadata: {name: vm-ephemeral, labels: {app: a}}", 1))
		for form, kind := range map[string]string{"openshiftTemplate": "Template", "virtualMachineTemplate": "VirtualMachineTemplate", "configMap": "ConfigMap"} {
			name := strings.ToLower(form)
			s.create(order(name, "{source: {vmName: vm-ephemeral, vmUID: "+string(vm.GetUID())+"}, target: {"+form+": {name: of-"+name+"}}, templateLabels: {team: x}}"))
			request := s.becomes(name, isMade)
			template := s.get(kind, "of-"+name)
			Expect(template.GetLabels()).To(And(HaveKeyWithValue("team", "x"), HaveKeyWithValue("virtwright.dev/template-request", string(request.GetUID()))))
			Expect(template.GetAnnotations()).To(And(
				HaveKeyWithValue("virtwright.dev/source-vm", s.ns+"/vm-ephemeral"), HaveKeyWithValue("virtwright.dev/source-uid", string(vm.GetUID()))))
			Expect(at(request, "status.sourceUID")).To(Equal(string(vm.GetUID())))
			Expect(at(request, "status.conditions")).To(ContainElement(And(HaveKeyWithValue("type", "Verified"), HaveKeyWithValue("status", "True"))))
			Expect(template.GetOwnerReferences()).To(BeEmpty())
		}
		out, _ := s.kubectl("", "get", "vmtreq")
		Expect(out).To(MatchRegexp(`openshifttemplate +vm-ephemeral +of-openshifttemplate +True +Reconciled`))
	})

	It("are made by annotation, once for each VM and value", func() {
		vm := s.create(seedVM)
		annotate("vm-ephemeral", "golden")
		Eventually(templates).Should(ConsistOf("golden"))
		Expect(requests()).To(HaveLen(1))
		request := s.becomes(requests()[0], isMade)
		Expect(request.GetOwnerReferences()).To(ConsistOf(HaveField("UID", vm.GetUID())))
		Expect(at(request, "spec.requester.username")).NotTo(Equal(ourselves))

		By("saying so in events of the VM")
		Eventually(func() string { out, _ := s.kubectl("", "describe", "vm", "vm-ephemeral"); return out }).Should(
			And(ContainSubstring("TemplateRequested"), ContainSubstring("Template golden exists")))

		By("not creating it again after other changes")
		annotate("vm-ephemeral", "golden")
		s.patch("vm-ephemeral", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)
		Consistently(requests, "1s").Should(HaveLen(1))
		s.kubectl("", "delete", "vmtreq", request.GetName())
		s.patch("vm-ephemeral", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":8}}}}`)
		Consistently(requests, "1s").Should(BeEmpty())
		Expect(parameters(s.template("golden"))).NotTo(HaveKey("TERMINATION_GRACE_PERIOD_SECONDS"))

		By("making another for another value")
		annotate("vm-ephemeral", "silver")
		Eventually(templates).Should(ConsistOf("golden", "silver"))
		Eventually(func() map[string]string { return parameters(s.template("silver")) }).Should(HaveKeyWithValue("TERMINATION_GRACE_PERIOD_SECONDS", "8"))

		By("doing nothing when it goes, and leaving templates when the VM does")
		s.kubectl("", "annotate", "vm", "vm-ephemeral", "virtwright.dev/generate-template-")
		Expect(s.get(virtualMachine, "vm-ephemeral").GetAnnotations()).NotTo(HaveKey("virtwright.dev/template-requester"))
		s.kubectl("", "delete", "vm", "vm-ephemeral")
		Eventually(requests).Should(BeEmpty())
		Expect(templates()).To(ConsistOf("golden", "silver"))
	})

	It("are made of VMs that are created with the annotation, and end well where a copy asks again", func() {
		s.create(strings.Replace(seedVM, "metadata: {name: vm-ephemeral}", "metadata: {name: first, annotations: {virtwright.dev/generate-template: golden}}", 1))
		Eventually(templates).Should(ConsistOf("golden"))
		uid := s.template("golden").GetUID()
		copied, _ := s.kubectl("", "get", "vm", "first", "-o", "yaml")
		s.kubectl(strings.Replace(copied, "name: first", "name: second", 1), "create", "-f", "-")
		Eventually(requests).Should(HaveLen(2))
		second := requests()[slices.IndexFunc(requests(), func(n string) bool { return strings.HasPrefix(n, "second-") })]
		s.becomes(second, isTaken)
		Expect(s.template("golden").GetUID()).To(Equal(uid))
		s.kubectl("", "annotate", "vm", "second", "virtwright.dev/generate-template-")
		annotate("second", "golden")
		Eventually(func() string { out, _ := s.kubectl("", "events", "--for", "virtualmachine/second"); return out }).Should(
			ContainSubstring("request " + second + " has ended with TargetExists: to request the template again, delete the request"))
	})

	It("know their own again when the manager ends midway, and nothing else", func() {
		ownManager()
		s.create(seedVM)
		s.create(ordered("golden", "vm-ephemeral"))
		request := s.becomes("golden", isMade)
		uid := s.template("golden").GetUID()
		forget := func(hash string) {
			GinkgoHelper()
			here.manager.stop(syscall.SIGKILL)
			conditions := `[{"type":"Ready","status":"False","reason":"Reconciling","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"},` +
				`{"type":"Progressing","status":"True","reason":"Reconciling","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]`
			_, err := s.of(templateOrder).Patch(here.ctx, "golden", types.MergePatchType,
				[]byte(`{"status":{"templateRef":null,"completionTime":null,"templateHash":"`+hash+`","conditions":`+conditions+`}}`), metav1.PatchOptions{}, "status")
			Expect(err).NotTo(HaveOccurred())
			here.manager.start()
			here.manager.awaitAnswering()
		}
		forget(at(request, "status.templateHash").(string))
		again := s.becomes("golden", isMade)
		Expect(at(again, "status.templateRef")).To(Equal(at(request, "status.templateRef")))
		forget("another")
		s.becomes("golden", isTaken)
		Expect(s.template("golden").GetUID()).To(Equal(uid))
	})

	It("are the same each time", func() {
		s.create(strings.Replace(seedVM, "{name: vm-ephemeral}", "{name: vm-ephemeral, labels: {app: a, b: c}}", 1))
		s.create(ordered("one", "vm-ephemeral"))
		s.create(ordered("two", "vm-ephemeral"))
		s.becomes("one", isMade)
		s.becomes("two", isMade)
		one, two := s.template("one"), s.template("two")
		for _, part := range []string{"objects", "parameters", "labels", "message"} {
			Expect(one.Object[part]).To(Equal(two.Object[part]), part)
		}
	})

	It("make VMs that start beside their source, and ask for no more templates", func() {
		s.kubectl(dataVolumeCRD, "apply", "-f", "-")
		DeferCleanup(func() { s.kubectl("", "delete", "crd", "datavolumes.cdi.kubevirt.io") })
		source := strings.Replace(strings.Replace(withDisk("web"), "Halted", "Always", 1), "metadata: {name: web}",
			"metadata: {name: web, labels: {app: shop}, annotations: {virtwright.dev/generate-template: kept}}", 1)
		s.create(source)
		s.create(ordered("renamed", "web", ", dataVolumes: Rename"))
		s.becomes("renamed", isMade)
		Eventually(templates).Should(ConsistOf("kept", "renamed"))

		By("rejecting a disk that is the source's")
		_, _, err := s.tryKubectl(s.process(s.template("kept")), "create", "-f", "-")
		Expect(err).To(MatchError(And(ContainSubstring("root"), ContainSubstring("web"), ContainSubstring("dataVolumeTemplates"))))
		Expect(at(s.get(templateOrder, requests()[slices.IndexFunc(requests(), func(n string) bool { return strings.HasPrefix(n, "web-") })]), "status.warnings")).To(
			ContainElement(ContainSubstring("root")))

		By("starting with one of its own")
		manifest := s.process(s.template("renamed"), "-p", `LABELS={"team":"x"}`)
		out, _ := s.kubectl(manifest, "create", "-f", "-", "-o", "name")
		_, name, _ := strings.Cut(strings.TrimSpace(out), "/")
		Expect(name).To(MatchRegexp(`^web.{5}$`))
		vm := s.get(virtualMachine, name)
		Expect(vm.GetLabels()).To(Equal(map[string]string{"app": "shop", "team": "x"}))
		Expect(maps.Keys(vm.GetAnnotations())).NotTo(ContainElement(ContainSubstring("template")))
		volumes := here.client.Resource(dataVolumes).Namespace(s.ns)
		list := func() []string {
			found, err := volumes.List(here.ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			var names []string
			for i := range found.Items {
				names = append(names, found.Items[i].GetName())
			}
			return names
		}
		Eventually(list).Should(ConsistOf(Equal("root"), MatchRegexp(`^root-[a-z0-9]{5}$`)))
		for _, volume := range list() {
			_, err := volumes.Patch(here.ctx, volume, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			Expect(err).NotTo(HaveOccurred())
		}
		for _, machine := range []string{"web", name} { // a watch on a kind that was gone and came again may take its time
			Eventually(func() any { return at(s.get(virtualMachine, machine), "status.printableStatus") }).Should(
				Or(Equal("Starting"), Equal("ErrorPvcNotFound")), "filled, though nothing here makes claims of DataVolumes")
		}
		Expect(at(s.get(instance, name), "metadata.name")).To(Equal(name))
		Expect(requests()).To(HaveLen(2))
		Expect(templates()).To(ConsistOf("kept", "renamed"))
	})

	It("are created alongside KubeVirt, too", func() {
		ownManager()
		here.manager.restartWith("--mode=addon")
		s.create(strings.Replace(seedVM, "metadata: {name: vm-ephemeral}", "metadata: {name: vm-ephemeral, annotations: {virtwright.dev/generate-template: golden}}", 1))
		Eventually(templates).Should(ConsistOf("golden"))
		for _, form := range []string{"openshiftTemplate", "virtualMachineTemplate", "configMap"} {
			name := strings.ToLower(form)
			s.create(order(name, "{source: {vmName: vm-ephemeral}, target: {"+form+": {}}, ttlSecondsAfterFinished: 0}"))
		}
		Eventually(requests).Should(HaveLen(1))
		Expect(templates()).To(ConsistOf("golden", "openshifttemplate"))
		s.get("VirtualMachineTemplate", "virtualmachinetemplate")
		s.get("ConfigMap", "configmap")
	})
})
