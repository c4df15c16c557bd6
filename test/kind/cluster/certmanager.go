package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtwright/virtwright/test/kind/image"
)

const (
	certManagerModule = "github.com/cert-manager/cert-manager"
	// certManagerImages is what the names of cert-manager's images begin with.
	certManagerImages = "quay.io/jetstack/cert-manager-"
	// unprivileged is the user of programs that need no permissions.
	unprivileged = "65532:65532"
)

// InstallCertManager installs cert-manager by its own chart. Its programs are built here, except
// where nodes can pull images.
func (c *Cluster) InstallCertManager(ctx context.Context) error {
	if err := c.mustBeThere(ctx); err != nil {
		return err
	}
	version, err := c.requires(certManager, certManagerModule)
	if err != nil {
		return err
	}
	if os.Getenv(imageVariable) == "" {
		if err := c.loadCertManager(ctx, version); err != nil {
			return err
		}
	}
	began := time.Now()
	chart, err := c.certManagerChart(ctx, version)
	if err != nil {
		return err
	}
	// The check after startup is a program of its own, which is not built here.
	if err := c.Helm(ctx, "upgrade", "--install", "cert-manager", chart, "--namespace", "cert-manager", "--create-namespace",
		"--set", "crds.enabled=true,startupapicheck.enabled=false", "--wait", "--timeout", "3m"); err != nil {
		return err
	}
	c.say("cert-manager %s is ready after %s", version, since(began))
	return nil
}

// loadCertManager builds cert-manager's images and puts them into the node.
func (c *Cluster) loadCertManager(ctx context.Context, version string) error {
	var images []image.Image
	for _, part := range []struct {
		name    string
		program program
	}{{"controller", certManager}, {"cainjector", certManager}, {"webhook", certManagerWebhook}} {
		path, err := c.program(ctx, part.program)
		if err != nil {
			return err
		}
		config := image.Config{User: unprivileged, Entrypoint: []string{"/" + filepath.Base(path)}}
		if part.program == certManager {
			config.Entrypoint = append(config.Entrypoint, part.name)
		}
		images = append(images, single(certManagerImages+part.name+":"+version, path, config))
	}
	return c.loadImages(ctx, images...)
}

// loadImages puts images into the node by way of an archive.
func (c *Cluster) loadImages(ctx context.Context, images ...image.Image) error {
	archive, err := os.CreateTemp("", "virtwright-kind-*.tar")
	if err != nil {
		return fmt.Errorf("cannot make an archive: %w", err)
	}
	defer func() { _ = os.Remove(archive.Name()) }()
	defer archive.Close()
	if _, err := image.Write(archive, images...); err != nil {
		return err
	}
	return c.Load(ctx, archive.Name())
}

// certManagerChart packs the chart that comes with cert-manager's module, which lacks its version.
func (c *Cluster) certManagerChart(ctx context.Context, version string) (string, error) {
	source := filepath.Join(c.source, certManager.module)
	download := command{path: "go", args: []string{"mod", "download", certManagerModule}, dir: source, env: []string{"GOWORK=off"}}
	if _, err := download.run(ctx); err != nil {
		return "", err
	}
	locate := command{path: "go", args: []string{"list", "-m", "-f", "{{.Dir}}", certManagerModule}, dir: source, env: []string{"GOWORK=off"}}
	module, err := locate.run(ctx)
	if err != nil {
		return "", err
	}
	chart := filepath.Join(strings.TrimSpace(module), "deploy", "charts", "cert-manager")
	dir, err := c.keep("charts", "cert-manager-"+version, func(dir string) error {
		return c.Helm(ctx, "package", chart, "--version", version, "--app-version", version, "--destination", dir)
	})
	return filepath.Join(dir, "cert-manager-"+version+".tgz"), err
}

// Helm runs helm on the cluster.
func (c *Cluster) Helm(ctx context.Context, args ...string) error {
	program, err := c.program(ctx, helm)
	if err != nil {
		return err
	}
	_, err = command{path: program, args: args, env: []string{"KUBECONFIG=" + c.Kubeconfig()}}.run(ctx)
	return err
}
