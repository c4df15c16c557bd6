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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// issued is what somebody provides: what an Authority of ours would make.
func issued(t *testing.T, c *clock) map[string][]byte {
	t.Helper()
	store := &Memory{}
	ensure(t, authority(store, c))
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
		"no authority":  {with(one, KeyCA, nil), names[:1], noon, "ca.crt is missing"},
		"no PEM":        {with(one, KeyCA, []byte("x")), names[:1], noon, "ca.crt has no certificate in PEM"},
		"other key":     {with(one, KeyPrivateKey, other[KeyPrivateKey]), names[:1], noon, "private key does not match"},
		"other signer":  {with(one, KeyCA, other[KeyCA]), names[:1], noon, "does not come from the certificate authority in ca.crt"},
		"other name":    {one, []string{"elsewhere.svc"}, noon, "tls.crt is for virtwright.virtwright-system.svc, and must be for elsewhere.svc, too"},
		"expired":       {one, names[:1], noon.AddDate(1, 0, 0), "tls.crt expired at 2030-"},
		"not a key":     {with(one, KeyPrivateKey, []byte("x")), names[:1], noon, "tls.crt and tls.key: "},
		"not valid yet": {one, names[:1], noon.AddDate(-1, 0, 0), "not yet valid"},
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

func TestSigns(t *testing.T) {
	c := &clock{noon}
	a, b := authority(&Memory{}, c), authority(&Memory{}, c)
	ensure(t, a)
	ensure(t, b)
	serving, err := a.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !signs(a.Bundle(), serving) || !signs(append(b.Bundle(), a.Bundle()...), serving) {
		t.Error("its own authority should be reason to trust it")
	}
	if signs(b.Bundle(), serving) || signs(nil, serving) {
		t.Error("another authority should be none")
	}
}

// Only what leads to this process is its own: who else converts, or serves, has
// an authority of its own.
func TestBundlesAreOurs(t *testing.T) {
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
		out := APIService()
		_ = unstructured.SetNestedStringMap(out.Object, map[string]string{"namespace": "system", "name": name}, "spec", "service")
		return out
	}
	cases := map[string]struct {
		of   client.Object
		want int
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
		if got := len(bundlesOf(tc.of, hosts)); got != tc.want {
			t.Errorf("%s: found %d bundles, want %d", name, got, tc.want)
		}
		if changed := trust(tc.of, hosts, []byte("new")); changed != (tc.want > 0) {
			t.Errorf("%s: written %t", name, changed)
		}
		if trust(tc.of, hosts, []byte("new")) {
			t.Errorf("%s: written twice", name)
		}
	}
}

// An inspector is ready once API servers can call webhooks, says what is new
// once, and takes what it could not read for what it was.
func TestInspector(t *testing.T) {
	var certificate error
	noAPI := errors.Join(errUnread, errors.New("no answer"))
	trust := &Trust{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Leaf: &x509.Certificate{}}, nil
	}}
	i := NewInspector(func(context.Context) error { return certificate }, trust)
	if i.Ready() == nil {
		t.Error("nobody has looked")
	}
	if news := i.look(t.Context()); i.Ready() != nil || len(news) != len(reasons) {
		t.Errorf("all is well: %v, %v", i.Ready(), news)
	}
	certificate = errors.New("gone")
	if news := i.look(t.Context()); news[ReasonCertificate] != "gone" || len(news) != 1 || i.Problem(ReasonCertificate) != "gone" {
		t.Errorf("want the news that the certificate is gone, got %v", news)
	}
	if news := i.look(t.Context()); len(news) > 0 {
		t.Errorf("that is no news: %v", news)
	}
	certificate = noAPI
	if news := i.look(t.Context()); len(news) > 0 || i.Problem(ReasonCertificate) != "gone" {
		t.Errorf("nobody knows: %v", news)
	}
	certificate = nil
	if news := i.look(t.Context()); len(news) != 1 || i.Problem(ReasonCertificate) != "" {
		t.Errorf("want the news that it is well, got %v", news)
	}
}
