package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/nameconflict"
	machines "github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/cases"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/clients"
)

const (
	tiny     = "domain: {memory: {guest: 64Mi}, devices: {}}"
	conflict = "NameConflict"
)

// tinyVM is a VM with more of its spec, as flow YAML.
func tinyVM(name, more string) string {
	return fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s}, spec: {runStrategy: Halted, %s template: {spec: {%s}}}}", name, more, tiny)
}

func tinyInstance(name, metadata string) string {
	return fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s%s}, spec: {%s}}", name, metadata, tiny)
}

// withDisk is a VM with a disk of its own called root.
func withDisk(name string) string {
	const disk = "dataVolumeTemplates: [{metadata: {name: root}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}],"
	text := strings.Replace(tinyVM(name, disk), tiny, "volumes: [{name: root, dataVolume: {name: root}}], "+tiny, 1)
	return strings.Replace(text, "devices: {}", "devices: {disks: [{name: root}]}", 1)
}

// awaitCollector waits until the garbage collector watches instances, which it begins some time
// after their CRD is there. Who orphans before that loses them.
func (s *story) awaitCollector() {
	GinkgoHelper()
	const gone = "ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: none, uid: 5a0e3b4c-0000-4000-8000-00000000dead}]"
	_, err := s.as(clientAs(trusted), instance).Create(here.ctx, s.parse(tinyInstance("probe", ", "+gone)), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() bool {
		_, err := s.of(instance).Get(here.ctx, "probe", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue())
}

// conflictOn is the message of the condition NameConflict, empty without it.
func (s *story) conflictOn(name string) string {
	GinkgoHelper()
	conditions, _ := at(s.get(virtualMachine, name), "status.conditions").([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == conflict {
			return fmt.Sprint(c["message"])
		}
	}
	return ""
}

// told are the objects with an event about a duplicate name, as KIND NAME.
func (s *story) told() map[string]bool {
	GinkgoHelper()
	events, err := here.client.Resource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}).
		Namespace(s.ns).List(here.ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	on := map[string]bool{}
	for _, e := range events.Items {
		if at(&e, "reason") == conflict {
			on[fmt.Sprint(at(&e, "regarding.kind"), " ", at(&e, "regarding.name"))] = true
		}
	}
	return on
}

// noPresets is a set of presets without any.
type noPresets struct{}

func (noPresets) Snapshot() *presets.Snapshot { return presets.NewSnapshot(nil, nil) }

// A countingReader counts reads of single objects.
type countingReader struct {
	client.Reader
	count int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	r.count++
	return r.Reader.Get(ctx, key, into, options...)
}

var _ = Describe("The name of a machine", func() {
	var s *story
	BeforeEach(func() { s = newStory() })
	owned := func(vm object) string {
		return fmt.Sprintf(", ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: %s, uid: %s, controller: true}]", vm.GetName(), vm.GetUID())
	}
	asTrusted := func(manifest string) (object, error) {
		in := s.parse(manifest)
		return s.as(as(trusted, "system:masters"), in.GetKind()).Create(here.ctx, in, metav1.CreateOptions{})
	}
	settled := func(create func() error, say string) {
		GinkgoHelper()
		// The index knows objects that were created a moment ago.
		Eventually(create).Should(MatchError(ContainSubstring(say)))
	}

	It("is its VMI's: other users cannot create a VMI with this name, not even in a dry run", func() {
		vm := s.create(tinyVM("web", ""))
		try := func() error {
			in := s.parse(tinyInstance("web", ""))
			_, err := s.of(instance).Create(here.ctx, in, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		settled(try, "a VirtualMachine has this name, and only its controller may create the VirtualMachineInstance")
		Eventually(func() error { _, err := asTrusted(tinyInstance("web", "")); return err }).Should(MatchError(ContainSubstring("a VirtualMachine has this name")))
		_, err := asTrusted(tinyInstance("web", strings.Replace(owned(vm), string(vm.GetUID()), "another", 1)))
		Expect(err).To(MatchError(ContainSubstring("its owner is not the VirtualMachine of this name")))
		_, err = asTrusted(tinyInstance("web", owned(vm)))
		Expect(err).NotTo(HaveOccurred())
	})

	It("is its instance's even while the cache does not have the VM yet", func() {
		// The cache stops before the VM is created, so it never has it.
		ctx, stop := context.WithCancel(here.ctx)
		scheme := runtime.NewScheme()
		Expect(machines.AddToScheme(scheme)).To(Succeed())
		kinds, err := cache.New(here.config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{s.ns: {}}})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- kinds.Start(ctx) }()
		live, err := client.New(here.config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		reads := &countingReader{Reader: live}
		index := &nameconflict.Index{Cache: kinds, Live: reads}
		Expect(index.Start(ctx)).To(Succeed())
		stop()
		Expect(<-ended).To(Succeed())
		vm := s.create(tinyVM("web", ""))

		validator := &webhooks.Validator{
			Kind: presets.VirtualMachineInstance, Guard: protection.Guard{Trusted: []string{trusted}}, Rules: &validation.Config{}, Engine: &presets.Engine{},
			Snapshots: noPresets{}, Namespaces: &clients.CachedNamespaces{Cache: live, Live: live}, Names: index,
		}
		handle := func(user, manifest string) (string, int) {
			GinkgoHelper()
			raw, err := s.parse(manifest).MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			reads.count = 0
			response := validator.Handle(here.ctx, webhooks.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Namespace: s.ns, Name: "web", Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: instance},
				UserInfo: authenticationv1.UserInfo{Username: user}, Object: runtime.RawExtension{Raw: raw},
			}})
			if response.Allowed {
				return "", reads.count
			}
			return response.Result.Message, reads.count
		}
		for _, user := range []string{"jane", trusted} {
			rejection, _ := handle(user, tinyInstance("web", ""))
			Expect(rejection).To(ContainSubstring("a VirtualMachine has this name"), user)
		}
		rejection, _ := handle(trusted, tinyInstance("web", strings.Replace(owned(vm), string(vm.GetUID()), "another", 1)))
		Expect(rejection).To(BeEmpty(), "a controller is trusted to have read its VM")
		rejection, count := handle(trusted, tinyInstance("web", owned(vm)))
		Expect(rejection).To(BeEmpty())
		Expect(count).To(BeZero(), "the VM's controller costs no live read")
		rejection, count = handle("jane", tinyInstance("free", ""))
		Expect(rejection).To(BeEmpty())
		Expect(count).To(Equal(1))
	})

	It("is not a VM's while an instance that is not its own has it", func() {
		s.create(tinyInstance("web", ""))
		settled(func() error {
			_, err := s.of(virtualMachine).Create(here.ctx, s.parse(tinyVM("web", "")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, "a VirtualMachineInstance of this name exists, which does not belong to this VirtualMachine")
		Expect(s.of(instance).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		// A free name does not depend on a cache.
		s.create(tinyVM("web", ""))
	})

	It("goes to the next VM, with the orphan that has it", func() {
		s.awaitCollector()
		vm := s.create(strings.Replace(tinyVM("web", ""), "Halted", "Manual", 1)) // which keeps an instance that it has
		_, err := asTrusted(tinyInstance("web", owned(vm)+", annotations: {virtwright.dev/instance-of: "+string(vm.GetUID())+"}"))
		Expect(err).NotTo(HaveOccurred())
		Expect(s.of(virtualMachine).Delete(here.ctx, "web", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)})).To(Succeed())
		Eventually(func() []metav1.OwnerReference { return s.get(instance, "web").GetOwnerReferences() }).Should(BeEmpty())
		Eventually(func() error { _, err := s.tryCreate(tinyVM("web", "")); return err }).Should(Succeed())
		Consistently(func() string { return s.conflictOn("web") }, "300ms").Should(BeEmpty())
	})

	It("is free again once its VM is deleted, even while dependents remain", func() {
		for range 5 {
			vm := s.create(withDisk("web"))
			_, err := asTrusted(tinyInstance("web", owned(vm)))
			Expect(err).NotTo(HaveOccurred())
			Expect(s.of(virtualMachine).Delete(here.ctx, "web", metav1.DeleteOptions{})).To(Succeed())
			Eventually(func() bool {
				_, err := s.of(instance).Get(here.ctx, "web", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}).Should(BeTrue())
		}
	})

	It("can be generated", func() {
		for range 3 {
			got := s.create(strings.Replace(tinyVM("x", ""), "name: x", "generateName: web-", 1))
			Expect(got.GetName()).To(HavePrefix("web-"))
		}
	})

	It("of a disk is one VM's", func() {
		s.create(withDisk("one"))
		settled(func() error {
			_, err := s.of(virtualMachine).Create(here.ctx, s.parse(withDisk("two")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, "another VirtualMachine has a dataVolumeTemplate of this name, and both would write to one disk")
		s.patch("one", "{metadata: {labels: {a: b}}, spec: {runStrategy: Manual}}")
	})

	It("in hardware is warned of, and never names machines of others", func() {
		nic := func(name, mac string) string {
			text := strings.Replace(tinyVM(name, ""), "devices: {}", "devices: {interfaces: [{name: default, masquerade: {}, macAddress: \""+mac+"\"}]}", 1)
			return strings.Replace(text, "domain:", "networks: [{name: default, pod: {}}], domain:", 1)
		}
		mac := fmt.Sprintf("02:00:00:%02x:%02x:01", GinkgoParallelProcess(), GinkgoRandomSeed()%200)
		other := newStory()
		other.create(nic("stranger", mac))
		s.create(nic("one", mac))
		Eventually(func() []string {
			in := s.parse(nic("two", strings.ToUpper(mac)))
			var heard warnings
			_, err := s.as(heard.client(), virtualMachine).Create(here.ctx, in, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			Expect(err).NotTo(HaveOccurred())
			return heard.texts
		}).Should(And(say("MAC address "+mac+" is also used by another VM"), Not(Or(say("stranger"), say("one")))))
	})
})

// Two that are created at once are more than any cache can see.
var _ = Describe("Two clients that race for many names", func() {
	It("never leave an unwanted VMI, and every duplicate name is reported", func() {
		ownManager()
		s := newStory()
		config := rest.CopyConfig(here.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "racer", Groups: []string{"system:masters", "system:authenticated"}}
		racer, err := dynamic.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		const workers = 16
		pairs := cases.Of(2000)
		vms, instances := make([]bool, pairs), make([]bool, pairs)
		var next, odd atomic.Int64
		next.Store(-1)
		try := func(ctx context.Context, client dynamic.Interface, manifest string) bool {
			in := s.parse(manifest)
			_, err := s.as(client, in.GetKind()).Create(ctx, in, metav1.CreateOptions{})
			if err != nil && !apierrors.IsInvalid(err) {
				odd.Add(1)
				GinkgoWriter.Println(err)
			}
			return err == nil
		}
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				defer GinkgoRecover()
				for i := int(next.Add(1)); i < pairs; i = int(next.Add(1)) {
					name := fmt.Sprintf("n%04d", i)
					var both sync.WaitGroup
					both.Go(func() { defer GinkgoRecover(); vms[i] = try(here.ctx, here.client, tinyVM(name, "")) })
					both.Go(func() { defer GinkgoRecover(); instances[i] = try(here.ctx, racer, tinyInstance(name, "")) })
					both.Wait()
				}
			})
		}
		all.Wait()
		Expect(odd.Load()).To(BeZero(), "the losing create gets the reason")

		listed, err := s.of(instance).List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		asked := 0
		for i := range instances {
			if instances[i] {
				asked++
			}
		}
		Expect(listed.Items).To(HaveLen(asked), "there are the instances that were asked for, and no other")
		residue, neither := 0, 0
		for i := range pairs {
			name := fmt.Sprintf("n%04d", i)
			switch {
			case vms[i] && instances[i]:
				residue++
				Eventually(func() string { return s.conflictOn(name) }).Should(ContainSubstring("has the name of this VirtualMachine and belongs to no VirtualMachine"))
			case !vms[i] && !instances[i]:
				neither++
			}
		}
		Eventually(func() []string {
			on := s.told()
			var untold []string
			for i := range pairs {
				for _, kind := range []string{"VirtualMachine ", "VirtualMachineInstance "} {
					if name := fmt.Sprintf("n%04d", i); vms[i] && instances[i] && !on[kind+name] {
						untold = append(untold, kind+name)
					}
				}
			}
			return untold
		}).Should(BeEmpty(), "an event on both of each pair")
		AddReportEntry(fmt.Sprintf("%d pairs: %d with both, each reported; %d with neither", pairs, residue, neither))

		By("taking the report back once one of the two is gone")
		for i := range pairs {
			if name := fmt.Sprintf("n%04d", i); vms[i] && instances[i] {
				Expect(s.of(instance).Delete(here.ctx, name, metav1.DeleteOptions{})).To(Succeed())
				Eventually(func() string { return s.conflictOn(name) }).Should(BeEmpty())
				return
			}
		}
	})
})
