// Package cluster makes a real cluster on this machine with kind, for stories that only a cluster
// can tell, and takes it away again.
//
// Nothing is pulled: the node image, the images in it and cert-manager are built from Go modules
// and Debian packages, once, and kept in the cache. Where KIND_NODE_IMAGE names an image, that one
// is pulled and used with kind's own defaults on the docker of this machine.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/kind/cache"
)

// imageVariable names a node image to use instead of building one.
const imageVariable = "KIND_NODE_IMAGE"

// createTimeout bounds the wait for a node to be ready.
const createTimeout = 3 * time.Minute

// nodes are the names of a cluster's nodes, after the cluster's own and a dash.
var nodes = []string{"control-plane", "worker"}

// nodesConfig tells kind to make nodes.
const nodesConfig = "{kind: Cluster, apiVersion: kind.x-k8s.io/v1alpha4, nodes: [{role: control-plane}, {role: worker}]}"

// A Cluster is a cluster of two nodes that kind runs on this machine, or will.
type Cluster struct {
	name string
	dir  string
	*workshop
	engine engine
}

// Open returns the cluster of that name, which may not exist yet. It reports to progress.
func Open(name string, progress io.Writer) (*Cluster, error) {
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return nil, fmt.Errorf("cannot use %q as a name: want a plain word", name)
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return nil, err
	}
	source, err := sourceDir()
	if err != nil {
		return nil, err
	}
	shop := &workshop{source: source, cache: filepath.Join(cache, "kind"), progress: progress}
	return &Cluster{name: name, dir: filepath.Join(shop.cache, "run", name), workshop: shop, engine: engine{host: os.Getenv("DOCKER_HOST")}}, nil
}

// Kubeconfig is the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// engineFile has the address of the docker that the cluster is on.
func (c *Cluster) engineFile() string { return filepath.Join(c.dir, "docker-host") }

// readyFile exists after the cluster was ready once. A cluster without it was interrupted while it
// was created, and may lack a network.
func (c *Cluster) readyFile() string { return filepath.Join(c.dir, "ready") }

// Build builds all that Up needs and the cache does not have, and returns the name of the node
// image.
func (c *Cluster) Build(ctx context.Context) (string, error) {
	if err := c.checkMachine(ctx); err != nil {
		return "", err
	}
	if err := c.chooseEngine(ctx); err != nil {
		return "", err
	}
	if given := os.Getenv(imageVariable); given != "" {
		return given, nil
	}
	return c.nodeImage(ctx, c.engine)
}

// Up makes the cluster unless it is there, and waits until its nodes are ready.
func (c *Cluster) Up(ctx context.Context) error {
	image, err := c.Build(ctx)
	if err != nil {
		return err
	}
	there, err := c.exists(ctx)
	switch {
	case err != nil:
		return err
	case there && isThere(c.readyFile()):
		return nil
	case there:
		c.say("the creation of the cluster %s was interrupted: it is created again", c.name)
		if _, err := c.kind(ctx, "delete", "cluster", "--name", c.name, "--kubeconfig", c.Kubeconfig()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the cluster's folder: %w", err)
	}
	if err := os.WriteFile(c.engineFile(), []byte(c.engine.host), 0o600); err != nil {
		return fmt.Errorf("cannot write down where the cluster is: %w", err)
	}
	began := time.Now()
	if _, err := c.kindWith(ctx, nodesConfig, "create", "cluster", "--name", c.name, "--image", image, "--config", "-",
		"--kubeconfig", c.Kubeconfig(), "--quiet"); err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(c.readyFile(), nil, 0o600); err != nil {
		return fmt.Errorf("cannot write down that the cluster is ready: %w", err)
	}
	c.say("the cluster %s is ready after %s", c.name, since(began))
	return nil
}

// Load puts the images of archives into the nodes.
func (c *Cluster) Load(ctx context.Context, archives ...string) error {
	if err := c.mustBeThere(ctx); err != nil {
		return err
	}
	for _, archive := range archives {
		if _, err := c.kind(ctx, "load", "image-archive", archive, "--name", c.name); err != nil {
			return err
		}
	}
	return nil
}

// Host is the address under which the node reaches this machine.
func (c *Cluster) Host(ctx context.Context) (string, error) {
	if err := c.mustBeThere(ctx); err != nil {
		return "", err
	}
	addresses, err := c.engine.docker(ctx, "network", "inspect", "kind", "--format", `{{range .IPAM.Config}}{{.Gateway}}{{"\n"}}{{end}}`)
	if err != nil {
		return "", err
	}
	for address := range strings.FieldsSeq(addresses) {
		if net.ParseIP(address).To4() != nil {
			return address, nil
		}
	}
	return "", fmt.Errorf("cannot find the address of this machine in %q", addresses)
}

// Nodes are the names of the nodes. The first has the control plane.
func (c *Cluster) Nodes() []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, c.name+"-"+node)
	}
	return names
}

// Exec runs a program in a node and returns what it printed.
func (c *Cluster) Exec(ctx context.Context, node, program string, args ...string) (string, error) {
	if err := c.mustBeThere(ctx); err != nil {
		return "", err
	}
	return c.engine.docker(ctx, append([]string{"exec", node, program}, args...)...)
}

// Down deletes the cluster, and ends the docker that was started for it when nothing else runs
// there. Only the cache stays.
func (c *Cluster) Down(ctx context.Context) error {
	if err := c.findEngine(ctx); err != nil {
		return err
	}
	there, err := c.exists(ctx)
	if err != nil {
		return err
	}
	if there {
		if _, err := c.kind(ctx, "delete", "cluster", "--name", c.name, "--kubeconfig", c.Kubeconfig()); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("cannot delete the cluster's folder: %w", err)
	}
	return c.stopDaemon(ctx)
}

// Tools is a folder with kubectl and helm.
func (c *Cluster) Tools(ctx context.Context) (string, error) {
	helm, err := c.program(ctx, helm)
	if err != nil {
		return "", err
	}
	kubectl, err := c.kubectl(ctx)
	if err != nil {
		return "", err
	}
	return c.keep("tools", cache.Key(helm, kubectl), func(dir string) error {
		return errors.Join(os.Symlink(helm, filepath.Join(dir, "helm")), os.Symlink(kubectl, filepath.Join(dir, "kubectl")))
	})
}

func (c *Cluster) mustBeThere(ctx context.Context) error {
	if err := c.findEngine(ctx); err != nil {
		return err
	}
	there, err := c.exists(ctx)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("cannot use the cluster %q: there is none (kind up makes it)", c.name)
	}
	return nil
}

func (c *Cluster) exists(ctx context.Context) (bool, error) {
	if !c.engine.answers(ctx) {
		return false, nil
	}
	names, err := c.kind(ctx, "get", "clusters", "--quiet")
	if err != nil {
		return false, err
	}
	return slices.Contains(strings.Fields(names), c.name), nil
}

// kind runs kind on the cluster's engine.
func (c *Cluster) kind(ctx context.Context, args ...string) (string, error) {
	return c.kindWith(ctx, "", args...)
}

// kindWith runs kind with an input.
func (c *Cluster) kindWith(ctx context.Context, input string, args ...string) (string, error) {
	program, err := c.program(ctx, kind)
	if err != nil {
		return "", err
	}
	env := append(c.engine.env(), "KIND_EXPERIMENTAL_PROVIDER=docker")
	return command{path: program, args: args, env: env, stdin: strings.NewReader(input)}.run(ctx)
}
