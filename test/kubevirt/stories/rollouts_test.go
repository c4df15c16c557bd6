package stories

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A PresetRollout", func() {
	It("restarts the VMs whose change needs it, one after the other, and starts none", func() {
		s := newStory()
		s.clusterPreset("size", "defaults: {spec: {template: {spec: {domain: {cpu: {cores: 1}, memory: {guest: 64Mi}}}}}}")
		before := map[string]types.UID{"a": "", "b": "", "c": ""}
		for name := range before {
			s.create(sparse(name, "runStrategy: Always"))
		}
		s.create(sparse("manual", "runStrategy: Manual"))
		for name := range before {
			s.awaitStatus(name, kubevirtv1.VirtualMachineStatusRunning)
			Eventually(func() bool { return s.vm(name).Status.Ready }).Should(BeTrue())
			before[name] = s.vmi(name).UID
		}
		rollout := "{apiVersion: virtwright.dev/v1alpha1, kind: PresetRollout, metadata: {name: " + s.ns + "}, spec: {presets: [cluster/" + s.ns + "-size], waves: [{name: all}], " +
			"restart: Rolling, budgets: [{maxUnavailable: 1, per: Namespace}]}}"
		here.Must(rollout, "create", "-f", "-")
		DeferCleanup(func() { here.Must("", "delete", "presetrollout", s.ns) })
		state := func() string {
			return here.Must("", "get", "presetrollout", s.ns, "-o", `jsonpath={.status.conditions[0].reason} {.status.presets[0].target}`)
		}
		Eventually(state).Should(Equal("Complete 1"))

		here.Must("", "patch", "cvmpreset", s.ns+"-size", "--type=merge", "-p", `{"spec": {"defaults": {"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}}}}}}}}`)
		most := 0
		Eventually(func(g Gomega) {
			var all kubevirtv1.VirtualMachineList
			g.Expect(here.Objects.List(here.Context(), &all, client.InNamespace(s.ns))).To(Succeed())
			down := 0
			for i := range all.Items {
				if all.Items[i].Name != "manual" && !all.Items[i].Status.Ready {
					down++
				}
			}
			most = max(most, down)
			g.Expect(state()).To(Equal("Complete 2"))
		}).WithTimeout(5 * time.Minute).WithPolling(100 * time.Millisecond).Should(Succeed())
		Expect(most).To(Equal(1), "VMs that were not ready at once")
		for name, uid := range before {
			Expect(s.vmi(name).UID).NotTo(Equal(uid), name)
			Expect(s.vmi(name).Spec.Domain.CPU.Cores).To(BeEquivalentTo(2), name)
			Expect(isRestartRequired(s.vm(name))).To(BeFalse(), name)
		}
		Expect(s.vm("manual").Spec.Template.Spec.Domain.CPU.Cores).To(BeEquivalentTo(2))
		Expect(s.vm("manual").Status.Created).To(BeFalse())
	})
})
