// Package subresources serves two groups as aggregated APIs:
// subresources.kubevirt.io, with start, stop and restart of a VirtualMachine, what
// presets make of one, reset and soft reboot of an instance, and the version, in
// the form that KubeVirt's clients speak; and subresources.virtwright.dev, with
// the domain that an instance becomes.
//
// It is a thin server on k8s.io/apiserver, without storage, admission, audit,
// and informers beyond one ConfigMap. API servers vouch for who calls (front
// proxy), and are asked what they may do (SubjectAccessReview). A call reads the
// machine and its instance live, lets package verdict decide, and writes the
// verdict as JSON patches that fail when what was decided about has changed;
// then it decides anew. It may be called on any replica.
package subresources

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// maxConnections bounds the memory that clients take before they have sent a
// request: the generic server takes up to 1 MiB of headers from each.
const maxConnections = 200

// Options are what a Server needs.
type Options struct {
	// Config leads to the API servers. Its user reads and patches machines and
	// instances, reads the ConfigMap extension-apiserver-authentication and
	// creates SubjectAccessReviews.
	Config *rest.Config
	// Address is HOST:PORT to listen on.
	Address string
	// Certificate returns the newest serving certificate, as for tls.Config; an
	// error means that there is none yet.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// AllowGet lets GET start, stop and restart, too. Roles that only read hold get.
	AllowGet bool
	// Version that clients are told: that of the KubeVirt whose API this is.
	Version version.Info
	// Presets are for expanding machines.
	Presets Presets
	// Profiles are for rendering instances.
	Profiles Profiles
	// Outermost wraps all that answers, and Innermost the API itself, which the
	// server may run in another goroutine. Nil leaves them as they are.
	Outermost, Innermost func(http.Handler) http.Handler
}

// A Server serves the groups. Make one with New.
type Server struct {
	options  Options
	machines *machines
	clients  kubernetes.Interface
	proxy    atomic.Pointer[frontProxy]
	serving  atomic.Bool
}

// New makes a server; it reaches nothing yet.
func New(o Options) (*Server, error) {
	clients, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return &Server{options: o, clients: clients, machines: &machines{client: clients.Discovery().RESTClient()}}, nil
}

// NeedLeaderElection says that every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Ready is nil once the server answers calls.
func (s *Server) Ready() error {
	switch proxy := s.proxy.Load(); {
	case !s.serving.Load():
		return errors.New("the subresource API is not served yet")
	case !proxy.known():
		return errors.New("the certificate authority of API servers is not known yet")
	}
	return nil
}

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("subresources")
	proxy, err := followFrontProxy(s.clients)
	if err != nil {
		return err
	}
	if !s.awaitCertificate(ctx) || !proxy.await(ctx, log) {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.options.Address)
	if err != nil {
		return fmt.Errorf("cannot serve the subresource API: %w", err)
	}
	server, err := s.assemble(netutil.LimitListener(listener, maxConnections), proxy)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("cannot serve the subresource API: %w", err)
	}
	s.proxy.Store(proxy)
	defer s.serving.Store(false)
	log.Info("Serving subresources", "address", listener.Addr().String())
	return server.PrepareRun().RunWithContext(ctx)
}

// awaitCertificate waits for a certificate to serve with; false when the context
// ended first.
func (s *Server) awaitCertificate(ctx context.Context) bool {
	for {
		if _, err := s.options.Certificate(nil); err == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}
