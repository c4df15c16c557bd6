package chart

import (
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/test/installation"
)

// With webhook.clientCA only API servers with a certificate are answered. The test follows
// docs/protection.md.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("admission.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n")
	i := &installed{Installation: installation.New(t, "--admission-control-config-file="+config)}
	i.MustHelm("install", release, folder, "--set", "certs.mode=self-signed,webhook.clientNames={apiserver}",
		"--set-file", "webhook.clientCA="+filepath.Join(i.Dir(), "ca.crt"))
	i.run()
	create := func() error {
		return i.Try(strings.Replace(small, "name: small", "generateName: small-", 1), "create", "-f", "-")
	}
	i.Eventually("an API server without a certificate is rejected", func() error {
		if err := create(); err == nil || !strings.Contains(err.Error(), "certificate required") {
			return errors.Join(errors.New("want an error about the certificate"), err)
		}
		return nil
	})

	text := read(t, "docs/protection.md")
	_, section, _ := strings.Cut(text, "### Require client certificates")
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("want a configuration and a kubeconfig in the section:\n%s", section)
	}
	ada, apiserver := i.certificate("ada"), i.certificate("apiserver")
	kubeconfig := strings.NewReplacer("/etc/kubernetes/pki/webhooks.crt", write("webhooks.crt", string(apiserver.CertData)),
		"/etc/kubernetes/pki/webhooks.key", write("webhooks.key", string(apiserver.KeyData))).Replace(blocks[1][1])
	write("admission.yaml", strings.ReplaceAll(blocks[0][1], "/etc/kubernetes/webhooks.kubeconfig", write("webhooks.kubeconfig", kubeconfig)))
	if err := i.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.Eventually("the API server is answered", create)
	i.selfTest()

	for name, certificate := range map[string]*rest.Config{"no certificate": {}, "another name": ada, "the name": apiserver} {
		client := &tls.Config{InsecureSkipVerify: true}
		if certificate.CertData != nil {
			pair, err := tls.X509KeyPair(certificate.CertData, certificate.KeyData)
			if err != nil {
				t.Fatal(err)
			}
			client.Certificates = []tls.Certificate{pair}
		}
		response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: client}}).Get("https://" + i.replica.Webhooks()) //nolint:noctx // answered at once
		if err == nil {
			_ = response.Body.Close()
		}
		if accepted := err == nil; accepted != (name == "the name") {
			t.Errorf("%s: got %v", name, err)
		}
	}

	_, stderr, err := i.Helm("upgrade", release, folder, "--reuse-values", "--set", "apiVersions.v1alpha2=true")
	if err == nil || !strings.Contains(stderr, "webhook.clientCA: Forbidden: must not be set with apiVersions.v1alpha2=true") {
		t.Errorf("with conversion: %v %s", err, stderr)
	}
}

// certificate returns the client certificate of a user.
func (i *installed) certificate(user string) *rest.Config {
	i.Helper()
	config, err := i.ControlPlane.User(user)
	if err != nil {
		i.Fatal(err)
	}
	return config
}
