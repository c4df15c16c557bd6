package launcher

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// inNetwork runs a function in the pod's network; sockets that it opens stay there.
func (p *pod) inNetwork(do func()) {
	p.Helper()
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.first()))
	must(p.T, err)
	defer namespace.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with its namespace
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			do()
		}
		done <- err
	}()
	must(p.T, <-done)
}

// A resolver answers each question with the address of the pod, as the guest reaches it.
type resolver struct {
	mu    sync.Mutex
	asked []string
}

func (r *resolver) serve(conn net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		q := m.Questions[0]
		r.mu.Lock()
		r.asked = append(r.asked, q.Name.String())
		r.mu.Unlock()
		m.Response = true
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{10, 0, 2, 2}},
			}}
		}
		if text, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(text, from)
		}
	}
}

// The guest calls out: it finds a Service by its short name, by the pod's resolver and search
// domains, and gets its answer.
func TestOutgoing(t *testing.T) {
	p := newSparse(t)
	p.write("resolv.conf", "search shop.svc.cluster.local svc.cluster.local\nnameserver 127.0.0.1\n")
	p.start()
	p.boots()
	names := &resolver{}
	var conn net.PacketConn
	var listener net.Listener
	var errs [2]error
	p.inNetwork(func() {
		conn, errs[0] = net.ListenPacket("udp", "127.0.0.1:53")
		listener, errs[1] = net.Listen("tcp", "127.0.0.1:8081")
	})
	must(t, errs[0])
	must(t, errs[1])
	defer func() { _ = conn.Close() }()
	go names.serve(conn)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the Service") })}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }()
	p.word("get http://api:8081/", "got the Service")
	names.mu.Lock()
	defer names.mu.Unlock()
	if !slices.Contains(names.asked, "api.shop.svc.cluster.local.") {
		t.Errorf("the guest asked for %q", names.asked)
	}
	p.terminate()
	p.ends(0, v1alpha1.GuestStopped, "")
}
