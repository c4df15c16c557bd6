package certs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// Reasons of what an Inspector finds, which are those of events.
const (
	// ReasonCertificate says that there is no certificate, or none that can follow.
	ReasonCertificate = "CertificateNotReady"
	// ReasonWebhooks says that API servers do not trust the webhooks.
	ReasonWebhooks = "WebhooksNotTrusted"
	// ReasonOthers says that API servers do not trust conversion or the aggregated API.
	ReasonOthers = "ConversionOrAPINotTrusted"
)

// reasons in the order of what to look at first.
var reasons = []string{ReasonCertificate, ReasonWebhooks, ReasonOthers}

// An Inspector looks again and again whether API servers can call what is
// served, and tells when that changes. Run Start beside the server.
type Inspector struct {
	// Certificate says what is wrong with the certificate, or with who renews it;
	// nil where nothing is.
	Certificate func(context.Context) error
	// Trust asks what API servers trust.
	Trust *Trust
	// Tell tells people of a problem. It may be nil.
	Tell func(reason, message string)
	// Interval between two looks while all is well; ten seconds by default.
	Interval time.Duration

	mu    sync.Mutex
	found map[string]string // message by reason, "" for none; none before the first look
}

// NewInspector returns an inspector that has not looked yet.
func NewInspector(certificate func(context.Context) error, trust *Trust) *Inspector {
	return &Inspector{Certificate: certificate, Trust: trust, found: map[string]string{}}
}

// NeedLeaderElection says that every replica looks after itself.
func (*Inspector) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (i *Inspector) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithName("certs")
	settled := time.Now().Add(settling)
	for waits := true; ; {
		wait := i.Interval
		if wait == 0 {
			wait = 10 * time.Second
		}
		news := i.look(ctx)
		if waits && (i.isWell() || time.Now().After(settled)) {
			waits, news = false, i.all()
		}
		for reason, message := range news {
			i.report(log, reason, message, waits)
		}
		if i.Ready() != nil {
			wait = min(wait, time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// settling is how long certificates and trust may be missing after a start before that is a problem.
const settling = 10 * time.Second

// report tells people of what is new. What a start still waits for is no problem.
func (i *Inspector) report(log logr.Logger, reason, message string, waits bool) {
	switch {
	case message == "":
		log.Info("API servers can call", "looked-for", reason)
	case waits:
		log.Info("Waiting until API servers can call", "looked-for", reason, "problem", message)
	default:
		log.Error(errors.New(message), "API servers cannot call, or soon cannot", "reason", reason)
		if i.Tell != nil {
			i.Tell(reason, message)
		}
	}
}

// isWell reports whether the last look found no problem.
func (i *Inspector) isWell() bool {
	for _, message := range i.all() {
		if message != "" {
			return false
		}
	}
	return true
}

// all is what was found, by reason.
func (i *Inspector) all() map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.found)
}

// look looks once and returns what is new, "" where a problem is no more.
func (i *Inspector) look(ctx context.Context) map[string]string {
	found := map[string]error{
		ReasonCertificate: i.Certificate(ctx),
		ReasonWebhooks:    i.Trust.Webhooks(ctx),
		ReasonOthers:      i.Trust.Others(ctx),
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	news := map[string]string{}
	for reason, err := range found {
		before, known := i.found[reason]
		switch message := text(err); {
		case ctx.Err() != nil || errors.Is(err, errUnread): // which is no news of what it is
		case !known || message != before:
			i.found[reason] = message
			news[reason] = message
		}
	}
	return news
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Ready is nil when API servers can call the webhooks. That they cannot call
// something else takes no webhook away.
func (i *Inspector) Ready() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch message, known := i.found[ReasonWebhooks]; {
	case !known:
		return errors.New("nobody has looked yet whether API servers trust the certificate")
	case message != "":
		return errors.New(message)
	}
	return nil
}

// Problem is what was found for a reason; "" for nothing.
func (i *Inspector) Problem(reason string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.found[reason]
}

// Collectors are the metrics of what was found.
func (i *Inspector) Collectors() []prometheus.Collector {
	out := make([]prometheus.Collector, 0, len(reasons))
	for _, reason := range reasons {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "virtwright_certificate_problem",
			Help:        "1 while there is a problem with the serving certificate, or with who trusts it; the events of the pod and /readyz say what.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 {
			if i.Problem(reason) == "" {
				return 0
			}
			return 1
		}))
	}
	return out
}

// Watched is for Inspector.Certificate: what the last look has found wrong with a
// certificate that is provided, or what is wrong with who renews it, who may be nil.
func (p *Provided) Watched(ctx context.Context) error {
	if said := p.Problem(); said != "" {
		return errors.New(said)
	}
	if err := p.Ready(); err != nil || p.Explain == nil {
		return err
	}
	if why := p.Explain(ctx); why != "" {
		return errors.New(why)
	}
	return nil
}
