package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Targets are the objects by which API servers know how to call this process and what to trust.
// Objects that do not exist are skipped.
type Targets struct {
	Webhooks    []string // names of MutatingWebhookConfigurations and ValidatingWebhookConfigurations
	CRDs        []string // names of CustomResourceDefinitions whose objects a webhook converts
	APIServices []string // names of APIServices that this process serves
	// Hosts are the names by which API servers call this process. Parts of the objects that name
	// other hosts belong to other programs, such as KubeVirt, and are skipped.
	Hosts []string
}

var (
	mutatingKind   = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}
	validatingKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	crdKind        = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
)

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// clientConfigs returns the parts of an object that lead to one of hosts. They have one form in all
// kinds: service or url, and caBundle in base64.
func clientConfigs(object *unstructured.Unstructured, hosts []string) []map[string]any {
	conversion, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook", "clientConfig")
	parts := []any{object.Object["spec"], conversion} // an APIService has the fields in its spec
	webhooks, _ := object.Object["webhooks"].([]any)
	for _, webhook := range webhooks {
		fields, _ := webhook.(map[string]any)
		parts = append(parts, fields["clientConfig"])
	}
	var found []map[string]any
	for _, part := range parts {
		if config, ok := part.(map[string]any); ok && slices.Contains(hosts, hostOf(config)) {
			found = append(found, config)
		}
	}
	return found
}

func hostOf(config map[string]any) string {
	if service, ok := config["service"].(map[string]any); ok {
		name, _ := service["name"].(string)
		namespace, _ := service["namespace"].(string)
		return name + "." + namespace + ".svc"
	}
	address, _ := config["url"].(string)
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// setBundles writes a CA bundle into an object, and reports whether that changed it.
func setBundles(object *unstructured.Unstructured, hosts []string, bundle []byte) bool {
	encoded, changed := base64.StdEncoding.EncodeToString(bundle), false
	for _, config := range clientConfigs(object, hosts) {
		if config["caBundle"] != encoded {
			config["caBundle"] = encoded
			changed = true
		}
	}
	return changed
}

// bundlesOf returns the CA bundles in an object; nil for a bundle that is missing or damaged.
func bundlesOf(object *unstructured.Unstructured, hosts []string) [][]byte {
	var out [][]byte
	for _, config := range clientConfigs(object, hosts) {
		text, _ := config["caBundle"].(string)
		bundle, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			bundle = nil
		}
		out = append(out, bundle)
	}
	return out
}

// errUnread marks a check that could not be made.
var errUnread = errors.New("cannot read")

// A TrustChecker checks that the CA bundles in its targets verify the serving certificate.
type TrustChecker struct {
	Targets
	Client      client.Reader // reads from API servers
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// checkWebhooks returns what keeps API servers from trusting the webhooks, and which webhooks are
// missing, so that they store VMs as they are sent.
func (t *TrustChecker) checkWebhooks(ctx context.Context) (untrusted, missing error) {
	certificate, err := t.Certificate(nil)
	for _, kind := range []schema.GroupVersionKind{mutatingKind, validatingKind} {
		wrong, absent := t.check(ctx, certificate, kind, t.Webhooks)
		untrusted, missing = errors.Join(untrusted, wrong), errors.Join(missing, absent)
	}
	return cmp.Or(err, untrusted), missing
}

func (t *TrustChecker) checkOthers(ctx context.Context) error {
	certificate, err := t.Certificate(nil)
	if err != nil {
		return err
	}
	crds, _ := t.check(ctx, certificate, crdKind, t.CRDs)
	apis, _ := t.check(ctx, certificate, apiServiceKind, t.APIServices)
	return errors.Join(crds, apis)
}

// check checks objects by their names. Without a certificate, it checks only whether they exist.
func (t *TrustChecker) check(ctx context.Context, certificate *tls.Certificate, kind schema.GroupVersionKind, names []string) (untrusted, missing error) {
	for _, name := range names {
		object := newObject(kind)
		if err := t.Client.Get(ctx, types.NamespacedName{Name: name}, object); client.IgnoreNotFound(err) != nil {
			err = fmt.Errorf("%w %s %s: %w", errUnread, kind.Kind, name, err)
			untrusted, missing = errors.Join(untrusted, err), errors.Join(missing, err)
			continue
		}
		bundles := bundlesOf(object, t.Hosts)
		if len(bundles) == 0 && len(t.Hosts) > 0 { // else it is not known how they call this process
			missing = errors.Join(missing, fmt.Errorf("%s %s is missing, or does not name this service, so API servers store VMs without virtwright: install it again", kind.Kind, name))
		}
		if certificate != nil {
			untrusted = errors.Join(untrusted, wrongBundle(bundles, certificate, kind.Kind+" "+name))
		}
	}
	return untrusted, missing
}

// wrongBundle returns the problem of the first CA bundle that does not verify a certificate.
func wrongBundle(bundles [][]byte, certificate *tls.Certificate, of string) error {
	for _, bundle := range bundles {
		if len(bundle) == 0 {
			return fmt.Errorf("%s has no CA bundle, so API servers cannot call virtwright", of)
		}
		if !verifies(bundle, certificate) {
			return fmt.Errorf("%s has a CA bundle that does not verify the serving certificate, so API servers cannot call virtwright", of)
		}
	}
	return nil
}

// verifies reports whether a CA bundle verifies a certificate at any time: expiry is reported
// elsewhere.
func verifies(bundle []byte, certificate *tls.Certificate) bool {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range certificate.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(cert)
		}
	}
	// An authority that was renewed with the same key is younger than the certificates that it
	// signed, and one that has expired is older.
	leaf := certificate.Leaf
	return slices.ContainsFunc([]time.Time{leaf.NotBefore, time.Now(), leaf.NotAfter}, func(now time.Time) bool {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now})
		return err == nil
	})
}
