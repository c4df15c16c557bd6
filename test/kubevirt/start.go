package kubevirt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/kubevirt/node"
)

// install creates all that virt-api needs to start.
func (c *Cluster) install() error {
	if err := c.InstallCRDs(c.Context(), filepath.Join(c.generated, "crds.yaml")); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), kubevirtv1.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if c.Objects, err = client.New(c.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	err = errors.Join(
		c.Apply(`{apiVersion: v1, kind: Namespace, metadata: {name: `+namespace+`}}`),
		c.applyFile("rights"), c.applyFile("base"), c.Apply(configuration), c.Apply(node.Storage))
	if err != nil {
		return err
	}
	kubevirt := &kubevirtv1.KubeVirt{}
	kubevirt.Namespace, kubevirt.Name = namespace, "kubevirt"
	return c.Objects.Status().Patch(c.Context(), kubevirt, client.RawPatch(client.Merge.Type(), []byte(deployed)))
}

// startPrograms starts the nodes, virt-api and virt-controller. The function returns when both
// serve, and virt-controller leads.
func (c *Cluster) startPrograms() (wait func() error) {
	c.Helper()
	ports := map[string]int{}
	for _, name := range []string{virtAPI, virtController, virtHandler} {
		port, err := controlplane.FreePort()
		if err != nil {
			c.Fatal(err)
		}
		ports[name] = port
	}
	c.startNodes(ports[virtHandler])
	serving, servingKey := c.certificate("kubevirt-virt-api-certs")
	calling, callingKey := c.certificate("kubevirt-virt-handler-certs")
	api := []string{
		"--kubeconfig", c.Account(namespace, "kubevirt-apiserver"),
		"--listen", "0.0.0.0", "--port", strconv.Itoa(ports[virtAPI]), "--console-server-port", strconv.Itoa(ports[virtHandler]),
		"--tls-cert-file", serving, "--tls-key-file", servingKey, "--handler-cert-file", calling, "--handler-key-file", callingKey,
	}
	serving, servingKey = c.certificate("kubevirt-controller-certs")
	controller := []string{
		"--kubeconfig", c.Account(namespace, "kubevirt-controller"),
		"--listen", "127.0.0.1", "--port", strconv.Itoa(ports[virtController]),
		"--launcher-image", "quay.io/kubevirt/virt-launcher:test", "--exporter-image", "quay.io/kubevirt/virt-exportserver:test",
		"--prom-cert-file", serving, "--prom-key-file", servingKey,
	}
	var starting errgroup.Group
	starting.Go(func() error {
		return c.RunProgram(c.Context(), c.programs[virtAPI], api, answers(ports[virtAPI], "/healthz", ""))
	})
	starting.Go(func() error {
		return c.RunProgram(c.Context(), c.programs[virtController], controller, answers(ports[virtController], "/leader", `"true"`))
	})
	c.Endpoint(namespace, virtAPI, "", int32(ports[virtAPI]), true)
	return starting.Wait
}

// startNodes starts the nodes, with the port of virt-handler.
func (c *Cluster) startNodes(port int) {
	c.Helper()
	certificate, err := tls.LoadX509KeyPair(c.certificate("kubevirt-virt-handler-server-certs"))
	if err != nil {
		c.Fatal(err)
	}
	nodes, err := node.Start(context.WithoutCancel(c.Context()), c.Config(), node.Options{
		Address: c.Address, Port: port, Certificate: certificate, Log: c.logger("nodes"),
	})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := nodes.Stop(); err != nil {
			c.Error(err)
		}
	})
}

// logger writes to NAME.log of Dir.
func (c *Cluster) logger(name string) logr.Logger {
	c.Helper()
	file, err := os.Create(filepath.Join(c.Dir(), name+".log"))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = file.Close() })
	return logr.FromSlogHandler(slog.NewTextHandler(file, nil))
}

// register makes API servers call virt-api, which serves, and then creates what its webhooks check.
func (c *Cluster) register() error {
	if err := c.applyFile("webhooks"); err != nil {
		return err
	}
	c.Must("", "wait", "apiservice", "-l", "app.kubernetes.io/managed-by=virt-operator", "--for=condition=Available", "--timeout=60s")
	c.Eventually("virt-api is called", func() error { return c.applyFile("instancetypes") })
	return nil
}

// certificate is a pair of files of a secret.
func (c *Cluster) certificate(secret string) (certificate, key string) {
	return filepath.Join(c.generated, secret+"-tls.crt"), filepath.Join(c.generated, secret+"-tls.key")
}

// prober asks programs of this machine whether they are ready. Their certificates are for names of
// Services.
var prober = &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // no secrets

// answers is nil once a path of a program answers with a text.
func answers(port int, path, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", port, path), nil)
		if err != nil {
			return err
		}
		response, err := prober.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			return fmt.Errorf("%s answers %s %q (%w)", path, response.Status, body, errors.Join(err))
		}
		return nil
	}
}

// applyFile applies a file of generated objects.
func (c *Cluster) applyFile(name string) error {
	content, err := os.ReadFile(filepath.Join(c.generated, name+".yaml"))
	if err != nil {
		return err
	}
	return c.Apply(string(content))
}

// Apply applies all objects of a manifest server-side, many at a time.
func (c *Cluster) Apply(manifest string) error {
	group, ctx := errgroup.WithContext(c.Context())
	group.SetLimit(20)
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return group.Wait()
		} else if err != nil {
			return errors.Join(fmt.Errorf("cannot decode a manifest: %w", err), group.Wait())
		}
		if len(object.Object) == 0 {
			continue // an empty document
		}
		group.Go(func() error {
			err := c.Objects.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("a-test"), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("cannot apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
}
