package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var _ = Describe("A request for a template", Ordered, func() {
	templateAPIs()
	var s *story
	BeforeEach(func() { s = newStory() })

	It("waits for its VM", func() {
		s.create(ordered("golden", "vm-ephemeral"))
		s.becomes("golden", waitsVM)
		s.create(seedVM)
		s.becomes("golden", isMade)
	})

	It("is for the VM that it means, and no other of the name", func() {
		s.create(seedVM)
		s.create(order("golden", "{source: {vmName: vm-ephemeral, vmUID: 5a0e3b4c-0000-4000-8000-00000000dead}, target: {openshiftTemplate: {}}}"))
		s.becomes("golden", "False SourceChanged False")
	})

	It("makes nothing of a VM that goes", func() {
		s.create(strings.Replace(seedVM, "{name: vm-ephemeral}", "{name: vm-ephemeral, finalizers: [example.com/wait]}", 1))
		s.kubectl("", "delete", "vm", "vm-ephemeral", "--wait=false")
		s.create(ordered("golden", "vm-ephemeral"))
		s.becomes("golden", "False SourceInvalid False")
		s.kubectl("", "patch", "vm", "vm-ephemeral", "--type=json", `-p=[{"op":"remove","path":"/metadata/finalizers"}]`)
	})

	It("overwrites nothing", func() {
		s.create(seedVM)
		mine := s.create("{apiVersion: template.openshift.io/v1, kind: Template, metadata: {name: golden}, objects: []}")
		s.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: golden}, data: {a: b}}")
		s.create(ordered("golden", "vm-ephemeral"))
		s.create(order("plain", "{source: {vmName: vm-ephemeral}, target: {configMap: {name: golden}}}"))
		s.becomes("golden", isTaken)
		s.becomes("plain", isTaken)
		Expect(s.template("golden").GetResourceVersion()).To(Equal(mine.GetResourceVersion()))
		Expect(at(s.get("ConfigMap", "golden"), "data")).To(Equal(map[string]any{"a": "b"}))
	})

	It("does not adopt an object whose label a user forged", func() {
		request := s.create(ordered("golden", "vm-ephemeral"))
		s.becomes("golden", waitsVM)
		forged := s.create("{apiVersion: template.openshift.io/v1, kind: Template, metadata: {name: golden, labels: {virtwright.dev/template-request: " +
			string(request.GetUID()) + "}}, objects: [{apiVersion: v1, kind: Secret, metadata: {name: planted}}]}")
		s.create(seedVM)
		Expect(s.becomes("golden", isTaken)).NotTo(haveAt("status.templateRef.uid", string(forged.GetUID())))
		Expect(s.saying("golden")).To(ContainSubstring("has the label of this request, but "))
	})

	It("makes nothing that could not be stored", func() {
		s.create(strings.Replace(seedVM, "domain:\n", "domain:\n        firmware: {kernelBoot: {kernelArgs: "+strings.Repeat("x", 1<<20)+", container: {image: i, kernelPath: /k}}}\n", 1))
		s.create(ordered("golden", "vm-ephemeral"))
		s.becomes("golden", isTooLarge)
	})

	It("ends where the API server rejects the template", func() {
		s.kubectl(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [template.openshift.io], apiVersions: [v1], operations: [CREATE], resources: [templates]}]}
  validations: [{expression: "object.metadata.namespace != '%[1]s' || object.metadata.name != 'golden'", message: not golden}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, s.ns), "apply", "-f", "-")
		DeferCleanup(func() {
			s.kubectl("", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", s.ns)
		})
		Eventually(func() error {
			_, _, err := s.tryKubectl("{apiVersion: template.openshift.io/v1, kind: Template, metadata: {name: golden}, objects: []}", "create", "--dry-run=server", "-f", "-")
			return err
		}).Should(MatchError(ContainSubstring("not golden")))
		s.create(seedVM)
		s.create(ordered("golden", "vm-ephemeral"))
		s.becomes("golden", "False Rejected False")
		Expect(s.saying("golden")).To(ContainSubstring("not golden"))
	})

	It("waits for room, without haste", func() {
		s.create(seedVM)
		s.kubectl("", "create", "quota", "none", "--hard=count/configmaps=0")
		Eventually(func() error {
			_, _, err := s.tryKubectl("", "create", "configmap", "probe", "--dry-run=server")
			return err
		}).Should(MatchError(ContainSubstring("exceeded quota")))
		s.create(order("golden", "{source: {vmName: vm-ephemeral}, target: {configMap: {}}}"))
		before := s.becomes("golden", "False Waiting True")
		Expect(s.saying("golden")).To(ContainSubstring("exceeded quota"))
		Consistently(func() string { return s.get(templateOrder, "golden").GetResourceVersion() }, "3s").Should(Equal(before.GetResourceVersion()))
		s.kubectl("", "delete", "quota", "none")
		s.becomes("golden", isMade)
	})

	It("waits for an API that does not answer", func() {
		withdraw(kubeVirtCRD)
		s.kubectl("{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1alpha1.template.kubevirt.io}, spec: {group: template.kubevirt.io, version: v1alpha1, "+
			"groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, service: {namespace: default, name: none}}}", "apply", "-f", "-")
		gone := func() { s.kubectl("", "delete", "apiservice", "v1alpha1.template.kubevirt.io", "--ignore-not-found") }
		DeferCleanup(gone)
		s.create(seedVM)
		s.create(order("golden", "{source: {vmName: vm-ephemeral}, target: {virtualMachineTemplate: {}}}"))
		s.becomes("golden", "False Waiting True")
		gone()
		s.becomes("golden", waitsAPI)
		serve(kubeVirtTemplates, kubeVirtCRD)
		s.becomes("golden", isMade)
	})

	It("goes when its time is up, and leaves its template; and when it is deleted", func() {
		s.create(seedVM)
		s.create(ordered("golden", "vm-ephemeral", ", ttlSecondsAfterFinished: 2"))
		s.becomes("golden", isMade)
		Eventually(func() bool {
			_, err := s.of(templateOrder).Get(here.ctx, "golden", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue())
		s.template("golden")
		s.create(ordered("stays", "none", ", ttlSecondsAfterFinished: 0"))
		s.becomes("stays", waitsVM)
		s.create(ordered("silver", "vm-ephemeral"))
		s.becomes("silver", isMade)
		s.kubectl("", "delete", "vmtreq", "silver", "stays")
		s.template("silver")
	})

	It("finds its template again when its status is cleared", func() {
		s.create(seedVM)
		s.create(ordered("golden", "vm-ephemeral"))
		s.becomes("golden", isMade)
		made := s.template("golden")
		s.kubectl("", "patch", "vmtreq", "golden", "--subresource=status", "--type=json", `-p=[{"op":"remove","path":"/status"}]`)
		request := s.becomes("golden", isMade)
		Expect(request).To(And(haveAt("status.templateRef.uid", string(made.GetUID())), haveAt("status.sourceUID", at(s.get(virtualMachine, "vm-ephemeral"), "metadata.uid"))))
		Expect(s.template("golden").GetResourceVersion()).To(Equal(made.GetResourceVersion()))
	})

	It("cannot be changed, and is applied again as it was written", func() {
		s.create(seedVM)
		const short = "{vmName: vm-ephemeral, templateName: golden, format: template.openshift.io/v1}"
		s.kubectl(order("golden", short), "apply", "-f", "-")
		s.becomes("golden", isMade)
		out, _ := s.kubectl(order("golden", short), "apply", "-f", "-")
		Expect(out).NotTo(ContainSubstring("created"))
		_, _, err := s.tryKubectl(order("golden", strings.Replace(short, "golden", "other", 1)), "apply", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("templateName")))
		_, err = s.of(templateOrder).Patch(here.ctx, "golden", types.MergePatchType, []byte(`{"spec":{"dataVolumes":"Rename"}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("a request is immutable: create another one")))
		_, err = s.of(templateOrder).Patch(here.ctx, "golden", types.MergePatchType, []byte(`{"spec":{"requester":{"username":"other"}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("a request is immutable: create another one")))
	})

	It("is rejected in words that help", func() {
		for spec, want := range map[string]string{
			"{vmName: a, source: {vmName: b}}":                                                                  "spec.vmName: Invalid value: \"a\"",
			"{vmName: a, format: ova}":                                                                          `spec.format: Unsupported value: "ova": supported values: "template.openshift.io/v1", "template.kubevirt.io/v1alpha1"`,
			"{source: {vmName: A_B}, target: {configMap: {}}}":                                                  "spec.source.vmName",
			"{source: {vmName: a}, target: {configMap: {name: A_B}}}":                                           "spec.target.configMap.name",
			"{source: {vmName: a}, target: {}}":                                                                 "exactly one of openshiftTemplate, virtualMachineTemplate, configMap",
			"{source: {vmName: a}, target: {configMap: {}, openshiftTemplate: {}}}":                             "exactly one of openshiftTemplate, virtualMachineTemplate, configMap",
			"{source: {vmName: a}, target: {configMap: {}}, dataVolumes: Copy}":                                 "spec.dataVolumes",
			"{source: {vmName: a}, target: {configMap: {}}, ttlSecondsAfterFinished: -1}":                       "spec.ttlSecondsAfterFinished",
			"{source: {vmName: a}, target: {configMap: {}}, templateLabels: {template.kubevirt.io/type: base}}": "spec.templateLabels[template.kubevirt.io/type]",
			"{target: {configMap: {}}}":                                                                         "spec.source",
		} {
			_, err := s.tryCreate(order("golden", spec))
			Expect(err).To(MatchError(ContainSubstring(want)), spec)
		}
		for value, want := range map[string]string{"A_B": "must be the name of the template", `""`: "leave the annotation out"} {
			_, err := s.tryCreate(strings.Replace(seedVM, "{name: vm-ephemeral}", "{name: vm-ephemeral, annotations: {virtwright.dev/generate-template: "+value+"}}", 1))
			Expect(err).To(MatchError(And(ContainSubstring("metadata.annotations[virtwright.dev/generate-template]"), ContainSubstring(want))))
		}
	})
})

var _ = Describe("A request for a template that names no format", Ordered, func() {
	templateAPIs()

	It("gets a format that the cluster serves, and is rejected where there is none", func() {
		s := newStory()
		withdraw(openShiftCRD)
		withdraw(kubeVirtCRD)
		DeferCleanup(func() {
			serve(openShiftTemplates, openShiftCRD)
			serve(kubeVirtTemplates, kubeVirtCRD)
		})
		s.create(seedVM)
		const none = "this cluster does not serve Template of template.openshift.io/v1 or VirtualMachineTemplate of template.kubevirt.io/v1alpha1; "
		const shown = "format: configMap, which shows the VM to every reader of ConfigMaps"
		Eventually(func() error {
			_, err := s.tryCreate(order("golden", "{vmName: vm-ephemeral}"))
			return err
		}).Should(MatchError(ContainSubstring("spec.format: Required value: " + none + "set " + shown)))
		_, _, err := s.tryKubectl("", "annotate", "vm", "vm-ephemeral", "virtwright.dev/generate-template=golden")
		Expect(err).To(MatchError(ContainSubstring(none + "create a VirtualMachineTemplateRequest with " + shown)))
		s.create(order("plain", "{vmName: vm-ephemeral, format: configMap}"))
		s.becomes("plain", isMade)
		s.create(ordered("patient", "vm-ephemeral"))
		s.becomes("patient", waitsAPI)

		By("serving one")
		serve(kubeVirtTemplates, kubeVirtCRD)
		chosen := func(name string) any { return at(s.becomes(name, isMade), "status.templateRef.kind") }
		s.create(order("second", "{vmName: vm-ephemeral}"))
		Expect(chosen("second")).To(Equal("VirtualMachineTemplate"))
		s.kubectl("", "annotate", "vm", "vm-ephemeral", "virtwright.dev/generate-template=annotated")
		Eventually(func() error {
			_, err := s.of("VirtualMachineTemplate").Get(here.ctx, "annotated", metav1.GetOptions{})
			return err
		}).Should(Succeed())

		By("serving both, and the other one alone")
		serve(openShiftTemplates, openShiftCRD)
		s.create(order("both", "{vmName: vm-ephemeral}"))
		Expect(chosen("both")).To(Equal("Template"))
		withdraw(kubeVirtCRD)
		s.create(order("first", "{vmName: vm-ephemeral}"))
		Expect(chosen("first")).To(Equal("Template"))
		s.becomes("patient", isMade)

		By("serving another version, and then both")
		later := strings.Replace(kubeVirtTemplates, "name: v1alpha1", "name: v1beta1", 1)
		serve(later, kubeVirtCRD)
		version := func(name string) any { return at(s.becomes(name, isMade), "status.templateRef.apiVersion") }
		s.create(order("later", "{vmName: vm-ephemeral, format: template.kubevirt.io/v1alpha1}"))
		Expect(version("later")).To(Equal("template.kubevirt.io/v1beta1"))
		withdraw(kubeVirtCRD)
		serve(kubeVirtTemplates, kubeVirtCRD)
		s.create(order("earlier", "{vmName: vm-ephemeral, format: template.kubevirt.io/v1alpha1}"))
		Expect(version("earlier")).To(Equal("template.kubevirt.io/v1alpha1"))
	})
})

var _ = Describe("Secrets of a VM", Ordered, func() {
	templateAPIs()

	It("are nowhere but in the VM", func() {
		ownManager()
		here.manager.restartWith("--mode=addon") // which lets ignition data through
		s := newStory()
		secrets := map[string]string{}
		secret := func(name string) string {
			secrets[name] = "hunter2-" + name + "-Zk9"
			return secrets[name]
		}
		encoded := base64.StdEncoding.EncodeToString([]byte("#cloud-config\npassword: " + secret("encoded")))
		manifest := fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vault, annotations: {note: "copy of %[1]s", example.com/db-Password: %[8]s}}
spec:
  runStrategy: Halted
  dataVolumeTemplates:
  - metadata: {name: root}
    spec: {source: {http: {url: "https://u:%[4]s@example.com/a.img", extraHeaders: ["Authorization: %[5]s"]}}, storage: {resources: {requests: {storage: 1Gi}}}}
  template:
    metadata: {annotations: {kubevirt.io/ignitiondata: '{"x":"%[6]s"}', example.com/token: %[9]s}}
    spec:
      domain:
        devices: {disks: [{name: root, disk: {}}, {name: seed, disk: {}}, {name: more, disk: {}}]}
        memory: {guest: 64Mi}
      readinessProbe: {httpGet: {port: 80, path: "/ready?sig=%[10]s", httpHeaders: [{name: X-Token, value: %[3]s}]}}
      volumes:
      - {name: root, dataVolume: {name: root}}
      - {name: seed, cloudInitNoCloud: {userData: %[1]s, networkData: %[2]s}}
      - {name: more, cloudInitConfigDrive: {userDataBase64: %[7]s}}
`, secret("user"), secret("network"), secret("header"), secret("url"), secret("extra"), secret("ignition"), encoded,
			secret("annotation"), secret("inner"), secret("query"))
		s.kubectl(manifest, "apply", "-f", "-") // which leaves a copy in an annotation
		for form, kind := range map[string]string{"openshiftTemplate": "Template", "virtualMachineTemplate": "VirtualMachineTemplate", "configMap": "ConfigMap"} {
			name := strings.ToLower(form)
			s.create(order(name, "{source: {vmName: vault}, target: {"+form+": {}}}"))
			request := s.becomes(name, isMade)
			Expect(at(request, "status.withheldParameters")).To(ContainElements("VOLUME1_USER_DATA", "VOLUME1_NETWORK_DATA", "VOLUME2_USER_DATA_BASE64"))
			events, _ := s.kubectl("", "get", "events", "-o", "json")
			template := s.get(kind, name)
			for where, what := range map[string]any{"the template": template.Object, "the request": request.Object, "events": events, "the log": here.manager.log.sinceMark()} {
				text, err := json.Marshal(what)
				Expect(err).NotTo(HaveOccurred())
				for which, value := range secrets {
					Expect(string(text)).NotTo(ContainSubstring(value), which+" in "+where)
					for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
						Expect(string(text)).NotTo(ContainSubstring(strings.TrimRight(e.EncodeToString([]byte(value)), "=")), which+" in "+where)
					}
				}
				Expect(string(text)).NotTo(ContainSubstring(encoded), where)
			}
		}
	})
})
