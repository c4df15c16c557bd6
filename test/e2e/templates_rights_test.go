package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// permit gives a user rights in the story's namespace, "verb resource.group", and for one object
// "verb resource.group/name".
func (s *story) permit(user string, rights ...string) {
	GinkgoHelper()
	for i, right := range rights {
		verb, resource, _ := strings.Cut(right, " ")
		resource, name, named := strings.Cut(resource, "=")
		role := fmt.Sprintf("%s-%d", user, i)
		args := []string{"create", "role", role, "--verb=" + verb, "--resource=" + resource}
		if named {
			args = append(args, "--resource-name="+name)
		}
		out, _ := s.kubectl("", append(args, "--dry-run=client", "-o", "yaml")...)
		s.kubectl(out, "apply", "-f", "-")
		out, _ = s.kubectl("", "create", "rolebinding", role, "--role="+role, "--user="+user, "--dry-run=client", "-o", "yaml")
		s.kubectl(out, "apply", "-f", "-")
		if named {
			resource += "/" + name // as can-i writes it, unless there is a subresource
		}
		if !strings.Contains(right, "/") {
			Eventually(func() error { return s.can(user, verb, resource) }).Should(Succeed(), right)
		}
	}
}

// Permissions that a user needs for a template of a VM.
const (
	askFor    = "create virtualmachinetemplaterequests.ssp.kubevirt.io"
	readVM    = "get virtualmachines.kubevirt.io"
	makeIt    = "create templates.template.openshift.io"
	patchVM   = "patch virtualmachines.kubevirt.io"
	makeOther = "create virtualmachinetemplates.template.kubevirt.io"
)

// tryAnnotate asks for a template by annotation.
func (s *story) tryAnnotate(client dynamic.Interface, vm, value string) error {
	_, err := s.as(client, virtualMachine).Patch(here.ctx, vm, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"virtwright.dev/generate-template":"`+value+`"}}}`), metav1.PatchOptions{})
	return err
}

var _ = Describe("Who may have a template made", Ordered, func() {
	templateAPIs()
	var s *story
	BeforeEach(func() { s = newStory(); s.create(seedVM) })

	// noTemplate says that there is none of a name, and will be none.
	noTemplate := func(name string) {
		GinkgoHelper()
		Consistently(func() error {
			_, err := s.of("Template").Get(here.ctx, name, metav1.GetOptions{})
			return err
		}, "500ms").Should(MatchError(ContainSubstring("not found")))
	}

	It("is who may read the VM and create the template, whether the VM is there or not", func() {
		s.permit("jane", askFor, makeIt)
		_, there := s.tryAs(as("jane"), ordered("golden", "vm-ephemeral"))
		_, none := s.tryAs(as("jane"), ordered("golden", "vm-ephemerax"))
		Expect(there).To(MatchError(ContainSubstring("user jane may not get virtualmachines.kubevirt.io vm-ephemeral in namespace " + s.ns)))
		Expect(strings.ReplaceAll(none.Error(), "vm-ephemerax", "vm-ephemeral")).To(Equal(there.Error()))

		s.permit("joe", askFor, readVM)
		_, err := s.tryAs(as("joe"), ordered("golden", "vm-ephemeral"))
		Expect(err).To(MatchError(And(ContainSubstring("spec.target.openshiftTemplate: Forbidden"), ContainSubstring("user joe may not create templates.template.openshift.io"))))
		_, err = s.tryAs(as("joe"), order("golden", "{source: {vmName: vm-ephemeral}, target: {configMap: {}}}"))
		Expect(err).To(MatchError(ContainSubstring("user joe may not create configmaps")))

		s.permit("jim", askFor, readVM+"=vm-ephemeral", makeIt)
		made, err := s.tryAs(as("jim"), ordered("golden", "vm-ephemeral"))
		Expect(err).NotTo(HaveOccurred())
		Expect(at(made, "spec.requester")).To(Equal(map[string]any{"username": "jim", "groups": []any{"system:authenticated"}}))
		s.becomes("golden", isMade)
	})

	It("takes a right of its own across namespaces", func() {
		other := newStory()
		s.permit("jane", readVM)
		other.permit("jane", askFor, makeIt)
		across := order("golden", fmt.Sprintf("{source: {vmName: vm-ephemeral, vmNamespace: %s}, target: {openshiftTemplate: {}}}", s.ns))
		missing := strings.Replace(across, "vm-ephemeral", "vm-ephemerax", 1)
		_, there := other.tryAs(as("jane"), across)
		Expect(there).To(MatchError(And(ContainSubstring("spec.source.vmNamespace: Forbidden"), ContainSubstring("virtualmachinetemplaterequests/source"))))
		_, none := other.tryAs(as("jane"), missing)
		Expect(strings.ReplaceAll(none.Error(), "vm-ephemerax", "vm-ephemeral")).To(Equal(there.Error()))
		s.permit("jane", readVM, "create virtualmachinetemplaterequests.ssp.kubevirt.io/source=vm-ephemeral")
		Eventually(func() error { _, err := other.tryAs(as("jane"), across); return err }).Should(Succeed())
		other.becomes("golden", isMade)
		other.template("golden")
		_, err := other.tryAs(as("jane"), missing)
		Expect(err).To(MatchError(ContainSubstring("virtualmachinetemplaterequests/source")))
	})

	It("is the user of the request, not another that it names", func() {
		s.permit("jane", askFor)
		forged := ordered("golden", "vm-ephemeral", ", requester: {username: boss, groups: [system:masters]}")
		_, err := s.tryAs(as("jane"), forged)
		Expect(err).To(MatchError(ContainSubstring("user jane may not get virtualmachines")))
		_, err = s.tryAs(as(trusted, "system:masters"), strings.Replace(forged, "boss", "jane", 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(at(s.get(templateOrder, "golden"), "spec.requester.username")).To(Equal(trusted))
		var heard warnings
		config := rest.CopyConfig(here.config)
		config.WarningHandlerWithContext = &heard
		client, err := dynamic.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		made, err := s.tryAs(client, strings.Replace(forged, "metadata: {name: golden}", "metadata: {name: silver}", 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(at(made, "spec.requester.username")).NotTo(Equal("boss"))
		Expect(heard.texts).To(say("spec.requester", "replaced"))
	})

	It("is asked again before anything is read or written", func() {
		s.permit("jane", askFor, readVM, makeOther)
		withdraw(kubeVirtCRD)
		DeferCleanup(serve, kubeVirtTemplates, kubeVirtCRD)
		_, err := s.tryAs(as("jane"), order("golden", "{source: {vmName: vm-ephemeral}, target: {virtualMachineTemplate: {}}}"))
		Expect(err).NotTo(HaveOccurred())
		s.becomes("golden", waitsAPI)
		s.kubectl("", "delete", "rolebinding", "--all")
		Eventually(func() error { return s.can("jane", "get", "virtualmachines.kubevirt.io") }).ShouldNot(Succeed())
		serve(kubeVirtTemplates, kubeVirtCRD)
		request := s.becomes("golden", isRejected)
		Expect(s.saying("golden")).To(ContainSubstring("user jane may not get virtualmachines.kubevirt.io vm-ephemeral"))
		Expect(request).To(lackAt("status.sourceUID"))
		s.permit("jane", askFor, readVM, makeOther)
		s.becomes("golden", isMade)
	})

	It("is who writes the annotation", func() {
		s.permit("jane", patchVM, readVM)
		err := s.tryAnnotate(as("jane"), "vm-ephemeral", "golden")
		Expect(err).To(MatchError(And(
			ContainSubstring("metadata.annotations[virtwright.dev/generate-template]: Forbidden"),
			ContainSubstring("user jane may not create templates.template.openshift.io"),
			ContainSubstring("user jane may not create virtualmachinetemplaterequests.ssp.kubevirt.io"))))
		Expect(s.get(virtualMachine, "vm-ephemeral").GetAnnotations()).NotTo(HaveKey("virtwright.dev/generate-template"))
		noTemplate("golden")

		By("with the permissions of the user who wrote it, not of a later one")
		s.permit("joe", patchVM, readVM, makeIt, askFor)
		Expect(s.tryAnnotate(as("joe"), "vm-ephemeral", "golden")).To(Succeed())
		stamp := s.get(virtualMachine, "vm-ephemeral").GetAnnotations()["virtwright.dev/template-requester"]
		Expect(stamp).To(ContainSubstring(`"username":"joe"`))
		Eventually(func() error { _, err := s.of("Template").Get(here.ctx, "golden", metav1.GetOptions{}); return err }).Should(Succeed())
		requests, err := s.of(templateOrder).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(requests.Items).To(HaveLen(1))
		Expect(at(&requests.Items[0], "spec.requester.username")).To(Equal("joe"))
		s.patch("vm-ephemeral", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)
		Expect(s.get(virtualMachine, "vm-ephemeral").GetAnnotations()).NotTo(HaveKey("virtwright.dev/template-requester"))
		By("and never again, as another user has changed the VM")
		Expect(s.of(templateOrder).Delete(here.ctx, requests.Items[0].GetName(), metav1.DeleteOptions{})).To(Succeed())
		Expect(s.of("Template").Delete(here.ctx, "golden", metav1.DeleteOptions{})).To(Succeed())
		s.patch("vm-ephemeral", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":8}}}}`)
		noTemplate("golden")
	})

	It("is not who forges the stamp of the annotation", func() {
		s.permit("joe", patchVM, readVM, makeIt, askFor)
		Expect(s.tryAnnotate(as("joe"), "vm-ephemeral", "golden")).To(Succeed())
		genuine := s.get(virtualMachine, "vm-ephemeral").GetAnnotations()["virtwright.dev/template-requester"]
		forge := func(client dynamic.Interface, annotations string) error {
			_, err := s.as(client, virtualMachine).Patch(here.ctx, "vm-ephemeral", types.MergePatchType, []byte(`{"metadata":{"annotations":`+annotations+`}}`), metav1.PatchOptions{})
			return err
		}
		s.permit("jane", patchVM, readVM)
		forged := `"{\"username\":\"admin\",\"uid\":\"\",\"groups\":[\"system:masters\"],\"extra\":{},\"vmUID\":\"\"}"`
		Expect(forge(as("jane"), `{"virtwright.dev/template-requester":`+forged+`}`)).To(Succeed()) // and the stored value is unchanged
		Expect(s.get(virtualMachine, "vm-ephemeral").GetAnnotations()).To(HaveKeyWithValue("virtwright.dev/template-requester", genuine))
		Expect(forge(as("jane"), `{"virtwright.dev/generate-template":"silver","virtwright.dev/template-requester":`+forged+`}`)).To(MatchError(ContainSubstring("user jane may not create templates")))
		_, err := s.tryCreate(strings.Replace(seedVM, "{name: vm-ephemeral}", "{name: other, annotations: {virtwright.dev/template-requester: '"+strings.ReplaceAll(strings.Trim(forged, `"`), `\"`, `"`)+"'}}", 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(s.get(virtualMachine, "other").GetAnnotations()).NotTo(HaveKey("virtwright.dev/template-requester"))

		By("also where no webhook looks")
		unwatched := &story{ns: metav1.NamespaceSystem}
		_, err = unwatched.tryAs(clientAs("jack"), strings.Replace(seedVM, "{name: vm-ephemeral}",
			"{name: "+s.ns+", annotations: {virtwright.dev/generate-template: golden, virtwright.dev/template-requester: '"+strings.ReplaceAll(strings.Trim(forged, `"`), `\"`, `"`)+"'}}", 1))
		Expect(err).To(MatchError(ContainSubstring("(template-stamp)")))
	})

	It("is neither a user who copies another's record, nor any user where no webhook looks", func() {
		Expect(s.tryAnnotate(as("admin", "system:masters"), "vm-ephemeral", "golden")).To(Succeed())
		Eventually(func() error { _, err := s.of("Template").Get(here.ctx, "golden", metav1.GetOptions{}); return err }).Should(Succeed())
		Expect(s.tryAnnotate(clientAs(trusted), "vm-ephemeral", "silver")).To(Succeed()) // which no webhook sees
		noTemplate("silver")

		unwatched := &story{ns: metav1.NamespaceSystem}
		_, err := unwatched.tryAs(clientAs("jack"), strings.Replace(seedVM, "{name: vm-ephemeral}",
			"{name: "+s.ns+", annotations: {virtwright.dev/generate-template: golden, virtwright.dev/template-requester: '"+
				`{"username":"jack","uid":"","groups":["system:masters","system:authenticated"],"extra":{},"vmUID":"","value":"golden"}`+"'}}", 1))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			Expect(unwatched.of(virtualMachine).Delete(here.ctx, s.ns, metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(func() string {
			out, _, err := here.kubectl("", "events", "-n", metav1.NamespaceSystem, "--for", "virtualmachine/"+s.ns)
			Expect(err).NotTo(HaveOccurred())
			return out
		}).Should(ContainSubstring("has no effect in namespace kube-system"))
	})

	It("does not say of a request that an annotation asked for it", func() {
		const forged = "metadata: {name: golden, annotations: {virtwright.dev/template-trigger: x}}"
		made, err := s.tryAs(as("admin", "system:masters"), strings.Replace(ordered("golden", "vm-ephemeral"), "metadata: {name: golden}", forged, 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(made.GetAnnotations()).NotTo(HaveKey("virtwright.dev/template-trigger"))
		_, err = s.of(templateOrder).Patch(here.ctx, "golden", types.MergePatchType, []byte(`{"metadata":{"annotations":{"virtwright.dev/template-trigger":"x"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("(template-trigger)")))
	})

	It("is not a trusted writer, which copies annotations", func() {
		Expect(s.tryAnnotate(clientAs(trusted), "vm-ephemeral", "golden")).To(Succeed())
		Expect(s.get(virtualMachine, "vm-ephemeral").GetAnnotations()).NotTo(HaveKey("virtwright.dev/template-requester"))
		_, err := s.tryAs(clientAs(trusted), strings.Replace(seedVM, "{name: vm-ephemeral}", "{name: other, annotations: {virtwright.dev/generate-template: golden}}", 1))
		Expect(err).NotTo(HaveOccurred())
		noTemplate("golden")
	})
})
