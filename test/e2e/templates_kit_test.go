package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// openShiftTemplates is the API of OpenShift's templates, which can be installed on any Kubernetes.
// On OpenShift it is aggregated.
const openShiftTemplates = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: templates.template.openshift.io}
spec:
  group: template.openshift.io
  names: {kind: Template, plural: templates, singular: template}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [objects]
        properties:
          message: {type: string}
          objects: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
          labels: {type: object, additionalProperties: {type: string}}
          parameters:
            type: array
            items:
              type: object
              required: [name]
              properties:
                name: {type: string, pattern: "^[a-zA-Z0-9_]+$"}
                displayName: {type: string}
                description: {type: string}
                value: {type: string}
                generate: {type: string}
                from: {type: string}
                required: {type: boolean}
`

// kubeVirtTemplates is the API of KubeVirt's templates.
const kubeVirtTemplates = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: virtualmachinetemplates.template.kubevirt.io}
spec:
  group: template.kubevirt.io
  names: {kind: VirtualMachineTemplate, plural: virtualmachinetemplates, singular: virtualmachinetemplate}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [virtualMachine]
            properties:
              message: {type: string}
              virtualMachine: {type: object, x-kubernetes-preserve-unknown-fields: true}
              parameters:
                type: array
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, pattern: "^[a-zA-Z0-9_]+$"}
                    displayName: {type: string}
                    description: {type: string}
                    value: {type: string}
                    generate: {type: string}
                    from: {type: string}
                    required: {type: boolean}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// serve installs an API of templates, which is served when this returns.
func serve(crd, name string) {
	GinkgoHelper()
	_, _, err := here.kubectl(crd, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	_, _, err = here.kubectl("", "wait", "--for=condition=Established", "crd/"+name, "--timeout=5m")
	Expect(err).NotTo(HaveOccurred())
}

// withdraw takes an API of templates away again.
func withdraw(name string) {
	GinkgoHelper()
	_, _, err := here.kubectl("", "delete", "crd", name, "--ignore-not-found")
	Expect(err).NotTo(HaveOccurred())
}

const (
	openShiftCRD = "templates.template.openshift.io"
	kubeVirtCRD  = "virtualmachinetemplates.template.kubevirt.io"
)

// templateAPIs serves both APIs of templates until the stories of a container end.
func templateAPIs() {
	BeforeAll(func() {
		serve(openShiftTemplates, openShiftCRD)
		serve(kubeVirtTemplates, kubeVirtCRD)
		installRoles()
		templateWriters()
	})
	AfterAll(func() {
		withdraw(openShiftCRD)
		withdraw(kubeVirtCRD)
	})
}

// templateWriters is a role to write templates, which comes with their APIs elsewhere.
func templateWriters() {
	GinkgoHelper()
	_, _, err := here.kubectl(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-template-writer}
rules:
- {apiGroups: [template.openshift.io], resources: [templates], verbs: [get, list, create]}
- {apiGroups: [template.kubevirt.io], resources: [virtualmachinetemplates], verbs: [get, list, create]}
`, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// order is the manifest of a request for a template.
func order(name, spec string) string {
	return "apiVersion: ssp.kubevirt.io/v1alpha1\nkind: VirtualMachineTemplateRequest\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// ordered is the usual request: for a template of a VM of the story.
func ordered(name, vmName string, more ...string) string {
	return order(name, fmt.Sprintf("{source: {vmName: %s}, target: {openshiftTemplate: {name: %s}}%s}", vmName, name, strings.Join(more, "")))
}

// tryAs creates the object of a manifest as a user.
func (s *story) tryAs(client dynamic.Interface, manifest string) (object, error) {
	GinkgoHelper()
	in := s.parse(manifest)
	return s.as(client, in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{})
}

// standing is how a request stands: status and reason of Ready, and whether it goes on.
func (s *story) standing(name string) string {
	GinkgoHelper()
	return standingOf(s.get(templateOrder, name))
}

func standingOf(request object) string {
	words := map[string]string{}
	conditions, _ := at(request, "status.conditions").([]any)
	for _, c := range conditions {
		c := c.(map[string]any)
		words[c["type"].(string)] = fmt.Sprint(c["status"], " ", c["reason"])
	}
	progressing, _, _ := strings.Cut(words["Progressing"], " ")
	return words["Ready"] + " " + progressing
}

// saying is the message of Ready.
func (s *story) saying(name string) string {
	GinkgoHelper()
	conditions, _ := at(s.get(templateOrder, name), "status.conditions").([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Ready" {
			return fmt.Sprint(c["message"])
		}
	}
	return ""
}

// becomes waits until a request stands somehow.
func (s *story) becomes(name, standing string) object {
	GinkgoHelper()
	Eventually(func() string { return s.standing(name) }).Should(Equal(standing), func() string { return s.saying(name) })
	return s.get(templateOrder, name)
}

// How requests stand.
const (
	isMade     = "True Reconciled False"
	waitsAPI   = "False FormatUnavailable True"
	waitsVM    = "False SourceNotFound True"
	isRejected = "False Unauthorized True"
	isTaken    = "False TargetExists False"
	isTooLarge = "False TemplateTooLarge False"
)

// template is one, of the story.
func (s *story) template(name string) object { return s.get("Template", name) }

// parameters are those of a template, "NAME" to "value".
func parameters(template object) map[string]string {
	out := map[string]string{}
	list, _ := template.Object["parameters"].([]any)
	for _, p := range list {
		p := p.(map[string]any)
		value, _ := p["value"].(string)
		out[p["name"].(string)] = value
	}
	return out
}

// process makes a VM of a template with the CLI.
func (s *story) process(template object, args ...string) (manifest string) {
	GinkgoHelper()
	text, err := yaml.Marshal(template.Object)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "template.yaml")
	Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	cmd := exec.CommandContext(here.ctx, here.programs+"/virtwright", append([]string{"template", "process", "-f", file}, args...)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), problems.String())
	return string(out)
}
