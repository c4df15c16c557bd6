package certs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons of problems, in events and metrics.
const (
	reasonCertificate = "CertificateNotReady"       // there is no certificate, or that it is not renewed
	reasonWebhooks    = "WebhooksNotTrusted"        // API servers do not trust the webhooks
	reasonMissing     = "WebhooksMissing"           // API servers know of no webhooks
	reasonOthers      = "ConversionOrAPINotTrusted" // API servers do not trust conversion or the aggregated API
)

var reasons = []string{reasonCertificate, reasonWebhooks, reasonMissing, reasonOthers}

// settlingTime is how long after a start missing certificates and trust are no problem yet.
const settlingTime = 10 * time.Second

// An Inspector checks repeatedly whether API servers can call this process, and reports changes.
// Run Start beside the server.
type Inspector struct {
	// Certificate returns the problem of the certificate or of its renewal; nil if there is none.
	Certificate func(context.Context) error
	Trust       *TrustChecker // checks what API servers trust
	// Report reports a problem to users. It may be nil.
	Report func(reason, message string)

	mu       sync.Mutex
	problems map[string]string // holds a message for each reason that was checked; "" if there is no problem
}

// Start checks until the context ends. The first checks are only logged, until all pass or
// settlingTime is over.
func (i *Inspector) Start(ctx context.Context) error {
	settled, starting := time.Now().Add(settlingTime), true
	poll(ctx, func(ctx context.Context) time.Duration {
		changes, all := i.check(ctx), i.all()
		passes := !slices.ContainsFunc(reasons, func(reason string) bool { return all[reason] != "" })
		if starting && (passes || time.Now().After(settled)) {
			starting, changes = false, all
		}
		for reason, message := range changes {
			i.report(ctx, reason, message, starting)
		}
		if i.Ready() != nil {
			return time.Second
		}
		return 10 * time.Second
	})
	return nil
}

func (i *Inspector) report(ctx context.Context, reason, message string, starting bool) {
	switch {
	case message == "":
		logger(ctx).Info("Certificate check passes", "check", reason)
	case starting:
		logger(ctx).Info("Waiting for a certificate check to pass", "check", reason, "problem", message)
	default:
		logger(ctx).Error(errors.New(message), "Certificate check fails", "check", reason)
		if i.Report != nil {
			i.Report(reason, message)
		}
	}
}

func (i *Inspector) all() map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.problems)
}

// check checks once and returns the changes, "" for a solved problem. A check that could not be
// made changes nothing.
func (i *Inspector) check(ctx context.Context) map[string]string {
	untrusted, missing := i.Trust.checkWebhooks(ctx)
	found := map[string]error{
		reasonCertificate: i.Certificate(ctx),
		reasonWebhooks:    untrusted,
		reasonMissing:     missing,
		reasonOthers:      i.Trust.checkOthers(ctx),
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.problems == nil {
		i.problems = map[string]string{}
	}
	changes := map[string]string{}
	for reason, err := range found {
		if ctx.Err() != nil || errors.Is(err, errUnread) {
			continue
		}
		message := ""
		if err != nil {
			message = err.Error()
		}
		if before, checked := i.problems[reason]; !checked || message != before {
			i.problems[reason], changes[reason] = message, message
		}
	}
	return changes
}

// Ready returns nil if API servers can call the webhooks. Conversion and the aggregated API do not
// count: without them, webhooks still serve. Missing webhooks do not count either, so that they may
// be installed after the pods are ready.
func (i *Inspector) Ready() error {
	switch message, checked := i.all()[reasonWebhooks]; {
	case !checked:
		return errors.New("not yet checked whether API servers trust the certificate")
	case message != "":
		return errors.New(message)
	}
	return nil
}

// Collectors returns one metric for each reason.
func (i *Inspector) Collectors() []prometheus.Collector {
	var out []prometheus.Collector
	for _, reason := range reasons {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "virtwright_certificate_problem",
			Help:        "1 while there is a problem with the serving certificate, or while API servers do not trust it or have no webhooks. Events of the pod and /readyz have details.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 {
			if i.all()[reason] == "" {
				return 0
			}
			return 1
		}))
	}
	return out
}
