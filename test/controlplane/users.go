package controlplane

import (
	"fmt"
	"net/url"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config is an administrator's configuration (group system:masters), without client-side rate
// limits. Each call returns a copy.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.admin) }

// Kubeconfig is the path of the administrator's kubeconfig file.
func (cp *ControlPlane) Kubeconfig() string { return filepath.Join(cp.dir.path, "kubeconfig") }

// User logs anybody in: it makes a client certificate for a user name and groups. What the user may
// do is RBAC's to say.
func (cp *ControlPlane) User(name string, groups ...string) (*rest.Config, error) {
	pair, err := cp.pki.ca.issue(clientTemplate(name, groups))
	if err != nil {
		return nil, fmt.Errorf("cannot log %s in: %w", name, err)
	}
	return &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", cp.port),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: cp.pki.ca.pem, CertData: pair.cert, KeyData: pair.key,
		},
		QPS: -1, // no limit: stories create hundreds of objects at once
	}, nil
}

// UserKubeconfig is User as the path of a kubeconfig file.
func (cp *ControlPlane) UserKubeconfig(name string, groups ...string) (string, error) {
	config, err := cp.User(name, groups...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cp.dir.path, url.PathEscape(name)+".kubeconfig")
	return path, writeKubeconfig(path, name, config)
}

func writeKubeconfig(path, user string, config *rest.Config) error {
	const name = "virtwright"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	kubeconfig.CurrentContext = name
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("cannot write the kubeconfig of %s: %w", user, err)
	}
	return nil
}
