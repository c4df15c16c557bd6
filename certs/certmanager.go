package certs

import (
	"context"
	"fmt"
	"strings"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CertManager says what cert-manager makes of a Certificate, and what to do.
type CertManager struct {
	// Client reads from API servers; its scheme knows cert-manager's kinds.
	Client client.Reader
	// Certificate is the one whose Secret is served with.
	Certificate types.NamespacedName
}

// AddCertManager adds the kinds that CertManager reads to a scheme.
var AddCertManager = certmanagerv1.AddToScheme

// Explain says why a Certificate is not ready; "" where it is.
func (c *CertManager) Explain(ctx context.Context) string {
	var certificate certmanagerv1.Certificate
	err := c.Client.Get(ctx, c.Certificate, &certificate)
	switch {
	case unserved(err):
		return "cert-manager is not installed: install it, or set certs.mode=self-signed"
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("Certificate %s is gone, so nobody renews what it asked for: install the chart again", c.Certificate)
	case err != nil:
		return fmt.Sprintf("cannot read Certificate %s: %v", c.Certificate, err)
	}
	var said []string
	for _, condition := range certificate.Status.Conditions {
		ready := condition.Type == certmanagerv1.CertificateConditionReady
		if ready && condition.Status == cmmeta.ConditionTrue && condition.ObservedGeneration >= certificate.Generation {
			return ""
		}
		if ready {
			said = append(said, fmt.Sprintf("Certificate %s is not ready: %s", c.Certificate, strings.TrimSuffix(condition.Message, ".")))
		}
	}
	if len(said) == 0 {
		said = append(said, fmt.Sprintf("cert-manager has not looked at Certificate %s yet: is its controller running?", c.Certificate))
	}
	if why := c.issuer(ctx, &certificate); why != "" {
		said = append(said, why)
	}
	return strings.Join(said, "; ")
}

// unserved reports whether the kind itself is not there: before it ever was, or
// when it was and is no more.
func unserved(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// issuer says what is wrong with the issuer of a Certificate.
func (c *CertManager) issuer(ctx context.Context, of *certmanagerv1.Certificate) string {
	ref := of.Spec.IssuerRef
	var issuer certmanagerv1.GenericIssuer = &certmanagerv1.Issuer{}
	key, kind := types.NamespacedName{Namespace: of.Namespace, Name: ref.Name}, certmanagerv1.IssuerKind
	switch {
	case ref.Group != "" && ref.Group != certmanagerv1.SchemeGroupVersion.Group:
		return "" // somebody else's, of whom nothing is known
	case ref.Kind == certmanagerv1.ClusterIssuerKind:
		issuer, key.Namespace, kind = &certmanagerv1.ClusterIssuer{}, "", ref.Kind
	}
	name := strings.TrimPrefix(key.String(), "/")
	if err := c.Client.Get(ctx, key, issuer); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("there is no %s %s: create it, or name another in certs.issuerRef", kind, name)
		}
		return fmt.Sprintf("cannot read %s %s: %v", kind, name, err)
	}
	for _, condition := range issuer.GetStatus().Conditions {
		if condition.Type == certmanagerv1.IssuerConditionReady && condition.Status != cmmeta.ConditionTrue {
			return fmt.Sprintf("%s %s is not ready: %s", kind, name, condition.Message)
		}
	}
	return ""
}
