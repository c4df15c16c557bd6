package chart

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/installation"
)

// cert-manager's own controllers issue and inject, on a control plane without nodes: the chart
// needs no value for it, certificates are renewed without a failed request, and what goes wrong is
// seen where people look.
func TestCertManager(t *testing.T) {
	i := &installed{Installation: installation.New(t)}
	i.PrepareCertManager()
	i.CertManager("controller")
	stopInjector := i.CertManager("cainjector")
	i.MustHelm("install", release, folder)
	i.run()
	i.Must(small, "apply", "-f", "-")
	i.Eventually("the preset acts", i.whole)
	i.Must("", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
	i.selfTest()
	i.isConfined(false)

	failed := i.creating()
	before := i.served()
	i.Must("", "delete", "secret", release+"-serving", "-n", namespace)
	i.Eventually("another certificate is served", func() error {
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
	i.Must("", "patch", "validatingwebhookconfiguration", "admission.virtwright.dev", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+wrong+`"}]`)
	i.tells("WebhooksNotTrusted", "ValidatingWebhookConfiguration admission.virtwright.dev has a CA bundle that does not verify the serving certificate")
	i.Eventually("it is not ready", func() error {
		if err := i.replica.Ready(); err == nil || !strings.Contains(err.Error(), "[-]trust failed") {
			return fmt.Errorf("readiness: %w", err)
		}
		return nil
	})
	i.CertManager("cainjector")
	i.Eventually("it is ready once the bundle is right again", i.replica.Ready)

	i.Must("", "delete", "mutatingwebhookconfiguration", "admission.virtwright.dev")
	i.tells("WebhooksMissing", "MutatingWebhookConfiguration admission.virtwright.dev is missing")
	if err := i.replica.Ready(); err != nil {
		t.Errorf("webhooks that are missing do not stop a replica from serving: %v", err)
	}

	i.MustHelm("upgrade", release, folder, "--set", "certs.issuerRef.name=gone")
	i.Must("", "get", "mutatingwebhookconfiguration", "admission.virtwright.dev")
	i.tells("CertificateNotReady", "Issuer virtwright-system/gone not found: create it, or set certs.issuerRef to another issuer")
	if err := i.replica.Ready(); err != nil {
		t.Errorf("it has a certificate still, and should be ready: %v", err)
	}
	i.Must("", "delete", "crd", "certificates.cert-manager.io")
	i.tells("CertificateNotReady", "cert-manager is not installed: install it, or set certs.mode=self-signed")
	if strings.Contains(i.replica.Log.String(), "forbidden") {
		t.Errorf("the manager lacks rights:\n%s", i.replica.Log.String())
	}
}

// served is the certificate in the Secret, and that the manager took it.
func (i *installed) served() string {
	i.Helper()
	out, _, err := i.Kubectl(i.Context(), "", "get", "secret", release+"-serving", "-n", namespace, "-o", "jsonpath={.data.tls\\.crt}")
	if err != nil {
		return "" // while there is none
	}
	return out
}

// creating creates machines, in dry runs, until the function is called, which says what failed
// first.
func (i *installed) creating() func() string {
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
func (i *installed) tells(reason, text string) {
	i.Helper()
	i.Eventually("an event says "+reason, func() error {
		out := i.Must("", "get", "events", "-n", namespace, "--field-selector=involvedObject.name="+pod+",reason="+reason, "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(out, text) {
			return fmt.Errorf("told is %q, want %q", out, text)
		}
		return nil
	})
}
