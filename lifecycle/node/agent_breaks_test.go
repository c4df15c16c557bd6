package node

import (
	"net"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// invalid is about operations that a domain's state does not allow: one that has
// changed since is looked at again, and else they are in vain.
func (l *lab) invalid() {
	d, err := l.hosts.Define(l.Context(), `<domain type="qemu"><name>by-hand</name><memory>32768</memory><os><type arch="x86_64">hvm</type></os></domain>`)
	l.must(err)
	if err := l.hosts.Reboot(l.Context(), d, false); err == nil || libvirtd.Moved(err) {
		l.Errorf("one that is off, and was: %v", err)
	}
	l.must(l.hosts.Create(l.Context(), d, false))
	seen, err := l.hosts.Find(l.Context(), d.Name)
	l.must(err)
	l.must(l.hosts.Destroy(l.Context(), d))
	if err := l.hosts.Reboot(l.Context(), seen, false); !libvirtd.Moved(err) {
		l.Errorf("one that has ended meanwhile: %v", err)
	}
	l.must(l.hosts.Undefine(l.Context(), d, false))
}

// saved has somebody save a guest, which goes on.
func (l *lab) saved() {
	l.create("saved", nil)
	l.is("saved", kubevirtv1.Running, "")
	wire, err := net.Dial("unix", l.daemon.Socket)
	l.must(err)
	to := libvirt.NewWithDialer(dialers.NewAlreadyConnected(wire))
	l.must(to.ConnectToURI("test:///default"))
	defer func() { _ = to.Disconnect() }()
	ref, err := to.DomainLookupByName(domain.Name(l.ns, "saved"))
	l.must(err)
	l.must(to.DomainManagedSave(ref, 0))
	l.until("it goes on", func() error {
		vmi, guest := l.get("saved"), l.guest("saved")
		return unless(vmi.Status.Phase == kubevirtv1.Running && guest != nil && guest.State == libvirtd.Running, "%+v, %+v", guest, vmi.Status)
	})
	l.delete("saved")
	l.gone("saved")
}

// begun makes a claimed instance, and its domain as it is when an agent was
// killed after it had started it, the guest ended, and libvirtd was restarted.
func (l *lab) begun(name string) {
	l.Helper()
	vmi := l.create(name, func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Finalizers = []string{v1alpha1.FinalizerNode}
		vmi.Status.NodeName, vmi.Status.Phase = "a", kubevirtv1.Scheduled
	})
	d, err := l.hosts.Define(l.Context(), l.drawn(name, string(vmi.UID)))
	l.must(err)
	l.must((&Controller{Node: "a", Libvirt: l.hosts}).begin(l.Context(), d))
	if record := recordOf(&l.guest(name).XML); !record.Started || record.Node != "a" {
		l.Errorf("the domain's record is %+v", record)
	}
}
