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

// CertManager explains why cert-manager does not issue a Certificate, and what to do.
type CertManager struct {
	Client      client.Reader        // reads from API servers; its scheme has cert-manager's kinds
	Certificate types.NamespacedName // writes the Secret with the serving certificate
}

// AddCertManager adds the kinds that CertManager reads to a scheme.
var AddCertManager = certmanagerv1.AddToScheme

// Explain returns why the Certificate is not ready; "" if it is.
func (c *CertManager) Explain(ctx context.Context) string {
	var certificate certmanagerv1.Certificate
	err := c.Client.Get(ctx, c.Certificate, &certificate)
	switch {
	case isUnserved(err):
		return "cert-manager is not installed: install it, or set certs.mode=self-signed"
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("Certificate %s not found, so the serving certificate is not renewed: install the chart again", c.Certificate)
	case err != nil:
		return fmt.Sprintf("cannot read Certificate %s: %v", c.Certificate, err)
	}
	problem := fmt.Sprintf("cert-manager has not processed Certificate %s yet: check that its controller runs", c.Certificate)
	for _, condition := range certificate.Status.Conditions {
		if condition.Type != certmanagerv1.CertificateConditionReady {
			continue
		}
		if condition.Status == cmmeta.ConditionTrue && condition.ObservedGeneration >= certificate.Generation {
			return ""
		}
		problem = fmt.Sprintf("Certificate %s is not ready: %s", c.Certificate, strings.TrimSuffix(condition.Message, "."))
	}
	if reason := c.explainIssuer(ctx, &certificate); reason != "" {
		problem += "; " + reason
	}
	return problem
}

// isUnserved reports whether an error means that API servers do not serve the kind, whether it was
// never installed or has been removed.
func isUnserved(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// explainIssuer returns why the issuer of a Certificate is not ready; "" if it is or if it is not
// one of cert-manager's own.
func (c *CertManager) explainIssuer(ctx context.Context, certificate *certmanagerv1.Certificate) string {
	ref := certificate.Spec.IssuerRef
	var issuer certmanagerv1.GenericIssuer = &certmanagerv1.Issuer{}
	key, kind := types.NamespacedName{Namespace: certificate.Namespace, Name: ref.Name}, certmanagerv1.IssuerKind
	switch {
	case ref.Group != "" && ref.Group != certmanagerv1.SchemeGroupVersion.Group:
		return ""
	case ref.Kind == certmanagerv1.ClusterIssuerKind:
		issuer, key.Namespace, kind = &certmanagerv1.ClusterIssuer{}, "", ref.Kind
	}
	name := strings.TrimPrefix(key.String(), "/")
	if err := c.Client.Get(ctx, key, issuer); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s %s not found: create it, or set certs.issuerRef to another issuer", kind, name)
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
