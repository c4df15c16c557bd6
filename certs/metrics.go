package certs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of certificates that expire.
const (
	servingCertificate = "serving"
	authorityOfIt      = "ca"
)

// Collectors are the metrics of an Authority.
func (a *Authority) Collectors() []prometheus.Collector {
	return expiries(func(kind string) time.Time {
		current := a.current.Load()
		switch {
		case current == nil:
			return time.Time{}
		case kind == servingCertificate:
			return current.serving.cert.NotAfter
		default:
			return current.issuers[0].cert.NotAfter
		}
	})
}

// expiries tell when certificates expire; the zero time is for none.
func expiries(at func(kind string) time.Time) []prometheus.Collector {
	var out []prometheus.Collector
	for _, kind := range []string{servingCertificate, authorityOfIt} {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "virtwright_certificate_expiry_timestamp_seconds",
			Help:        "When a certificate of the webhook server expires, in seconds since 1970: its serving certificate, and the certificate authority that lasts longest. 0: there is none. Certificates are renewed when a third of their life is left.",
			ConstLabels: prometheus.Labels{"certificate": kind},
		}, func() float64 {
			expires := at(kind)
			if expires.IsZero() {
				return 0
			}
			return float64(expires.Unix())
		}))
	}
	return out
}
