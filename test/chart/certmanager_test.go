package chart

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"encoding/pem"

	"github.com/virtwright/virtwright/test/controlplane"
)

// cert-manager's own controllers issue and inject, on a control plane without
// nodes: the chart needs no value for it, certificates are renewed without a
// failed request, and what goes wrong is seen where people look.
func TestCertManager(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	i := &installation{T: t, ControlPlane: controlplane.ForTest(t, controlplane.Options{APIServerArgs: []string{"--enable-aggregator-routing=true"}}), address: ownAddress(t)}
	if err := i.InstallCRDs(t.Context(), filepath.Join(module(t, "github.com/cert-manager/cert-manager"), "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	i.kubectl("", "create", "namespace", "cert-manager")
	i.certManager("controller")
	stopInjector := i.certManager("cainjector")
	i.must("install", release, folder)
	i.run()
	i.kubectl(small, "apply", "-f", "-")
	i.eventually("the preset acts", func() error {
		out, stderr, err := i.Kubectl(t.Context(), fmt.Sprintf(sparse, "probe"), "create", "--dry-run=server", "-o", "jsonpath={.spec.template.spec.domain.memory.guest}", "-f", "-")
		if err != nil || out != "1Gi" {
			return fmt.Errorf("memory is %q: %w %s", out, err, stderr)
		}
		return nil
	})
	i.kubectl("", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
	i.selfTest()

	failed := i.creating()
	before := i.served()
	i.kubectl("", "delete", "secret", release+"-serving", "-n", namespace)
	i.eventually("another certificate is served", func() error {
		if i.served() == before {
			return fmt.Errorf("it is still the first")
		}
		return nil
	})
	time.Sleep(2 * time.Second)
	if n := failed(); n != "" {
		t.Errorf("a request failed while the certificate was renewed: %s", n)
	}

	stopInjector()
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	wrong := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}))
	i.kubectl("", "patch", "validatingwebhookconfiguration", "admission.virtwright.dev", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+wrong+`"}]`)
	i.tells("WebhooksNotTrusted", "ValidatingWebhookConfiguration admission.virtwright.dev has the CA bundle of another authority")
	i.eventually("it is not ready", func() error {
		if err := i.ready(); err == nil || !strings.Contains(err.Error(), "[-]trust failed") {
			return fmt.Errorf("readiness: %w", err)
		}
		return nil
	})
	i.certManager("cainjector")
	i.eventually("it is ready once the bundle is right again", i.ready)

	i.must("upgrade", release, folder, "--set", "certs.issuerRef.name=gone")
	i.tells("CertificateNotReady", "there is no Issuer virtwright-system/gone: create it, or name another in certs.issuerRef")
	if err := i.ready(); err != nil {
		t.Errorf("it has a certificate still, and should be ready: %v", err)
	}
	i.kubectl("", "delete", "crd", "certificates.cert-manager.io")
	i.tells("CertificateNotReady", "cert-manager is not installed: install it, or set certs.mode=self-signed")
	if strings.Contains(i.log.String(), "forbidden") {
		t.Errorf("the manager lacks rights:\n%s", i.log.String())
	}
}

// module is where a Go module is.
func module(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// certManager runs a part of cert-manager; the function ends it.
func (i *installation) certManager(part string) func() {
	i.Helper()
	ctx, stop := context.WithCancel(i.Context())
	cmd := exec.CommandContext(ctx, program(i.T, "certmanager"), part)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.Kubeconfig())
	log := &lockedBuffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() {
		if i.Failed() {
			i.Logf("log of cert-manager's %s:\n%s", part, log)
		}
	})
	end := func() {
		stop()
		_ = cmd.Wait()
	}
	i.Cleanup(end)
	return end
}

// served is the certificate in the Secret, and that the manager took it.
func (i *installation) served() string {
	i.Helper()
	out, _, err := i.Kubectl(i.Context(), "", "get", "secret", release+"-serving", "-n", namespace, "-o", "jsonpath={.data.tls\\.crt}")
	if err != nil {
		return "" // while there is none
	}
	return out
}

// creating creates machines, in dry runs, until the function is called, which
// says what failed first.
func (i *installation) creating() func() string {
	var failed atomic.Pointer[string]
	ctx, stop := context.WithCancel(i.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if _, stderr, err := i.Kubectl(ctx, fmt.Sprintf(sparse, "load"), "create", "--dry-run=server", "-f", "-"); err != nil && ctx.Err() == nil {
				failed.CompareAndSwap(nil, &stderr)
			}
		}
	}()
	return func() string {
		stop()
		<-ended
		if first := failed.Load(); first != nil {
			return *first
		}
		return ""
	}
}

// tells waits for an event of the pod.
func (i *installation) tells(reason, text string) {
	i.Helper()
	i.eventually("an event says "+reason, func() error {
		out := i.kubectl("", "get", "events", "-n", namespace, "--field-selector=involvedObject.name="+pod+",reason="+reason, "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(out, text) {
			return fmt.Errorf("told is %q, want %q", out, text)
		}
		return nil
	})
}
