package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Users whom the suite's own managers run as. Each has the rights that the chart gives the manager
// in a mode, and may register itself.
const (
	ourselves = "system:serviceaccount:" + home + ":virtwright-manager"
	// besideKubeVirt is for managers with --mode=addon.
	besideKubeVirt = "system:serviceaccount:" + home + ":addon-virtwright"
)

// registering are the permissions beyond the chart's with which a manager registers its webhooks
// (--register-webhooks), as those of this suite do. In an installation the chart registers them.
const registering = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-registering}
rules:
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [admission.virtwright.dev]
  verbs: [create]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  resourceNames: [virtualmachines.protection.virtwright.dev, virtualmachineinstances.protection.virtwright.dev, templates.protection.virtwright.dev, status.protection.virtwright.dev, pods.protection.virtwright.dev, exec.protection.virtwright.dev]
  verbs: [create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-registering}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-registering}
subjects:
- {kind: ServiceAccount, namespace: ` + home + `, name: virtwright-manager}
- {kind: ServiceAccount, namespace: ` + home + `, name: addon-virtwright}
`

// employ gives the users of managers their rights, which are read from the chart.
func (w *world) employ() {
	GinkgoHelper()
	w.rights = map[string]string{
		ourselves:      w.chart("virtwright", "rbac", "--values", root+"/test/kind/e2e-values.yaml"),
		besideKubeVirt: w.chart("addon", "rbac", "--set=mode=addon"),
	}
	_, _, err := w.kubectl("", "create", "namespace", home)
	Expect(err).NotTo(HaveOccurred())
	for _, manifest := range []string{w.rights[ourselves], w.rights[besideKubeVirt], registering} {
		_, _, err := w.kubectl(manifest, "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	}
	w.awaitRights()
}

// awaitRights waits until API servers know of the users' rights, which they learn one by one: those
// of the last manifest last.
func (w *world) awaitRights() {
	GinkgoHelper()
	clients, err := kubernetes.NewForConfig(w.config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (bool, error) {
		review, err := clients.AuthorizationV1().SubjectAccessReviews().Create(w.ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: besideKubeVirt, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Name: "admission.virtwright.dev",
			},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}).Should(BeTrue())
}

// restartAPIServer restarts it. For a moment it then knows of no rights, and denies everybody
// everything but administrators.
func restartAPIServer() {
	GinkgoHelper()
	interruptAPIServer(0)
}

// interruptAPIServer is restartAPIServer with a time in which there is none.
func interruptAPIServer(away time.Duration) {
	GinkgoHelper()
	began := time.Now()
	Expect(here.plane.InterruptAPIServer(here.ctx, away)).To(Succeed())
	here.awaitRights()
	heard.mark()
	here.unauthorized = append(here.unauthorized, span{began, time.Now()})
}

// A span is a time.
type span struct{ from, to time.Time }

func (s span) includes(t time.Time) bool { return !t.Before(s.from) && !t.After(s.to) }

// chart is what a template of the chart makes for a release, with certificates that managers make
// themselves, as this suite's do.
func (w *world) chart(release, template string, values ...string) string {
	GinkgoHelper()
	var problems strings.Builder
	cmd := exec.CommandContext(w.ctx, filepath.Join(w.programs, "helm"), append([]string{
		"template", release, root + "/charts/virtwright", "--namespace", home, "--kube-version=1.37.0",
		"--show-only=templates/" + template + ".yaml", "--set=certs.mode=self-signed",
	}, values...)...)
	cmd.Stderr = &problems
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), problems.String())
	return string(out)
}

// buildHelm builds the helm that the chart is tested with.
func buildHelm(into string) {
	GinkgoHelper()
	output, err := exec.Command("go", "build", "-C", root+"/test/chart/tool", "-ldflags=-s -w", "-o", filepath.Join(into, "helm"), "helm.sh/helm/v3/cmd/helm").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}

// as is a kubeconfig of a manager's user, in the groups that API servers put service accounts into.
func (w *world) as(user string) (kubeconfig string) {
	GinkgoHelper()
	kubeconfig, err := w.plane.UserKubeconfig(user, "system:serviceaccounts", "system:serviceaccounts:"+home)
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// addon are more flags of a manager with --mode=addon: who it is, and where it may keep its
// certificate.
func addon() []string {
	GinkgoHelper()
	return []string{"--kubeconfig=" + here.as(besideKubeVirt), "--cert-secret=" + home + "/addon-virtwright-serving"}
}

var _ = Describe("A cluster that restricts blockOwnerDeletion", func() {
	It("has VMIs and pods whose owners wait for their deletion", func() {
		ownManager()
		elsewhere := found(here.ctx, here.programs, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
		s := &story{ns: metav1.NamespaceDefault}
		of := func(kind string) dynamic.ResourceInterface { return s.as(elsewhere.client, kind) }
		_, err := of(virtualMachine).Create(here.ctx, s.parse(always("web")), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var made object
		Eventually(func() (err error) {
			made, err = of(instance).Get(here.ctx, "web", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		Expect(made.GetOwnerReferences()).To(ConsistOf(HaveField("BlockOwnerDeletion", HaveValue(BeTrue()))))
		Eventually(func() (err error) {
			made, err = of("Pod").Get(here.ctx, "virt-launcher-web", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		Expect(made.GetOwnerReferences()).To(ConsistOf(HaveField("BlockOwnerDeletion", HaveValue(BeTrue()))))
	})
})

// heard is what all managers of this suite have said since the last story ended.
var heard lockedBuffer

// denied is what clients say of rights that they lack. Much else is forbidden.
var denied = regexp.MustCompile(`(?m)^.*forbidden: User .*$`)

var _ = AfterEach(func() {
	said := heard.sinceMark()
	heard.mark()
	Expect(denied.FindAllString(said, -1)).To(BeEmpty(), "a manager lacks rights")
})

// auditPolicy writes the control plane's audit policy into a folder. It logs all requests of
// managers.
func auditPolicy(into string) (path string) {
	GinkgoHelper()
	const rules = "\nrules:\n"
	policy, err := os.ReadFile("../controlplane/audit-policy.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(string(policy)).To(ContainSubstring(rules))
	whole := strings.Replace(string(policy), rules, rules+`- level: Metadata
  users: ["`+ourselves+`", "`+besideKubeVirt+`"]
  resources: [{group: events.k8s.io}, {group: coordination.k8s.io}]
`, 1)
	path = filepath.Join(into, "audit-policy.yaml")
	Expect(os.WriteFile(path, []byte(whole), 0o600)).To(Succeed())
	return path
}
