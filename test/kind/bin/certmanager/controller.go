package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const (
	// healthAddress is where the chart's liveness probe looks.
	healthAddress = ":9403"
	// workers of each controller.
	workers = 2
)

// control runs the controllers that the imports have registered.
func control(ctx context.Context, o options) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         os.Getenv("KUBECONFIG"), // empty in a pod
		KubernetesAPIQPS:   50,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: o.clusterNamespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return fmt.Errorf("cannot set up the controllers: %w", err)
	}
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("cannot set up what the controllers share: %w", err)
	}
	ended := make(chan error)
	running := 0
	start := func(run func() error) {
		running++
		go func() { ended <- run() }()
	}
	for name, construct := range controller.Known() {
		built, err := construct(factory)
		if err != nil {
			return fmt.Errorf("cannot set up the controller %s: %w", name, err)
		}
		start(func() error { return built.Run(workers, ctx) })
	}
	start(func() error { return serveHealth(ctx) })
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	var ends error
	for ; running > 0; running-- {
		ends = errors.Join(ends, <-ended)
	}
	return ends
}

// serveHealth answers the liveness probe until the context ends.
func serveHealth(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	server := &http.Server{Addr: healthAddress, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve health: %w", err)
	}
	return nil
}
