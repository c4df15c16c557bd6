package main

import (
	"context"
	"fmt"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenSeconds is how long the token lives that a guest gets of a service
// account: it is not renewed while the guest runs.
const tokenSeconds = 24 * 60 * 60

// A content reads what volumes are made of. Nothing of it is cached.
type content struct {
	reader client.Reader
	client client.Client
}

// read is the files of a configMap, a secret or a service account.
func (c *content) read(ctx context.Context, kind, namespace, name string) (map[string][]byte, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if err := c.optedIn(ctx, namespace); err != nil {
		return nil, err
	}
	switch kind {
	case "configMap":
		var found corev1.ConfigMap
		if err := c.reader.Get(ctx, key, &found); err != nil {
			return nil, fmt.Errorf("cannot read ConfigMap %s: %w", key, err)
		}
		out := map[string][]byte{}
		for name, text := range found.Data {
			out[name] = []byte(text)
		}
		maps.Copy(out, found.BinaryData)
		return out, nil
	case "secret":
		var found corev1.Secret
		if err := c.reader.Get(ctx, key, &found); err != nil {
			return nil, fmt.Errorf("cannot read Secret %s: %w", key, err)
		}
		return found.Data, nil
	case "serviceAccount":
		return c.token(ctx, key)
	}
	return nil, fmt.Errorf("cannot read a %s", kind)
}

// LabelSecrets is on namespaces whose secrets, configMaps and service accounts
// agents may give to guests.
const LabelSecrets = "virtwright.dev/node-secrets"

// optedIn refuses a namespace that lacks the label, whatever roles say.
func (c *content) optedIn(ctx context.Context, namespace string) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.client.Get(ctx, types.NamespacedName{Name: namespace}, found); err != nil {
		return fmt.Errorf("cannot read Namespace %s: %w", namespace, err)
	}
	if found.Labels[LabelSecrets] != "true" {
		return apierrors.NewForbidden(corev1.Resource("namespaces"), namespace, fmt.Errorf("it has not opted in by the label %s=true", LabelSecrets))
	}
	return nil
}

// token is what a pod of a service account finds about it.
func (c *content) token(ctx context.Context, key types.NamespacedName) (map[string][]byte, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("cannot get a token of ServiceAccount %s: %w", key, err)
	}
	out := map[string][]byte{"token": []byte(request.Status.Token), "namespace": []byte(key.Namespace)}
	var roots corev1.ConfigMap
	if err := c.reader.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: "kube-root-ca.crt"}, &roots); err == nil {
		out["ca.crt"] = []byte(roots.Data["ca.crt"])
	}
	return out, nil
}
