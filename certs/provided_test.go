package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// issued returns the data of a provided Secret, which an Authority created.
func issued(t *testing.T, c *clock) map[string][]byte {
	t.Helper()
	store := &Memory{}
	refresh(t, authority(store, c))
	data, _, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func with(data map[string][]byte, key string, value []byte) map[string][]byte {
	out := map[string][]byte{key: value}
	for k, v := range data {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func TestParseProvided(t *testing.T) {
	c := &clock{noon}
	one, other := issued(t, c), issued(t, c)
	for name, tc := range map[string]struct {
		data  map[string][]byte
		names []string
		at    time.Time
		want  string
	}{
		"fine":          {one, names[:1], noon, ""},
		"nothing":       {nil, names[:1], noon, "tls.crt is missing"},
		"no authority":  {with(one, keyCA, nil), names[:1], noon, "ca.crt is missing"},
		"no PEM":        {with(one, keyCA, []byte("x")), names[:1], noon, "ca.crt has no certificate in PEM"},
		"other key":     {with(one, keyPrivateKey, other[keyPrivateKey]), names[:1], noon, "private key does not match"},
		"other signer":  {with(one, keyCA, other[keyCA]), names[:1], noon, "is not signed by an authority in ca.crt"},
		"other name":    {one, []string{"elsewhere.svc"}, noon, "tls.crt is valid for virtwright.virtwright-system.svc, but not for elsewhere.svc"},
		"expired":       {one, names[:1], noon.AddDate(1, 0, 0), "tls.crt expired at 2030-"},
		"not a key":     {with(one, keyPrivateKey, []byte("x")), names[:1], noon, "tls.crt and tls.key: "},
		"not valid yet": {one, names[:1], noon.AddDate(-1, 0, 0), "tls.crt is not valid before 2030-01-01T11:55:00Z; check the clocks"},
	} {
		found, err := parse(tc.data, tc.names, tc.at)
		switch {
		case tc.want == "" && (err != nil || found == nil):
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: want %q, got %v", name, tc.want, err)
		}
	}
}

func TestVerifies(t *testing.T) {
	c := &clock{noon}
	a, b := authority(&Memory{}, c), authority(&Memory{}, c)
	refresh(t, a)
	refresh(t, b)
	serving, err := a.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !verifies(a.Bundle(), serving) || !verifies(append(b.Bundle(), a.Bundle()...), serving) {
		t.Error("its own authority must verify a certificate")
	}
	if verifies(b.Bundle(), serving) || verifies(nil, serving) {
		t.Error("another authority must not")
	}
}

// Parts of objects that lead to other hosts keep their bundles.
func TestOnlyOwnBundlesAreWritten(t *testing.T) {
	hosts, url := []string{"us.system.svc", "192.0.2.1"}, "https://192.0.2.1:9443/x"
	service := func(name string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: name}}
	}
	crd := func(name string) *apiextensionsv1.CustomResourceDefinition {
		out := &apiextensionsv1.CustomResourceDefinition{}
		out.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "system", Name: name}},
		}}
		return out
	}
	api := func(name string) *unstructured.Unstructured {
		out := newObject(apiServiceKind)
		_ = unstructured.SetNestedStringMap(out.Object, map[string]string{"namespace": "system", "name": name}, "spec", "service")
		return out
	}
	cases := map[string]struct {
		object runtime.Object
		want   int
	}{
		"webhooks": {&admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{
			{ClientConfig: service("us")}, {ClientConfig: service("them")}, {ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}},
		}}, 2},
		"conversion by us":   {crd("us"), 1},
		"conversion by them": {crd("them"), 0},
		"no conversion":      {&apiextensionsv1.CustomResourceDefinition{}, 0},
		"API of ours":        {api("us"), 1},
		"API of theirs":      {api("them"), 0},
	}
	for name, tc := range cases {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(tc.object)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: fields}
		if got := len(bundlesOf(object, hosts)); got != tc.want {
			t.Errorf("%s: found %d bundles, want %d", name, got, tc.want)
		}
		if changed := setBundles(object, hosts, []byte("new")); changed != (tc.want > 0) {
			t.Errorf("%s: written %t", name, changed)
		}
		if setBundles(object, hosts, []byte("new")) {
			t.Errorf("%s: written twice", name)
		}
	}
}

// An Inspector is ready once API servers can call webhooks, reports each change once, and ignores
// checks that could not be made.
func TestInspector(t *testing.T) {
	var certificate error
	noAPI := errors.Join(errUnread, errors.New("no answer"))
	trust := &TrustChecker{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Leaf: &x509.Certificate{}}, nil
	}}
	i := &Inspector{Certificate: func(context.Context) error { return certificate }, Trust: trust}
	if i.Ready() == nil {
		t.Error("nothing was checked yet")
	}
	if changes := i.check(t.Context()); i.Ready() != nil || len(changes) != len(reasons) {
		t.Errorf("all checks should pass: %v, %v", i.Ready(), changes)
	}
	certificate = errors.New("gone")
	if changes := i.check(t.Context()); changes[reasonCertificate] != "gone" || len(changes) != 1 || i.all()[reasonCertificate] != "gone" {
		t.Errorf("want the change that the certificate is gone, got %v", changes)
	}
	if changes := i.check(t.Context()); len(changes) > 0 {
		t.Errorf("that is no change: %v", changes)
	}
	certificate = noAPI
	if changes := i.check(t.Context()); len(changes) > 0 || i.all()[reasonCertificate] != "gone" {
		t.Errorf("the check could not be made: %v", changes)
	}
	certificate = nil
	if changes := i.check(t.Context()); len(changes) != 1 || i.all()[reasonCertificate] != "" {
		t.Errorf("want the change that it is solved, got %v", changes)
	}
}
