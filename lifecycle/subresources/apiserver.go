package subresources

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
)

// Times that bound what a call costs. Denials are forgotten soon: whoever is
// given a role tries again at once.
const (
	requestTimeout = 25 * time.Second
	allowedFor     = 10 * time.Second
	deniedFor      = 2 * time.Second
)

// assemble makes the generic server and installs the API in it.
func (s *Server) assemble(listener net.Listener, proxy *frontProxy) (*genericapiserver.GenericAPIServer, error) {
	codecs := serializer.NewCodecFactory(scheme())
	c := genericapiserver.NewConfig(codecs)
	// Nothing that this API does not need: it has no storage, no watches, no
	// paths beside its own, and metrics are the manager's.
	c.EnableIndex, c.EnableProfiling, c.EnableMetrics = false, false, false
	c.HealthzChecks = []healthz.HealthChecker{healthz.PingHealthz}
	c.LivezChecks, c.ReadyzChecks = c.HealthzChecks, c.HealthzChecks
	c.RequestTimeout = requestTimeout
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.LoopbackClientConfig = s.options.Config // for hooks, of which there are none
	c.ExternalAddress = listener.Addr().String()
	c.SecureServing = &genericapiserver.SecureServingInfo{
		Listener: listener, Cert: &certificate{current: s.options.Certificate}, ClientCA: proxy, MinTLSVersion: tls.VersionTLS13,
		// Connections of HTTP/2 end while requests are under way that nobody can
		// send again, and keep an API server with one replica.
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

// scheme has what a server without objects of its own answers with.
func scheme() *runtime.Scheme {
	out, v1 := runtime.NewScheme(), schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(out, v1)
	out.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return out
}

// authorizer lets everybody whom API servers let through find out what there is,
// and asks API servers about the rest.
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
		SubjectAccessReviewClient: s.clients.AuthorizationV1(), AllowCacheTTL: allowedFor, DenyCacheTTL: deniedFor,
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
