package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/files"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/hypervisor"
)

// A lab is an API server, libvirt's test driver, and a namespace. The driver
// starts nothing: guests are what the tests make of them.
type lab struct {
	*testing.T
	plane  *controlplane.ControlPlane
	daemon *hypervisor.Daemon
	scheme *runtime.Scheme
	client client.Client
	ns     string
	hosts  *libvirtd.Connection
}

func newLab(t *testing.T) *lab {
	t.Helper()
	hypervisor.Require(t)
	ctrl.SetLogger(logr.Discard())
	l := &lab{T: t, daemon: hypervisor.Start(t), plane: controlplane.ForTest(t, controlplane.Options{}), scheme: runtime.NewScheme(), ns: "default"}
	l.must(l.plane.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"))
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kubevirtv1.AddToScheme, v1alpha1.AddToScheme} {
		l.must(add(l.scheme))
	}
	var err error
	l.client, err = client.New(l.plane.Config(), client.Options{Scheme: l.scheme})
	l.must(err)
	for _, name := range []string{"a", "b"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node": name}}}
		l.must(l.client.Create(t.Context(), node))
		node.Spec.Taints = nil
		l.must(l.client.Update(t.Context(), node))
	}
	l.hosts = l.connection()
	l.hosts.Happened, l.hosts.Look = func(string) {}, func() {}
	go func() { _ = l.hosts.Start(t.Context()) }()
	l.until("connected", func() error { return unless(l.hosts.Connected(), "not connected") })
	return l
}

func (l *lab) connection() *libvirtd.Connection {
	return &libvirtd.Connection{Socket: l.daemon.Socket, URI: "test:///default"}
}

// agent starts the agent of a node in this process.
func (l *lab) agent(name string) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	manager, err := ctrl.NewManager(l.plane.Config(), ctrl.Options{
		Scheme: l.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	l.must(err)
	store := &files.Store{State: l.TempDir(), Volumes: l.TempDir(), Images: l.TempDir()}
	defaults := Folders(store)
	defaults.SoftwareEmulation = v1alpha1.SoftwareEmulationAllow
	c := &Controller{
		Node: name, Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: events.NewFakeRecorder(1000),
		Libvirt: l.connection(), Files: store, Defaults: defaults,
		Look: func(context.Context) (*domain.HostFacts, error) {
			return &domain.HostFacts{Architecture: "amd64", Machines: map[string]map[string]string{"amd64": {"q35": "q35"}}}, nil
		},
	}
	l.must(c.SetupWithManager(manager))
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
		done <- nil
	}
	l.Cleanup(stop)
	return stop
}

// create makes an instance, as an API server has it behind our webhooks.
func (l *lab) create(name string, change func(*kubevirtv1.VirtualMachineInstance)) *kubevirtv1.VirtualMachineInstance {
	l.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}}
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	d := &vmi.Spec.Domain
	d.Machine = &kubevirtv1.Machine{Type: "q35"}
	d.CPU = &kubevirtv1.CPU{Sockets: 1, Cores: 1, Threads: 1, Model: "qemu64"}
	d.Memory = &kubevirtv1.Memory{Guest: new(resource.MustParse("32Mi"))}
	d.Devices.AutoattachPodInterface = new(false)
	if change != nil {
		change(vmi)
	}
	l.must(l.client.Create(l.Context(), vmi))
	return vmi
}

func (l *lab) get(name string) *kubevirtv1.VirtualMachineInstance {
	l.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	err := l.client.Get(l.Context(), types.NamespacedName{Namespace: l.ns, Name: name}, vmi)
	if apierrors.IsNotFound(err) {
		return nil
	}
	l.must(err)
	return vmi
}

// is waits until an instance is in a phase, for a reason, and returns it.
func (l *lab) is(name string, phase kubevirtv1.VirtualMachineInstancePhase, reason string) *kubevirtv1.VirtualMachineInstance {
	l.Helper()
	var vmi *kubevirtv1.VirtualMachineInstance
	l.until(string(phase)+" "+reason, func() error {
		if vmi = l.get(name); vmi == nil {
			return fmt.Errorf("%s is gone", name)
		}
		return unless(vmi.Status.Phase == phase && vmi.Status.Reason == reason, "%s is %+v", name, vmi.Status)
	})
	return vmi
}

func (l *lab) gone(name string) {
	l.Helper()
	l.until("gone", func() error { return unless(l.get(name) == nil && l.guest(name) == nil, "%s is there", name) })
}

// guest is the domain of an instance; nil for none.
func (l *lab) guest(name string) *libvirtd.Domain {
	l.Helper()
	d, err := l.hosts.Find(l.Context(), domain.Name(l.ns, name))
	l.must(err)
	return d
}

func (l *lab) delete(name string) {
	l.Helper()
	l.must(l.client.Delete(l.Context(), &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}}))
}

func (l *lab) until(what string, is func() error) {
	l.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	l.Fatalf("never %s: %v", what, err)
}

func unless(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// run plays a part of a life.
func (l *lab) run(name string, part func(*lab)) {
	l.Run(name, func(t *testing.T) {
		here := *l
		here.T = t
		part(&here)
	})
}

// One API server and one daemon for all lives.
func TestAgent(t *testing.T) {
	l := newLab(t)
	stop := l.agent("a")
	later := l // whose agents outlive the parts

	l.run("a guest shuts down", func(l *lab) {
		l.create("web", nil)
		vmi := l.is("web", kubevirtv1.Running, "")
		if !slices.Contains(vmi.Finalizers, v1alpha1.FinalizerNode) || vmi.Status.NodeName != "a" {
			l.Errorf("it is not held: %v on %q", vmi.Finalizers, vmi.Status.NodeName)
		}
		guest := l.guest("web")
		if owner, ok := domain.OwnerOf(&guest.XML); !ok || owner.UID != vmi.UID {
			l.Errorf("the domain's owner is %+v", owner)
		}
		if record := recordOf(&guest.XML); record.Spec != specHash(vmi) || len(record.Decisions) == 0 || !slices.Contains(record.Backend, domain.HostProfile) {
			l.Errorf("the domain's record is %+v", record)
		}
		l.must(l.hosts.Shutdown(l.Context(), guest))
		l.is("web", kubevirtv1.Succeeded, ReasonShutdown)
		l.until("forgotten", func() error { return unless(l.guest("web") == nil, "the domain is there") })
		l.delete("web")
		l.gone("web")
	})
	l.run("a guest is destroyed", func(l *lab) {
		l.create("web", nil)
		l.is("web", kubevirtv1.Running, "")
		l.must(l.hosts.Destroy(l.Context(), l.guest("web")))
		l.is("web", kubevirtv1.Failed, ReasonDestroyed)
		l.delete("web")
		l.gone("web")
	})
	l.run("a running instance is deleted", func(l *lab) {
		l.create("web", nil)
		l.is("web", kubevirtv1.Running, "")
		l.delete("web")
		l.gone("web")
	})
	l.run("a guest is saved", (*lab).saved)
	l.run("threads are placed", func(l *lab) {
		l.create("isolated", func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Spec.Domain.CPU.IsolateEmulatorThread = true })
		l.trouble("isolated", ReasonNotRendered, "isolateEmulatorThread")
		l.delete("isolated")
		l.gone("isolated")
	})
	l.run("requests are done once", (*lab).requests)
	l.run("what libvirt calls invalid", (*lab).invalid)
	l.run("what is not done is refused", func(l *lab) {
		l.create("probed", func(vmi *kubevirtv1.VirtualMachineInstance) { vmi.Spec.LivenessProbe = &kubevirtv1.Probe{} })
		l.trouble("probed", ReasonUnsupported, "spec.livenessProbe")
		l.delete("probed")
		l.gone("probed")
	})
	l.run("a domain that is not ours", (*lab).foreign)
	l.run("an older domain of the name", func(l *lab) {
		l.define("web", "0b0c7f0e-3f0c-4a0e-9d63-8b0e7f4f9f5a")
		vmi := l.create("web", nil)
		l.is("web", kubevirtv1.Running, "")
		if owner, _ := domain.OwnerOf(&l.guest("web").XML); owner.UID != vmi.UID {
			l.Errorf("the domain is still %s's", owner.UID)
		}
	})
	l.run("the agent is away", func(l *lab) {
		l.create("held", nil)
		l.is("held", kubevirtv1.Running, "")
		stop()
		l.define("lost", "0b0c7f0e-3f0c-4a0e-9d63-8b0e7f4f9f5b") // its instance is gone for good
		l.begun("begun")
		l.delete("held")
		time.Sleep(300 * time.Millisecond)
		if vmi := l.get("held"); vmi == nil || l.guest("held") == nil {
			l.Fatal("nothing has held it")
		}
		later.agent("a")
		l.gone("held")
		l.is("begun", kubevirtv1.Failed, ReasonLost)
		l.until("the lost one is gone", func() error { return unless(l.guest("lost") == nil, "it is there") })
		if l.get("web") == nil || l.guest("web") == nil {
			l.Error("the one that nobody deleted is gone")
		}
	})
	l.run("two agents", (*lab).race)
}

func (l *lab) requests() {
	vmi := l.create("asked", nil)
	l.is("asked", kubevirtv1.Running, "")
	for _, id := range []string{"one", "two"} {
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "{\"id\": %q, \"action\": \"reset\"}"}}}`, v1alpha1.AnnotationPowerRequest, id)
		patch = strings.ReplaceAll(patch, `"`+id+`"`, `\"`+id+`\"`)
		l.must(l.client.Patch(l.Context(), vmi, client.RawPatch(types.MergePatchType, []byte(patch))))
		l.until("done", func() error {
			// libvirt's test driver has no reset: that it cannot be done is told.
			now := l.get("asked")
			return unless(synchronizedOf(now).reason == ReasonPower || recordOf(&l.guest("asked").XML).Power == id, "%+v", now.Status.Conditions)
		})
	}
	l.delete("asked")
	l.gone("asked")
}

func (l *lab) trouble(name, reason, words string) {
	l.Helper()
	l.until(reason, func() error {
		vmi := l.get(name)
		said := synchronizedOf(vmi)
		return unless(said.reason == reason && strings.Contains(said.message, words), "%+v", vmi.Status)
	})
}

// foreign is about a domain that somebody has made by hand.
func (l *lab) foreign() {
	mine, err := l.hosts.Define(l.Context(), fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory>32768</memory><os><type arch="x86_64">hvm</type></os></domain>`, domain.Name(l.ns, "taken")))
	l.must(err)
	l.must(l.hosts.Create(l.Context(), mine, false))
	l.create("taken", nil)
	l.trouble("taken", ReasonNameTaken, mine.Name)
	l.delete("taken")
	l.until("gone", func() error { return unless(l.get("taken") == nil, "it is there") })
	if d := l.guest("taken"); d == nil || d.State != libvirtd.Running {
		l.Errorf("somebody else's domain is %+v", d)
	}
	l.must(l.hosts.Destroy(l.Context(), mine))
	l.must(l.hosts.Undefine(l.Context(), mine, false))
}

// drawn is a domain as an agent has it.
func (l *lab) drawn(name, uid string) string {
	return fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory>32768</memory><os><type arch="x86_64">hvm</type></os>
<metadata><instance xmlns=%q><namespace>%s</namespace><name>%s</name><uid>%s</uid></instance></metadata></domain>`,
		domain.Name(l.ns, name), domain.MetadataNamespace, l.ns, name, uid)
}

// define makes and starts a domain as an agent has it, of an instance that
// there is not.
func (l *lab) define(name, uid string) {
	l.Helper()
	d, err := l.hosts.Define(l.Context(), l.drawn(name, uid))
	if err != nil && l.guest(name) == nil {
		return // the agent was quicker
	}
	l.must(err)
	l.must(l.hosts.Create(l.Context(), d, false))
}

// race has agents of two nodes claim the same instances. Both see the domains of
// one daemon here, which no two nodes share: only claims count.
func (l *lab) race() {
	l.agent("b")
	const count = 10
	for i := range count {
		l.create(fmt.Sprint("race-", i), func(vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Spec.NodeSelector = map[string]string{"node": []string{"a", "b"}[i%2]}
			vmi.Spec.LivenessProbe = &kubevirtv1.Probe{} // claimed, and not run
		})
	}
	for i := range count {
		want := []string{"a", "b"}[i%2]
		l.until("claimed", func() error {
			vmi := l.get(fmt.Sprint("race-", i))
			return unless(vmi.Status.NodeName == want && synchronizedOf(vmi).reason == ReasonUnsupported, "%+v", vmi.Status)
		})
	}
	// The agent of b has found a's guest on its host, and looked at it.
	if vmi, guest := l.get("web"), l.guest("web"); vmi.Status.Phase != kubevirtv1.Running || guest == nil || guest.State != libvirtd.Running {
		l.Errorf("the guest of another node is %+v, of %+v", guest, vmi.Status)
	}
}
