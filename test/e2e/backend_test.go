package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtwright/virtwright/test/standin"
)

// A door is the way from API servers to the subresource API, which a story can shut while the
// manager goes on.
type door struct {
	address, behind string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	// still is held while nothing passes.
	still sync.RWMutex
}

// newDoor makes an open one, until the stories are over.
func newDoor(behind string) *door {
	GinkgoHelper()
	d := &door{address: freeAddress(), behind: behind, open: map[net.Conn]struct{}{}}
	d.unlock()
	DeferCleanup(d.shut)
	return d
}

// unlock begins to listen.
func (d *door) unlock() {
	GinkgoHelper()
	listener, err := net.Listen("tcp", d.address)
	Expect(err).NotTo(HaveOccurred())
	d.mu.Lock()
	d.listener = listener
	d.mu.Unlock()
	go d.accept(listener)
}

// shut ends every connection and rejects new ones.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.listener.Close()
	for conn := range d.open {
		_ = conn.Close()
	}
	clear(d.open)
}

// hang keeps connections and takes new ones, and says nothing any more, as a process does that is
// stopped. It returns what makes it go on.
func (d *door) hang() (goOn func()) {
	d.still.Lock()
	return sync.OnceFunc(d.still.Unlock)
}

func (d *door) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go d.lead(conn)
	}
}

// lead connects a client with the backend.
func (d *door) lead(from net.Conn) {
	to, err := net.Dial("tcp", d.behind)
	if err != nil {
		_ = from.Close()
		return
	}
	d.mu.Lock()
	d.open[from], d.open[to] = struct{}{}, struct{}{}
	d.mu.Unlock()
	go d.pass(from, to)
	d.pass(to, from)
	d.mu.Lock()
	delete(d.open, from)
	delete(d.open, to)
	d.mu.Unlock()
}

// pass copies until one end has gone, and closes both.
func (d *door) pass(from, to net.Conn) {
	defer closeBoth(from, to)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		d.still.RLock()
		_, failed := to.Write(buffer[:n])
		d.still.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

func closeBoth(one, other io.Closer) {
	one.Close()
	other.Close()
}

// serveBehindDoor serves the subresource API behind a door, until the stories are over.
func serveBehindDoor() *door {
	GinkgoHelper()
	ownManager()
	address := freeAddress()
	here.manager.restartWith("--subresources-bind-address="+address, "--subresources-service="+home+"/"+backend)
	d := newDoor(address)
	d.aggregate()
	DeferCleanup(separate)
	awaitAggregated()
	return d
}

// aggregate makes API servers find the door.
func (d *door) aggregate() {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(d.address)
	Expect(err).NotTo(HaveOccurred())
	aggregate(port)
}

// awaitUnavailable waits until API servers know that the service has no endpoints.
func awaitUnavailable() {
	GinkgoHelper()
	_, _, err := here.kubectl("", "wait", "apiservice", aggregation, "--for=condition=Available=False", "--timeout=5m")
	Expect(err).NotTo(HaveOccurred())
}

// everythingElse does, with its own VM, everything that must work while the subresource API is
// down.
func (s *story) everythingElse(name string) {
	GinkgoHelper()
	cache := GinkgoT().TempDir() // a discovery cache that is empty
	silent := func(stdin string, args ...string) string {
		GinkgoHelper()
		stdout, stderr := s.kubectl(stdin, append([]string{"--cache-dir=" + cache}, args...)...)
		Expect(slices.DeleteFunc(lines(stderr), cannotBoot)).To(BeEmpty(), "%v", args)
		return stdout
	}
	By("creating, starting, changing and stopping " + name)
	Expect(silent(machineOf(name, "Halted"), "create", "-f", "-")).To(ContainSubstring("created"))
	silent("", "patch", "vm", name, "--type=merge", "-p", `{"spec":{"runStrategy":"Always"}}`)
	s.machineIs(name, "Running")
	Expect(silent("", "get", "vm,vmi", "-o", "name")).To(And(
		ContainSubstring("virtualmachine.kubevirt.io/"+name+"\n"), ContainSubstring("virtualmachineinstance.kubevirt.io/"+name+"\n")))
	Expect(silent("", "describe", "vm", name)).To(ContainSubstring("Printable Status:"))
	Expect(silent("", "explain", "vm.spec.runStrategy")).To(ContainSubstring("kubevirt.io"))
	Expect(silent("", "api-resources", "--no-headers")).To(MatchRegexp(`virtualmachines +vm,vms +kubevirt.io/v1 +true +VirtualMachine`))
	for _, strategy := range []string{"Halted", "Manual"} {
		silent(machineOf(name+"-by-client", strategy), "apply", "-f", "-")
		silent(machineOf(name+"-by-server", strategy), "apply", "--server-side", "-f", "-")
	}
	silent("", "patch", "vm", name, "--type=merge", "-p", `{"spec":{"runStrategy":"Halted"}}`)
	s.machineIs(name, "Stopped")
	silent("", "patch", "vm", name, "--type=merge", "-p", `{"spec":{"runStrategy":"Always"}}`)
	s.machineIs(name, "Running")
	silent("", "delete", "vm", name, name+"-by-client", name+"-by-server")
	s.noInstance(name)
	Expect(call("", http.MethodGet, "/openapi/v3", "").body).To(ContainSubstring(`"apis/kubevirt.io/v1"`))
	Expect(call("", http.MethodGet, "/openapi/v2", "").code).To(Equal(http.StatusOK))
	Expect(call("", http.MethodGet, "/readyz", "").code).To(Equal(http.StatusOK))
}

var _ = Describe("A subresource API that is gone for a minute", Ordered, func() {
	var d *door
	BeforeAll(func() { d = serveBehindDoor() })

	// hinders waits until the deletion of a namespace says what hinders it.
	hinders := func(namespace string) {
		GinkgoHelper()
		Eventually(func() string {
			text, _, _ := here.kubectl("", "get", "namespace", namespace, "-o", `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")]}`)
			return text
		}).Should(And(ContainSubstring(`"status":"True"`), ContainSubstring("subresources.kubevirt.io/v1")))
	}

	It("takes nothing but its verbs and the deletion of namespaces, which one command gives back", func() {
		s, doomed := newStory(), newStory()
		s.runtime(standin.Delays{})
		s.awaitCollector()
		s.create(machineOf("web", "Halted"))
		doomed.create(machineOf("web", "Halted"))
		Expect(s.put("start", "web")).To(accepted())
		s.machineIs("web", "Running")
		uid := s.get(instance, "web").GetUID()

		d.shut()
		for round, began := 0, time.Now(); time.Since(began) < time.Minute; round++ {
			Expect(s.put("stop", "web").code).To(Equal(http.StatusServiceUnavailable))
			s.everythingElse(fmt.Sprint("web-", round))
			if round == 0 {
				By("being told by the command line what works meanwhile")
				code, _, told := s.virtwright("stop", "web").ends()
				Expect(code).To(Equal(2), told)
				Expect(told).To(ContainSubstring(`kubectl patch vm web -n ` + s.ns + ` --type merge -p '{"spec":{"runStrategy":"Halted"}}'`))
				By("restarting the manager, as after a crash")
				here.manager.stop(syscall.SIGKILL)
				here.manager.start()
				here.manager.awaitAnswering()
			}
			time.Sleep(2 * time.Second)
		}
		awaitUnavailable()
		Expect(s.get(instance, "web").GetUID()).To(Equal(uid), "a running VMI stays")

		By("deleting a namespace")
		s.run("delete namespace --wait=false", doomed.ns)
		hinders(doomed.ns)
		Consistently(func() string { return s.run("get namespace -o name", doomed.ns) }, "3s", "500ms").Should(ContainSubstring(doomed.ns))
		separate()
		_, _, err := here.kubectl("", "wait", "--for=delete", "namespace/"+doomed.ns, "--timeout=5m")
		Expect(err).NotTo(HaveOccurred())

		By("serving again")
		d.unlock()
		d.aggregate()
		awaitAggregated()
		Expect(s.put("stop", "web")).To(accepted())
		s.machineIs("web", "Stopped")
		s.noInstance("web")
	})

	It("does no more harm when it takes connections and says nothing", func() {
		s, doomed := newStory(), newStory()
		s.runtime(standin.Delays{})
		s.awaitCollector()
		s.create(machineOf("web", "Manual"))
		s.create(machineOf("late", "Manual"))
		goOn := d.hang()
		DeferCleanup(goOn)
		answered := make(chan answer, 1)
		go func() {
			defer GinkgoRecover()
			answered <- s.put("start", "late")
		}()
		s.everythingElse("before-it-is-known")
		awaitUnavailable()
		s.everythingElse("while-it-is-known")
		Expect(s.put("start", "web").code).To(Equal(http.StatusServiceUnavailable))
		var late answer
		Eventually(answered).Should(Receive(&late), "who asked before waits, not for ever")
		Expect(late.code).To(Or(
			Equal(http.StatusServiceUnavailable), // a new connection, whose handshake ended after 10 s
			Equal(http.StatusGatewayTimeout),     // one that was open, until the API server's own limit of 60 s
		), late.body)
		s.run("delete namespace --wait=false", doomed.ns)
		hinders(doomed.ns)

		goOn()
		awaitAggregated()
		_, _, err := here.kubectl("", "wait", "--for=delete", "namespace/"+doomed.ns, "--timeout=5m")
		Expect(err).NotTo(HaveOccurred(), "goes by itself")
		Expect(s.put("start", "web")).To(accepted())
		s.machineIs("web", "Running")
	})
})
