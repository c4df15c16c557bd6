package subresources

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// The ConfigMap with the front proxy's certificate authority and headers.
const (
	authenticationNamespace = "kube-system"
	authenticationName      = "extension-apiserver-authentication"
)

// A frontProxy authenticates API servers, which forward the user in headers. It follows changes of
// the ConfigMap.
type frontProxy struct {
	*dynamiccertificates.ConfigMapCAController
	headers *headerrequest.RequestHeaderAuthRequestController
}

var (
	_ dynamiccertificates.CAContentProvider = (*frontProxy)(nil)
	_ dynamiccertificates.ControllerRunner  = (*frontProxy)(nil)
)

func newFrontProxy(clients kubernetes.Interface) (*frontProxy, error) {
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"front-proxy", authenticationNamespace, authenticationName, "requestheader-client-ca-file", clients)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the certificate authority of API servers: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(authenticationName, authenticationNamespace, clients,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	return &frontProxy{authority, headers}, nil
}

// await waits until the ConfigMap can be read; false if the context ends first.
func (p *frontProxy) await(ctx context.Context, log logr.Logger) bool {
	return wait.Backoff{Duration: 2 * time.Second}.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := p.headers.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot read the front proxy configuration of API servers; trying again", "configMap", authenticationNamespace+"/"+authenticationName)
		}
		return err == nil, nil
	}) == nil
}

func (p *frontProxy) Run(ctx context.Context, workers int) {
	go p.headers.Run(ctx, workers)
	p.ConfigMapCAController.Run(ctx, workers)
}

func (p *frontProxy) known() bool { return len(p.CurrentCABundleContent()) > 0 }

func (p *frontProxy) config() *authenticatorfactory.RequestHeaderConfig {
	follow := func(strings func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(strings)
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   p,
		UsernameHeaders:     follow(p.headers.UsernameHeaders),
		UIDHeaders:          follow(p.headers.UIDHeaders),
		GroupHeaders:        follow(p.headers.GroupHeaders),
		ExtraHeaderPrefixes: follow(p.headers.ExtraHeaderPrefixes),
		AllowedClientNames:  follow(p.headers.AllowedClientNames),
	}
}
