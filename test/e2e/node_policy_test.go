package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// nodeAgent is the user of node agents; what tells one from another is the node
// that its token is bound to.
const nodeAgent = "system:serviceaccount:" + home + ":virtwright-node"

// agentOf is the client of the agent of a node, with all rights that roles can
// give: what it may not do, the policy alone refuses.
func agentOf(nodes ...string) dynamic.Interface {
	GinkgoHelper()
	config := rest.CopyConfig(here.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: nodeAgent, Groups: []string{"system:masters"}}
	if len(nodes) > 0 {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": nodes}
	}
	return clientOf(config)
}

var _ = Describe("A node agent", Ordered, func() {
	var s *story
	BeforeAll(func() {
		ownManager()
		here.manager.restartWith("--node-agent=" + nodeAgent)
		// API servers learn of policies one by one.
		s = newStory()
		s.create(tinyInstance("web", ""))
		dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
		Eventually(func() error {
			_, err := s.as(agentOf("node-a"), instance).Patch(here.ctx, "web", types.MergePatchType,
				[]byte(`{"metadata": {"finalizers": ["virtwright.dev/node"]}, "status": {"nodeName": "node-a"}}`), dry)
			return err
		}).Should(Succeed())
		Eventually(func() error {
			_, err := s.as(agentOf("node-b"), instance).Patch(here.ctx, "web", types.MergePatchType, []byte(`{"status": {"nodeName": "node-a"}}`), dry)
			return err
		}).Should(MatchError(ContainSubstring("(node-own)")))
	})
	BeforeEach(func() {
		s = newStory()
		s.create(tinyInstance("web", ", labels: {a: b}, annotations: {c: d}, finalizers: [example.com/hold]"))
		DeferCleanup(func() {
			_, err := s.as(clientAs(trusted), instance).Patch(here.ctx, "web", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			Expect(ignoreNotFound(err)).To(Succeed())
		})
	})
	patch := func(client dynamic.Interface, kind, merge string, subresources ...string) error {
		GinkgoHelper()
		_, err := s.as(client, kind).Patch(here.ctx, "web", types.MergePatchType, []byte(merge), metav1.PatchOptions{}, subresources...)
		return err
	}
	const claim = `{"metadata": {"finalizers": ["example.com/hold", "virtwright.dev/node"]}, "status": {"phase": "Scheduled", "nodeName": "node-a"}}`

	// breaks matches what the policy says of a rule.
	breaks := func(rule string) OmegaMatcher {
		return And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(And(ContainSubstring("node agent of "), ContainSubstring("("+rule+")"))))
	}

	It("claims an instance, writes its status, and lets it go", func() {
		a := agentOf("node-a")
		Expect(patch(a, instance, claim)).To(Succeed())
		Expect(patch(a, instance, `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)).To(Succeed())
		Expect(s.get(instance, "web")).To(And(haveAt("status.phase", "Running"), haveAt("status.nodeName", "node-a")))
		Expect(s.of(instance).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Expect(patch(a, instance, `{"status": {"phase": "Succeeded"}}`)).To(Succeed(), "also while it goes")
		Expect(patch(a, instance, `{"metadata": {"finalizers": ["example.com/hold"]}}`)).To(Succeed())
		Expect(s.get(instance, "web").GetFinalizers()).To(Equal([]string{"example.com/hold"}))
	})

	It("claims by a full update that knows what it changes", func() {
		seen := s.get(instance, "web")
		next := seen.DeepCopy()
		next.Object["status"] = map[string]any{"phase": "Scheduled", "nodeName": "node-b"}
		_, err := s.as(agentOf("node-b"), instance).Update(here.ctx, next, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		next.Object["status"] = map[string]any{"phase": "Scheduled", "nodeName": "node-a"}
		_, err = s.as(agentOf("node-a"), instance).Update(here.ctx, next, metav1.UpdateOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "the later of two: %v", err)
	})

	It("cannot touch what is another node's, or take it", func() {
		Expect(patch(agentOf("node-a"), instance, claim)).To(Succeed())
		before := s.get(instance, "web")
		for _, client := range []dynamic.Interface{agentOf("node-b"), agentOf(), agentOf("node-a", "node-b"), agentOf("")} {
			for _, merge := range []string{
				`{"status": {"phase": "Failed"}}`, `{"status": {"nodeName": "node-b"}}`, `{"status": {"nodeName": null}}`, `{"metadata": {"finalizers": ["example.com/hold"]}}`, `{"status": null}`,
			} {
				Expect(patch(client, instance, merge)).To(breaks("node-own"), merge)
			}
		}
		Expect(patch(agentOf("node-a"), instance, `{"status": {"nodeName": "node-b"}}`)).To(breaks("node-own"), "given away")
		Expect(s.get(instance, "web")).To(Equal(before))
	})

	It("cannot change anything else of its own", func() {
		a := agentOf("node-a")
		Expect(patch(a, instance, claim)).To(Succeed())
		before := s.get(instance, "web")
		for merge, rule := range map[string]string{
			`{"spec": {"terminationGracePeriodSeconds": 1}}`:                                                    "node-spec",
			`{"metadata": {"labels": {"kubevirt.io/nodeName": "node-a"}}}`:                                      "node-labels",
			`{"metadata": {"labels": null}}`:                                                                    "node-labels",
			`{"metadata": {"annotations": {"virtwright.dev/power-request": "{}"}}}`:                             "node-annotations",
			`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}}`: "node-owner-references",
			`{"metadata": {"finalizers": ["virtwright.dev/node"]}}`:                                             "node-finalizers",
			`{"metadata": {"finalizers": ["example.com/hold", "virtwright.dev/node", "example.com/more"]}}`:     "node-finalizers",
		} {
			Expect(patch(a, instance, merge)).To(breaks(rule), merge)
		}
		Expect(s.get(instance, "web")).To(Equal(before))
	})

	It("neither makes nor deletes machines, nor writes to VMs", func() {
		a := agentOf("node-a")
		_, err := s.as(a, instance).Create(here.ctx, s.parse(tinyInstance("more", "")), metav1.CreateOptions{})
		Expect(err).To(breaks("node-update"))
		Expect(s.as(a, instance).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(breaks("node-update"))
		Expect(s.as(a, instance).DeleteCollection(here.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(breaks("node-update"))
		s.create(tinyVM("other", ""))
		_, err = s.as(a, virtualMachine).Create(here.ctx, s.parse(tinyVM("more", "")), metav1.CreateOptions{})
		Expect(err).To(breaks("node-update"))
		_, err = s.as(a, virtualMachine).Patch(here.ctx, "other", types.MergePatchType, []byte(`{"spec": {"runStrategy": "Always"}}`), metav1.PatchOptions{})
		Expect(err).To(breaks("node-update"))
		_, err = s.as(a, virtualMachine).Patch(here.ctx, "other", types.MergePatchType, []byte(`{"status": {"ready": true}}`), metav1.PatchOptions{}, "status")
		Expect(err).To(breaks("node-update"))
		Expect(s.as(a, virtualMachine).Delete(here.ctx, "other", metav1.DeleteOptions{})).To(breaks("node-update"))
	})
})
