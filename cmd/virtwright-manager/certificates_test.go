package main

import (
	"bytes"
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/webhooks"
)

// Replicas whose Secret is deleted agree on a new one, without overwriting each other's bundles
// until all of them have read it.
func (l *life) lostCertificates(t *testing.T) {
	name := types.NamespacedName{Namespace: "default", Name: "virtwright-lost"}
	args := []string{"--cert-secret=" + name.String(), "--leader-elect", "--cert-overlap=80s"} // read every 10 s
	first := startReplica(t, l.cluster, args...)
	first.serves(t)
	time.Sleep(5 * time.Second) // so that they read at different times
	second := startReplica(t, l.cluster, args...)
	second.serves(t)
	secret := &corev1.Secret{}
	if err := l.cluster.Get(t.Context(), name, secret); err != nil {
		t.Fatal(err)
	}
	lost := secret.Data["ca.crt"]
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConfigurationName}}
	trusted := func() error {
		err := errors.Join(l.cluster.Get(t.Context(), client.ObjectKeyFromObject(mutating), mutating), l.cluster.Get(t.Context(), name, secret))
		if err == nil && !bytes.Equal(mutating.Webhooks[0].ClientConfig.CABundle, secret.Data["ca.crt"]) {
			err = errors.New("another bundle")
		}
		return err
	}
	eventually(t, "the bundle is in the configuration", trusted)
	if err := l.cluster.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a replica has made the Secret again", func() error { return l.cluster.Get(t.Context(), name, secret) })
	before := mutating.Generation
	l.bundleComesBack(t) // both replicas write it now, although one has not read the Secret
	eventually(t, "the new bundle is in the configuration", trusted)
	if bytes.Equal(secret.Data["ca.crt"], lost) || !bytes.Contains(secret.Data["ca.crt"], lost) {
		t.Errorf("want the lost authority beside a new one, got\n%s", secret.Data["ca.crt"])
	}
	time.Sleep(10 * time.Second) // until both have read the Secret
	if err := trusted(); err != nil {
		t.Error(err)
	}
	if writes := mutating.Generation - before; writes > 3 {
		t.Errorf("the replicas overwrite each other: %d writes", writes)
	}
}
