package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/test/kind/cluster"
)

const (
	// clusterVariable names the cluster; it has the manager's image and cert-manager.
	clusterVariable = "KIND_CLUSTER"
	// enough requests for a soak on a cluster.
	enough = 20_000
)

// A deployed is an installation on a cluster with nodes.
type deployed struct {
	*testing.T

	cluster *cluster.Cluster
	tools   string
	config  *rest.Config
}

// TestKind soaks the chart, as it is by default, on a cluster of kind, and then with the manager's
// own certificates, which live for seconds.
func TestKind(t *testing.T) {
	name := os.Getenv(clusterVariable)
	if name == "" {
		t.Skip("needs a cluster of kind: make soak, or name one by " + clusterVariable)
	}
	r := &deployed{T: t}
	var err error
	if r.cluster, err = cluster.Open(name, os.Stderr); err != nil {
		t.Fatal(err)
	}
	if r.tools, err = r.cluster.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.config, err = clientcmd.BuildConfigFromFlags("", r.cluster.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	if err := r.cluster.Load(t.Context(), "../../bin/virtwright-manager.tar"); err != nil {
		t.Fatal(err)
	}
	if err := r.cluster.InstallCertManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("CertManager", func(t *testing.T) { r.on(t).defaults() })
	t.Run("SelfSigned", func(t *testing.T) { r.on(t).shortLived() })
}

func (r *deployed) on(t *testing.T) *deployed {
	t.Helper()
	return &deployed{T: t, cluster: r.cluster, tools: r.tools, config: r.config}
}

// defaults soaks the chart without a flag.
func (r *deployed) defaults() {
	r.install()
	var l *load
	r.soak(&l, []event{
		{"a pod is deleted", func() {
			r.kubectl("", "delete", "-n", installation.Namespace, strings.Fields(r.kubectl("", "get", "pods", "-n", installation.Namespace, "-l", "app.kubernetes.io/instance="+installation.Release, "-o", "name"))[0])
		}},
		{"all pods are deleted at once", func() {
			r.kubectl("", "delete", "pods", "-n", installation.Namespace, "-l", "app.kubernetes.io/instance="+installation.Release)
		}},
		{"the Deployment is restarted", func() {
			r.kubectl("", "rollout", "restart", "deployment", installation.Release, "-n", installation.Namespace)
		}},
		{"the chart is upgraded", func() {
			r.helm("upgrade", installation.Release, installation.Chart(), "--set", "apiVersions.v1alpha2=true,log.level=debug", "--wait", "--timeout=5m")
		}},
		{"cert-manager renews the certificate", func() { r.eventually(renew(r.kubectl, "virtwright-serving")) }},
		{"cert-manager renews the authority", func() { r.eventually(renew(r.kubectl, "virtwright-ca")) }},
		{"presets are written again", func() { rewrite(r.kubectl) }},
		{"the leader is deposed", func() { r.eventually(depose(r.kubectl)) }},
		{apiServer, func() {
			r.exec("pkill", "-TERM", "--exact", "kube-apiserver")
			r.eventually(func() error { return r.api("Terminating", false) })
			r.eventually(func() error { return r.api("ready", true) })
			r.eventually(func() error { return r.inCluster() })
			l.isBack()
		}},
		{killed, func() { r.exec("pkill", "-KILL", "--oldest", "--full", "^/virtwright-manager") }},
		{"nothing more happens", func() {
			for l.requests() < enough {
				time.Sleep(time.Second)
			}
		}},
	})
}

// shortLived soaks certificates of the manager's own that live for seconds.
func (r *deployed) shortLived() {
	values := []string{"--set", "certs.mode=self-signed,certs.duration=60s,certs.selfSigned.caDuration=3m,certs.selfSigned.overlap=12s"}
	r.install(values...)
	var l *load
	r.soak(&l, []event{
		{"certificates are rotated", func() { time.Sleep(4 * time.Minute) }}, // more than the life of an authority
		{"they are, and the Deployment is restarted", func() {
			r.kubectl("", "rollout", "restart", "deployment", installation.Release, "-n", installation.Namespace)
		}},
	})
}

// soak causes events in an installation, and uninstalls it.
func (r *deployed) soak(l **load, events []event) {
	r.Helper()
	*l = newLoad(r.T, r.config)
	soak(*l, func() {
		time.Sleep(2 * short)
		r.kubectl("", "rollout", "status", "deployment", installation.Release, "-n", installation.Namespace, "--timeout=3m")
		time.Sleep(2 * short)
	}, events)
	(*l).finish()
	(*l).judge(r.T)
	checkMachines(r.T, r.config, *l)
}

// install installs the chart, and removes it and the machines in the end.
func (r *deployed) install(values ...string) {
	r.Helper()
	r.helm("uninstall", installation.Release, "--ignore-not-found", "--wait") // of a run that failed
	r.kubectl("", "delete", "namespace", home, "--ignore-not-found")
	r.helm(append([]string{"install", installation.Release, installation.Chart(), "--set", "apiVersions.v1alpha2=true", "--create-namespace", "--wait", "--timeout=5m"}, values...)...)
	r.Cleanup(func() {
		r.kubectl("", "delete", "namespace", home, "--timeout=5m")
		r.kubectl("", "delete", "cvmpreset", "soak-everybody")
		r.helm("uninstall", installation.Release, "--wait")
	})
	prepare(r.kubectl)
}

// api is nil while the API server is ready, or is not.
func (r *deployed) api(what string, ready bool) error {
	_, err := r.run("kubectl", "", "get", "--raw", "/readyz")
	if (err == nil) != ready {
		return fmt.Errorf("the API server is not %s: %w", what, err)
	}
	return nil
}

// inCluster is nil when pods can reach the API server again, too.
func (r *deployed) inCluster() error {
	addresses := r.kubectl("", "get", "endpointslices", "kubernetes", "-n", "default", "-o", "jsonpath={.endpoints[*].addresses[*]}")
	if addresses == "" {
		return errors.New("the Service kubernetes has no endpoint yet")
	}
	time.Sleep(short) // until nodes know
	return nil
}

func (r *deployed) exec(program string, args ...string) {
	r.Helper()
	if out, err := r.cluster.Exec(context.WithoutCancel(r.Context()), r.cluster.Nodes()[0], program, args...); err != nil {
		r.Fatalf("%s: %v: %s", program, err, out)
	}
}

// kubectl runs what must succeed.
func (r *deployed) kubectl(stdin string, args ...string) string {
	r.Helper()
	out, err := r.run("kubectl", stdin, args...)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

func (r *deployed) helm(args ...string) {
	r.Helper()
	if _, err := r.run("helm", "", append(args, "--namespace", installation.Namespace)...); err != nil {
		r.Fatal(err)
	}
}

// run runs kubectl or helm; it is not cut short when a test ends, which is when it cleans up.
func (r *deployed) run(tool, stdin string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(r.Context()), filepath.Join(r.tools, tool), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.cluster.Kubeconfig(), "KUBERC=off")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

func (r *deployed) eventually(ask func() error) {
	r.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	r.Fatal(err)
}
