package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtwright/virtwright/certs"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/webhooks"
)

// certificates are what is served with, whoever makes them.
type certificates interface {
	manager.Runnable
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Bundle() []byte
	Ready() error
	Collectors() []prometheus.Collector
}

// newAuthority takes certificates from where the options say, and says who looks
// after them.
func (p *process) newAuthority() certificates {
	o := p.options
	if o.certMode != certSelfSigned {
		provided := &certs.Provided{Client: p.live, Secret: o.certSecret, Names: o.calledNames()}
		if o.certMode == certManager {
			provided.Explain = (&certs.CertManager{Client: p.live, Certificate: o.certificate}).Explain
		}
		return provided
	}
	a := &certs.Authority{Store: &certs.Memory{}, Names: o.certificateNames(), Lifetimes: o.lifetimes}
	switch {
	case o.certDir != "":
		a.Store = certs.Directory(o.certDir)
	case o.certSecret.Name != "":
		a.Store = &certs.Secret{Client: p.live, Name: o.certSecret}
	}
	return a
}

// certify adds what keeps API servers trusting the certificate, and what sees
// whether they do. cert-manager injects its own authorities.
func (p *process) certify(ctx context.Context, checks map[string]healthz.Checker, addon bool) error {
	trust := &certs.Trust{Client: p.live, Names: []string{webhooks.ConfigurationName}, Hosts: p.options.calledNames(), Certificate: p.authority.GetCertificate}
	if !addon {
		trust.CRDs, trust.APIServices = []string{webhooks.ConvertedCRD}, p.options.subresources.services()
	}
	if p.options.certMode != certManager {
		injector := &certs.Injector{Client: p.manager.GetClient(), Names: trust.Names, CRDs: trust.CRDs, APIServices: trust.APIServices, Hosts: trust.Hosts, Bundle: p.authority.Bundle, Interval: p.options.lifetimes.Interval()}
		if err := injector.SetupWithManager(p.manager); err != nil {
			return err
		}
	}
	watched := func(context.Context) error { return p.authority.Ready() }
	if provided, ok := p.authority.(*certs.Provided); ok {
		watched = provided.Watched
	}
	inspector := certs.NewInspector(watched, trust)
	inspector.Tell = p.tellOfPod(logr.FromContextOrDiscard(ctx))
	for _, collector := range append(p.authority.Collectors(), inspector.Collectors()...) {
		metrics.Registry.MustRegister(collector)
	}
	checks["certificate"] = func(*http.Request) error { return p.authority.Ready() }
	checks["trust"] = func(*http.Request) error { return inspector.Ready() }
	for _, runnable := range []manager.Runnable{p.authority, inspector} {
		if err := p.manager.Add(runnable); err != nil {
			return fmt.Errorf("cannot add %T: %w", runnable, err)
		}
	}
	return nil
}

// Variables by which a pod knows itself.
const (
	podName = "POD_NAME"
	podUID  = "POD_UID"
)

// tellOfPod tells people of a problem by an event of this pod; nil outside one.
// Each is an event of its own: recorders count events of one reason as one, in
// the words of the first.
func (p *process) tellOfPod(log logr.Logger) func(reason, message string) {
	name := os.Getenv(podName)
	if name == "" {
		return nil
	}
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.options.namespace, Name: name, UID: types.UID(os.Getenv(podUID))}
	return func(reason, message string) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: name + "-"},
			EventTime:  metav1.NowMicro(), ReportingController: "virtwright-manager", ReportingInstance: name,
			Type: corev1.EventTypeWarning, Reason: reason, Action: "Serving", Regarding: pod, Note: machine.Note(message),
		}
		if err := p.live.Create(ctx, event); err != nil {
			log.Error(err, "Cannot tell of a problem by an event")
		}
	}
}
