package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/virtwright/virtwright/test/standin"
)

// podKeys returns the keys of labels and annotations that act on pods, from the policy of VMIs.
func podKeys() []string {
	GinkgoHelper()
	policies := here.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"})
	policy, err := policies.Get(here.ctx, "virtualmachineinstances.protection.virtwright.dev", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var prefixes []string
	for _, rule := range at(policy, "spec.validations").([]any) {
		validation := rule.(map[string]any)
		if strings.Contains(fmt.Sprint(validation["messageExpression"]), "(pod-annotations)") {
			list := regexp.MustCompile(`(\[[^\[\]]*\])\.exists\(b,`).FindStringSubmatch(fmt.Sprint(validation["expression"]))
			Expect(json.Unmarshal([]byte(list[1]), &prefixes)).To(Succeed())
		}
	}
	var keys []string
	for _, prefix := range prefixes {
		if strings.HasSuffix(prefix, "/") || strings.HasSuffix(prefix, ".") {
			prefix += "x"
		}
		keys = append(keys, prefix)
	}
	Expect(len(keys)).To(BeNumerically(">", 30))
	return keys
}

// A pod gets the metadata that was admitted with its VMI.
var _ = Describe("The labels and annotations of a pod", func() {
	It("are those that were admitted with the VMI, for each writer and at each time", func() {
		s := newStory()
		s.runtime(standin.Delays{})
		s.preset(aPreset("zone", `{match: {labels: {matchLabels: {zoned: "yes"}}}, overrides: {spec: {template: {metadata: {labels: {network-zone: restricted}}}}},
			forbid: [{path: 'spec.template.metadata.annotations["k8s.v1.cni.cncf.io/networks"]'}]}`))
		users := map[string]dynamic.Interface{
			"a user": clientAs("e2e:jane"), "an administrator": here.client, "a service account": clientAs("system:serviceaccount:" + s.ns + ":robot"), "a controller": clientAs(trusted),
		}
		keys := append(podKeys(), "k8s.v1.cni.cncf.io/networks", "note")
		dry := []string{metav1.DryRunAll}

		for name, client := range users { // creation: only presets limit it
			for _, key := range keys {
				vmi := s.parse(vmiOf("new", "terminationGracePeriodSeconds: 1"))
				vmi.SetLabels(map[string]string{key: "x", "zoned": "yes", "network-zone": "open"})
				out, err := s.as(client, instance).Create(here.ctx, vmi, metav1.CreateOptions{DryRun: dry})
				Expect(err).NotTo(HaveOccurred(), "%s creates %s", name, key)
				Expect(out.GetLabels()).To(And(HaveKeyWithValue(key, "x"), HaveKeyWithValue("network-zone", "restricted")))
				vmi.SetAnnotations(map[string]string{key: "x"})
				_, err = s.as(client, instance).Create(here.ctx, vmi, metav1.CreateOptions{DryRun: dry})
				switch key {
				case "k8s.v1.cni.cncf.io/networks":
					Expect(because(err, http.StatusUnprocessableEntity, "(preset zone)")).To(Succeed(), name)
				case "kubevirt.io/ignitiondata":
					Expect(because(err, http.StatusUnprocessableEntity, "(ignition-enabled)")).To(Succeed(), name)
				default:
					Expect(err).NotTo(HaveOccurred(), "%s creates %s", name, key)
				}
			}
		}

		waiting := s.parse(vmiOf("web", "terminationGracePeriodSeconds: 1, volumes: [{name: data, persistentVolumeClaim: {claimName: late}}]"))
		waiting.SetLabels(map[string]string{"zoned": "yes"})
		_, err := s.of(instance).Create(here.ctx, waiting, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() any { return at(s.get(instance, "web"), "status.phase") }).Should(Equal("Pending"))
		patch := func(client dynamic.Interface, field, key string, options metav1.PatchOptions) error {
			merge := fmt.Sprintf(`{"metadata": {%q: {%q: "changed"}}}`, field, key)
			_, err := s.as(client, instance).Patch(here.ctx, "web", types.MergePatchType, []byte(merge), options)
			return err
		}
		matrix := func(rejects func(key string) string) {
			GinkgoHelper()
			for name, client := range users {
				for _, key := range append(keys, "network-zone", "zoned") {
					for _, field := range []string{"labels", "annotations"} {
						err := patch(client, field, key, metav1.PatchOptions{DryRun: dry})
						if rule := rejects(key); rule != "" && name != "a controller" {
							Expect(because(err, http.StatusUnprocessableEntity, fmt.Sprintf("(%s-%s)", rule, field))).To(Succeed(), "%s changes %s of %s", name, field, key)
						} else {
							Expect(err).NotTo(HaveOccurred(), "%s changes %s of %s", name, field, key)
						}
					}
				}
			}
		}
		matrix(func(string) string { return "instance" })
		for _, field := range []string{"labels", "annotations"} {
			Expect(patch(users["a user"], field, "k8s.v1.cni.cncf.io/networks", metav1.PatchOptions{})).NotTo(Succeed())
			Expect(patch(users["a user"], field, "network-zone", metav1.PatchOptions{})).NotTo(Succeed())
		}

		s.kubectl(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: late}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}`, "create", "-f", "-")
		s.vmiIs("web", "Running", "")
		pod, _ := s.kubectl("", "get", "pod", "virt-launcher-web", "-o", "jsonpath={.metadata}")
		Expect(pod).To(And(ContainSubstring(`"network-zone":"restricted"`), Not(ContainSubstring("cncf.io")), Not(ContainSubstring("changed"))))
		acts := map[string]bool{}
		for _, key := range podKeys() {
			acts[key] = true
		}
		acts["k8s.v1.cni.cncf.io/networks"] = true
		matrix(func(key string) string {
			if acts[key] {
				return "pod"
			}
			return ""
		})
	})
})
