package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// driftVMs is the number of VMs in the story about drift.
func driftVMs() int {
	if n, err := strconv.Atoi(os.Getenv("VIRTWRIGHT_DRIFT_VMS")); err == nil {
		return n
	}
	return 60
}

var _ = Describe("Drift", func() {
	const (
		soon = time.Minute
		rng  = "spec.template.spec.domain.devices.rng"
	)
	counts := func(s *story) (vms, changed, rejected int) {
		GinkgoHelper()
		_, out, errs := s.commandLine("drift", "-o", "json")
		var report struct {
			VMs               []any
			Changed, Rejected int
		}
		Expect(json.Unmarshal([]byte(out), &report)).To(Succeed(), errs)
		return len(report.VMs), report.Changed, report.Rejected
	}

	It("is what a reapply of everything would change or reject", func() {
		s, n := newStory(), driftVMs()/4
		s.kubectlAnywhere("label", "namespace", s.ns, "env=uat")
		inProd := s.preset(aPreset("cluster/in-prod", `{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: `+s.ns+`, env: prod}}, labels: {matchLabels: {kind: moved}}}, overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}}}`))
		strict := s.preset(aPreset("strict", `{match: {labels: {matchLabels: {kind: exempt}}}, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`))
		noRNG := s.preset(aPreset("cluster/no-rng", `{match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: `+s.ns+`, env: prod}}, labels: {matchLabels: {kind: wrong}}}, forbid: [{path: `+rng+`}]}`))
		s.create("apiVersion: virtwright.dev/v1alpha1\nkind: PresetException\nmetadata: {name: soon}\n" +
			"spec: {presets: [strict], vmSelector: {matchLabels: {kind: exempt}}, reason: a story" + until(soon/3+time.Duration(n)*200*time.Millisecond) + "}\n")
		Eventually(func(g Gomega) {
			created, err := s.of(virtualMachine).Create(here.ctx, s.parse(driftVM("probe", "exempt")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(created).To(lackAt("spec.template.spec.priorityClassName"))
		}).Should(Succeed())
		var group errgroup.Group
		group.SetLimit(8)
		for i := range n {
			for _, kind := range []string{"moved", "exempt", "wrong", "fresh"} {
				group.Go(func() error {
					_, err := s.tryCreate(driftVM(fmt.Sprintf("%s-%03d", kind, i), kind))
					return err
				})
			}
		}
		Expect(group.Wait()).To(Succeed())
		vms, _, _ := counts(s)
		Expect(vms).To(BeZero())

		By("relabelling the namespace, adding a preset, and letting an exception end")
		s.kubectlAnywhere("label", "namespace", s.ns, "env=prod", "--overwrite")
		fresh := s.preset(aPreset("fresh", `{match: {labels: {matchLabels: {kind: fresh}}}, defaults: {spec: {template: {spec: {subdomain: lab}}}}}`))
		Eventually(func() string { return s.condition(s.get(exception, "soon"), "Active") }).WithTimeout(10 * time.Minute).Should(HavePrefix("False Expired"))
		ended := time.Now()
		for _, p := range []object{inProd, strict, noRNG, fresh} {
			Eventually(func() object { return s.get(p.GetKind(), p.GetName()) }).WithTimeout(time.Until(ended.Add(soon))).
				Should(And(haveAt("status.drifted", int64(n)), haveAt("status.observedAt", Not(BeNil()))))
		}
		AddReportEntry("drift", fmt.Sprintf("%d VMs: status is right %.1fs after the last cause", 4*n, time.Since(ended).Seconds()))
		Expect(s.get(clusterPreset, "no-rng")).To(haveAt("status.violating", int64(n)))

		began := time.Now()
		drifted, changed, rejected := counts(s)
		AddReportEntry("command", fmt.Sprintf("virtwright drift took %.1fs", time.Since(began).Seconds()))
		Expect([]int{drifted, changed, rejected}).To(Equal([]int{4 * n, 3 * n, n}))
		_, out, _ := s.commandLine("reapply", "--all", "--dry-run=server")
		Expect(out).To(HaveSuffix(fmt.Sprintf("reapplied %d VMs: %d changed, 0 unchanged; %d rejected (dry run)\n", changed, changed, rejected)))

		By("reapplying")
		code, out, _ := s.commandLine("violations", "--preset", "cluster/no-rng")
		Expect(code).To(Equal(1))
		Expect(out).To(And(ContainSubstring("wrong-000"), HaveSuffix(fmt.Sprintf("%d of %d VMs with %d violations\n", n, 4*n, n))))
		s.commandLine("reapply", "--all")
		drifted, changed, rejected = counts(s)
		Expect([]int{drifted, changed, rejected}).To(Equal([]int{n, 0, n}))
		for p, want := range map[object]int{inProd: 0, strict: 0, noRNG: n, fresh: 0} {
			Eventually(func() object { return s.get(p.GetKind(), p.GetName()) }).WithTimeout(soon).Should(haveAt("status.drifted", int64(want)))
		}
	})

	It("is the same alongside KubeVirt", func() {
		ownManager()
		here.manager.restartWith("--mode=addon")
		s := newStory()
		size := s.preset(aPreset("size", `{match: {labels: {matchLabels: {kind: fresh}}}, defaults: {spec: {template: {spec: {subdomain: one}}}}}`))
		s.create(driftVM("a", "fresh"))
		s.create(driftVM("b", "moved"))
		s.create(driftVM("c", "wrong"))
		noRNG := s.preset(aPreset("no-rng", `{forbid: [{path: `+rng+`}]}`))
		s.edit(size, `{spec: {defaults: {spec: {template: {spec: {subdomain: two}}}}}}`)
		for _, p := range []object{size, noRNG} {
			Eventually(func() object { return s.get(p.GetKind(), p.GetName()) }).WithTimeout(soon).Should(haveAt("status.drifted", int64(1)))
		}
		_, out, _ := s.commandLine("reapply", "--all", "--dry-run=server")
		Expect(out).To(HaveSuffix("reapplied 2 VMs: 1 changed, 1 unchanged; 1 rejected (dry run)\n"))
	})
})

func driftVM(name, kind string) string {
	devices := map[bool]string{true: "rng: {}"}[kind == "wrong"]
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: " + name + ", labels: {kind: " + kind + "}}\n" +
		"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {" + devices + "}, memory: {guest: 64Mi}}}}}\n"
}
