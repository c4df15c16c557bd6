// Package subresources serves two groups as aggregated APIs. subresources.kubevirt.io, in the form
// of KubeVirt's clients, has start, stop, restart and expansion of VirtualMachines, and pause,
// unpause, reset, soft reboot, console and display of VirtualMachineInstances.
// subresources.virtwright.dev has the libvirt domain of a VirtualMachineInstance.
//
// The server is built on k8s.io/apiserver, without storage, admission and audit. Its only informer
// is for one ConfigMap. API servers authenticate callers (front proxy), and authorize them
// (SubjectAccessReview). A call reads the VM and its VMI from the API server, lets package decide
// decide, and writes JSON patches that fail if the objects have changed; then it decides again.
// Actions on a guest are done by the launcher in the pod of the VMI, which executes
// v1alpha1.LauncherControl. Every replica serves every call.
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
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// maxConnections bounds the memory of connections: the generic server accepts up to 1 MiB of
// headers from each.
const maxConnections = 200

// Options configure a Server.
type Options struct {
	// Config is the client configuration of the API servers. Its user reads and patches VMs and
	// VMIs, reads pods and executes v1alpha1.LauncherControl in them, reads the ConfigMap
	// extension-apiserver-authentication and creates SubjectAccessReviews.
	Config  *rest.Config
	Address string // HOST:PORT to listen on
	// Certificate returns the newest serving certificate, as in tls.Config; an error if there is
	// none yet.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// AllowGet lets GET start, stop and restart VMs. Read-only roles have the verb get.
	AllowGet bool
	Version  version.Info // the version of KubeVirt that the server reports to clients
	Presets  Presets      // expand VMs
	Profiles profiles     // render domains
	// Outermost wraps the whole server, and Innermost the API itself, which may run in another
	// goroutine. They may be nil.
	Outermost, Innermost func(http.Handler) http.Handler
}

// A Server serves the groups. Create it with New.
type Server struct {
	options Options
	cluster *cluster
	guests  *launchers
	clients kubernetes.Interface
	proxy   atomic.Pointer[frontProxy]
	serving atomic.Bool
}

// New creates a server. It connects to nothing yet.
func New(o Options) (*Server, error) {
	clients, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	c := &cluster{client: clients.Discovery().RESTClient()}
	return &Server{options: o, clients: clients, cluster: c, guests: newLaunchers(c, clients, o.Config)}, nil
}

// RegisterMetrics registers the metrics of connections to guests.
func (s *Server) RegisterMetrics(registry prometheus.Registerer) {
	registry.MustRegister(s.guests.streams.rejected)
}

// Ready returns nil once the server handles calls.
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
	proxy, err := newFrontProxy(s.clients)
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
	stop := context.AfterFunc(ctx, s.guests.close)
	defer stop()
	defer s.serving.Store(false)
	log.Info("Serving subresources", "address", listener.Addr().String())
	return server.PrepareRun().RunWithContext(ctx)
}

// awaitCertificate waits for a serving certificate; false if the context ends first.
func (s *Server) awaitCertificate(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		_, err := s.options.Certificate(nil)
		return err == nil, nil
	}) == nil
}

// Times. Denials are cached only shortly, because users who are granted a role retry at once.
const (
	requestTimeout = 25 * time.Second
	allowedTTL     = 10 * time.Second
	deniedTTL      = 2 * time.Second
)

// assemble creates the generic API server with the API in it.
func (s *Server) assemble(listener net.Listener, proxy *frontProxy) (*genericapiserver.GenericAPIServer, error) {
	codecs := serializer.NewCodecFactory(scheme())
	c := genericapiserver.NewConfig(codecs)
	// This API has no storage and no watches, and the manager serves the metrics.
	c.EnableIndex, c.EnableProfiling, c.EnableMetrics = false, false, false
	c.HealthzChecks = []healthz.HealthChecker{healthz.PingHealthz}
	c.LivezChecks, c.ReadyzChecks = c.HealthzChecks, c.HealthzChecks
	c.RequestTimeout = requestTimeout
	c.LongRunningFunc = filters.BasicLongRunningRequestCheck(nil, sets.NewString(
		string(v1alpha1.LauncherConsole), string(v1alpha1.LauncherVNC), string(v1alpha1.LauncherPortForward)))
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.LoopbackClientConfig = s.options.Config // required, but only used by hooks
	c.ExternalAddress = listener.Addr().String()
	c.SecureServing = &genericapiserver.SecureServingInfo{
		Listener: listener, Cert: &certificate{current: s.options.Certificate}, ClientCA: proxy, MinTLSVersion: tls.VersionTLS13,
		// HTTP/2 connections would bind an API server to one replica, and break requests that
		// cannot be retried when they end.
		DisableHTTP2: true,
	}
	c.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
		return wrapped(s.options.Outermost, genericapiserver.DefaultBuildHandlerChain(wrapped(s.options.Innermost, notImplemented(h)), c))
	}
	var err error
	c.Authentication.RequestHeaderConfig = proxy.config()
	delegated := authenticatorfactory.DelegatingAuthenticatorConfig{RequestHeaderConfig: c.Authentication.RequestHeaderConfig}
	if c.Authentication.Authenticator, _, err = delegated.New(); err != nil {
		return nil, err
	}
	if c.Authorization.Authorizer, err = s.authorizer(); err != nil {
		return nil, err
	}
	c.OpenAPIConfig, c.OpenAPIV3Config = openAPI()
	server, err := c.Complete(nil).New("virtwright-subresources", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	err = server.AddPostStartHook("subresources-serving", func(genericapiserver.PostStartHookContext) error {
		s.serving.Store(true)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return server, s.install(server)
}

func wrapped(by func(http.Handler) http.Handler, h http.Handler) http.Handler {
	if by == nil {
		return h
	}
	return by(h)
}

func scheme() *runtime.Scheme {
	out, v1 := runtime.NewScheme(), schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(out, v1)
	out.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return out
}

// authorizer allows health checks and discovery for all authenticated users, and asks API servers
// about other requests.
func (s *Server) authorizer() (authorizer.Authorizer, error) {
	open := []string{"/healthz", "/livez", "/readyz", "/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/*"}
	for i := range groups {
		open = append(open, "/apis/"+groups[i].name)
		for _, version := range groups[i].versions {
			open = append(open, "/apis/"+groups[i].name+"/"+version)
		}
	}
	paths, err := path.NewAuthorizer(open)
	if err != nil {
		return nil, err
	}
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: s.clients.AuthorizationV1(), AllowCacheTTL: allowedTTL, DenyCacheTTL: deniedTTL,
		WebhookRetryBackoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5},
	}.New()
	if err != nil {
		return nil, err
	}
	return union.New(
		union.NamedAuthorizer{AuthorizerName: "paths", Authorizer: paths},
		union.NamedAuthorizer{AuthorizerName: "privileged", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "reviews", Authorizer: reviews},
	)
}
