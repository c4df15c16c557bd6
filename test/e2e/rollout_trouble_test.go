package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var _ = Describe("A PresetRollout over many VMs", func() {
	const first, rest = 10, 50

	It("says which right the manager lacks, changes nothing, and goes on once it has it again", func() {
		ownManager()
		s := newStory()
		size := s.fleet(map[string]int{"first": first, "rest": rest},
			`{name: first, vms: {matchLabels: {wave: first}}}, {name: rest, approval: Required, steps: ["50%", "100%"]}`)
		s.edit(size, memoryOf("2Gi"))
		Eventually(s.rolloutState).Should(HavePrefix("WaitingForApproval"))
		giveBack := withdrawRight("patch", "virtualmachines")
		s.annotateRollout("rollout-approved", fmt.Sprint(at(s.get(presetRollout, s.ns), "status.target"), "/rest"))

		Eventually(s.rolloutState).Should(Equal("Failed rest 50%"))
		Expect(s.condition(s.get(presetRollout, s.ns), "Progressing")).To(ContainSubstring("VMs that failed"))
		Expect(fmt.Sprint(at(s.get(presetRollout, s.ns), "status.failures"))).To(contain(`cannot patch resource "virtualmachines"`, ourselves))
		counts := s.rolloutCounts()
		Expect(counts["failed"]).To(Equal(counts["selected"] - first))
		Expect(counts["updated"]).To(BeEquivalentTo(first))
		Expect(s.sizes()).To(Equal(map[string]int{"2Gi": first, "1Gi": rest}))

		giveBack()
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		s.allWrittenOnce(first + rest)
	})

	It("updates no VM while API servers do not call the mutating webhook", func() {
		s := newStory()
		size := s.fleet(map[string]int{"all": first}, "{name: all}")
		mutates := func() bool {
			return at(s.tryOut(strings.Replace(inWave("probe", "all"), "devices:", "memory: {guest: 1Gi}, devices:", 1)), record) != nil
		}
		without("mutatingwebhookconfigurations", func() {
			Eventually(mutates).Should(BeFalse())
			s.edit(size, memoryOf("2Gi"))
			Eventually(s.rolloutState).Should(Equal("Failed all 100%"))
			Expect(s.condition(s.get(presetRollout, s.ns), "Progressing")).To(ContainSubstring("mutating webhooks"))
			Expect(s.sizes()).To(Equal(map[string]int{"1Gi": first}))
		})
		Eventually(mutates).Should(BeTrue())
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		Expect(s.sizes()).To(Equal(map[string]int{"2Gi": first}))
	})

	It("continues after the API server was away, and updates each VM once", func() {
		ownManager()
		s := newStory()
		const machines = 100
		size := s.fleet(map[string]int{"all": machines},
			`{name: all, steps: ["10%", "20%", "30%", "40%", "50%", "60%", "70%", "80%", "90%", "100%"]}`)
		s.edit(size, memoryOf("2Gi"))
		Eventually(func() int { return s.sizes()["2Gi"] }).Should(And(BeNumerically(">", 0), BeNumerically("<", machines)))
		interruptAPIServer(15 * time.Second)
		Eventually(s.rolloutState).Should(HavePrefix("Complete"))
		s.allWrittenOnce(machines)
	})
})

// allWrittenOnce expects that the rollout has brought the change to all VMs of the story.
func (s *story) allWrittenOnce(machines int) {
	GinkgoHelper()
	list, err := s.of(virtualMachine).List(here.ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(list.Items).To(HaveLen(machines))
	for i := range list.Items {
		Expect(&list.Items[i]).To(haveAt(memory, "2Gi"))
		Expect(list.Items[i].GetGeneration()).To(BeEquivalentTo(2), "the spec of %s", list.Items[i].GetName())
	}
	Expect(s.rolloutCounts()).To(And(HaveKeyWithValue("selected", int64(machines)),
		HaveKeyWithValue("updated", int64(machines)), HaveKeyWithValue("failed", int64(0))))
}

// withdrawRight takes a permission away from the manager's user, in every role that has it. The
// function that it returns gives it back; the end of the story does so, too.
func withdrawRight(verb, resource string) (giveBack func()) {
	GinkgoHelper()
	began, back := time.Now(), false
	s := &story{ns: metav1.NamespaceDefault}
	giveBack = func() {
		if back {
			return
		}
		_, _, err := here.kubectl(here.rights[ourselves], "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return s.can(ourselves, verb, resource+".kubevirt.io") }).Should(Succeed())
		heard.mark()
		here.unauthorized, back = append(here.unauthorized, span{began, time.Now()}), true
	}
	DeferCleanup(giveBack)
	for document := range strings.SplitSeq(here.rights[ourselves], "\n---\n") {
		var role rbacv1.ClusterRole
		Expect(yaml.Unmarshal([]byte(document), &role)).To(Succeed())
		if role.Kind != "ClusterRole" || !dropFrom(&role, verb, resource) {
			continue
		}
		raw, err := yaml.Marshal(role)
		Expect(err).NotTo(HaveOccurred())
		_, _, err = here.kubectl(string(raw), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() error { return s.can(ourselves, verb, resource+".kubevirt.io") }).Should(HaveOccurred())
	return giveBack
}

// dropFrom removes a verb from a role's rules about a resource, and reports whether one had it.
func dropFrom(role *rbacv1.ClusterRole, verb, resource string) bool {
	had := false
	for i := range role.Rules {
		if rule := &role.Rules[i]; slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb) {
			rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
			had = true
		}
	}
	return had
}
