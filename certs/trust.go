package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errUnread says that nobody knows.
var errUnread = errors.New("cannot read")

// Trust asks whether API servers trust what is served: whether each bundle that
// they were given is of an authority that signed the serving certificate.
type Trust struct {
	// Client reads from API servers.
	Client client.Reader
	// Names of MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
	Names []string
	// CRDs are names of CustomResourceDefinitions of which a webhook converts the objects.
	CRDs []string
	// APIServices are names of APIServices that this process serves.
	APIServices []string
	// Hosts are the names by which API servers call this process: what leads
	// elsewhere is not looked at.
	Hosts []string
	// Certificate returns what is served.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Webhooks is nil where API servers trust the webhooks. What does not exist is
// left to who installs it.
func (t *Trust) Webhooks(ctx context.Context) error {
	if _, err := t.Certificate(nil); err != nil {
		return err
	}
	var problems []error
	for _, name := range t.Names {
		problems = append(problems,
			t.check(ctx, "MutatingWebhookConfiguration", name, &admissionregistrationv1.MutatingWebhookConfiguration{}),
			t.check(ctx, "ValidatingWebhookConfiguration", name, &admissionregistrationv1.ValidatingWebhookConfiguration{}))
	}
	return errors.Join(problems...)
}

// Others is nil where API servers trust conversion and the aggregated API, too.
func (t *Trust) Others(ctx context.Context) error {
	if _, err := t.Certificate(nil); err != nil {
		return err
	}
	var problems []error
	for _, name := range t.CRDs {
		problems = append(problems, t.check(ctx, "CustomResourceDefinition", name, &apiextensionsv1.CustomResourceDefinition{}))
	}
	for _, name := range t.APIServices {
		problems = append(problems, t.check(ctx, "APIService", name, APIService()))
	}
	return errors.Join(problems...)
}

func (t *Trust) check(ctx context.Context, kind, name string, into client.Object) error {
	if err := t.Client.Get(ctx, types.NamespacedName{Name: name}, into); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("%w %s %s: %w", errUnread, kind, name, err)
	}
	serving, err := t.Certificate(nil)
	if err != nil {
		return err
	}
	for _, bundle := range bundlesOf(into, t.Hosts) {
		if len(bundle) == 0 {
			return fmt.Errorf("%s %s has no CA bundle, so API servers cannot call", kind, name)
		}
		if !signs(bundle, serving) {
			return fmt.Errorf("%s %s has the CA bundle of another authority than the one whose certificate is served, so API servers cannot call", kind, name)
		}
	}
	return nil
}

// bundlesOf are the bundles in an object for what leads to hosts, decoded.
func bundlesOf(of client.Object, hosts []string) [][]byte {
	if service, ok := of.(*unstructured.Unstructured); ok {
		if !slices.Contains(hosts, aggregated(service)) {
			return nil
		}
		text, _, _ := unstructured.NestedString(service.Object, "spec", "caBundle")
		bundle, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return [][]byte{nil}
		}
		return [][]byte{bundle}
	}
	var out [][]byte
	for _, bundle := range bundles(of, hosts) {
		out = append(out, *bundle)
	}
	return out
}

// signs reports whether a bundle is reason to trust a certificate, at any time:
// that it has expired is said elsewhere.
func signs(bundle []byte, serving *tls.Certificate) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range serving.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	// An authority that was renewed with its key is younger than what it signed,
	// and one that has expired is older.
	return slices.ContainsFunc([]time.Time{serving.Leaf.NotBefore, time.Now(), serving.Leaf.NotAfter}, func(at time.Time) bool {
		_, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at})
		return err == nil
	})
}
