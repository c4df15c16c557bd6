package certs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collectors are the metrics of an Authority.
func (a *Authority) Collectors() []prometheus.Collector {
	gauge := func(kind string, at func(*published) time.Time) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "virtwright_certificate_expiry_timestamp_seconds",
			Help:        "When a certificate of the webhook server expires, in seconds since 1970: its serving certificate, and the certificate authority that lasts longest. 0: there is none. Certificates are renewed when a third of their life is left.",
			ConstLabels: prometheus.Labels{"certificate": kind},
		}, func() float64 {
			current := a.current.Load()
			if current == nil {
				return 0
			}
			return float64(at(current).Unix())
		})
	}
	return []prometheus.Collector{
		gauge("serving", func(p *published) time.Time { return p.serving.cert.NotAfter }),
		gauge("ca", func(p *published) time.Time { return p.issuers[0].cert.NotAfter }),
	}
}
