package soak

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/installation"
)

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

// short is how long an event lasts at least, so that there are requests after it.
const short = 3 * time.Second

// A ground is an installation with replicas that change.
type ground struct {
	*installation.Installation

	replicas []*installation.Replica
	ever     []*installation.Replica // also those that went
}

// TestControlPlane soaks the manager on a control plane without nodes: two replicas, short-lived
// certificates, and what a Deployment would do.
func TestControlPlane(t *testing.T) {
	g := &ground{Installation: installation.New(t)}
	values := []string{"--set", "apiVersions.v1alpha2=true,certs.mode=self-signed,certs.duration=40s,certs.selfSigned.caDuration=2m,certs.selfSigned.overlap=8s,shutdownDelay=3s"}
	g.MustHelm("install", append([]string{installation.Release, installation.Chart()}, values...)...)
	g.ready()
	rotations := g.rotations()

	l := newLoad(t, g.Config())
	soak(l, func() {
		time.Sleep(short)
		g.allServe()
	}, []event{
		{"a pod is deleted", func() { g.replace(0) }},
		{"all pods are deleted at once", g.replaceAll},
		{"the Deployment is restarted", g.rollout},
		{"the chart is upgraded", func() {
			g.MustHelm("upgrade", append([]string{installation.Release, installation.Chart(), "--set", "log.level=debug"}, values...)...)
			g.rollout()
		}},
		{"presets are written again", func() { rewrite(g.Must) }},
		{"the leader is deposed", func() { g.Eventually("there is a leader again", depose(g.Must)) }},
		{apiServer, func() {
			if err := g.RestartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.isBack()
		}},
		{killed, func() { g.replicas[0].Kill() }},
	})
	l.finish()
	l.judge(t)
	checkMachines(t, g.Config(), l)
	again := 0
	for _, r := range g.ever {
		again += r.Starts() - 1
	}
	if again != 1 {
		t.Errorf("replicas ended and were started again %d times; one was killed", again)
	}
	serving, authorities := rotations()
	t.Logf("%d serving certificates, %d authorities", serving, authorities)
	if serving < 3 || authorities < 2 {
		t.Error("certificates should have been rotated, authorities too")
	}
}

// TestCertManager soaks what cert-manager renews: the certificate, and the authority.
func TestCertManager(t *testing.T) {
	g := &ground{Installation: installation.New(t)}
	g.PrepareCertManager()
	g.CertManager("controller")
	g.CertManager("cainjector")
	g.MustHelm("install", installation.Release, installation.Chart(), "--set", "apiVersions.v1alpha2=true,shutdownDelay=3s")
	g.ready()
	l := newLoad(t, g.Config())
	soak(l, func() {
		time.Sleep(4 * short) // certificates are read every ten seconds
		g.allServe()
	}, []event{
		{"the certificate is renewed", func() { g.Eventually("it is", renew(g.Must, "virtwright-serving")) }},
		{"the authority is renewed", func() { g.Eventually("it is", renew(g.Must, "virtwright-ca")) }},
		{"the certificate is renewed again", func() { g.Eventually("it is", renew(g.Must, "virtwright-serving")) }},
	})
	l.finish()
	l.judge(t)
	checkMachines(t, g.Config(), l)
}

// ready starts two replicas, and returns when the policies act.
func (g *ground) ready() {
	g.Helper()
	g.add()
	g.add()
	g.allServe()
	prepare(g.Must)
}

// add starts one more replica.
func (g *ground) add() {
	g.Helper()
	r := g.Start(fmt.Sprintf("virtwright-%d", len(g.ever)+1))
	g.replicas, g.ever = append(g.replicas, r), append(g.ever, r)
}

func (g *ground) allServe() {
	g.Helper()
	for _, r := range g.replicas {
		g.Eventually("replicas are ready", r.Serves)
	}
}

// replace deletes a replica while another one starts.
func (g *ground) replace(at int) {
	g.Helper()
	old := g.replicas[at]
	g.replicas = append(g.replicas[:at:at], g.replicas[at+1:]...)
	g.add()
	old.Delete()
}

// replaceAll deletes all replicas at once while as many others start.
func (g *ground) replaceAll() {
	g.Helper()
	old := g.replicas
	g.replicas = nil
	var ending sync.WaitGroup
	for _, r := range old {
		ending.Go(r.Delete)
	}
	for range old {
		g.add()
	}
	ending.Wait()
}

// rollout replaces the replicas one by one, none unavailable.
func (g *ground) rollout() {
	g.Helper()
	for range len(g.replicas) {
		g.add()
		g.allServe()
		old := g.replicas[0]
		g.replicas = g.replicas[1:]
		old.Delete()
	}
}

// rotations counts the certificates that there are until the function is called.
func (g *ground) rotations() func() (serving, authorities int) {
	serving, authorities := map[string]bool{}, map[string]bool{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			out, _, err := g.Kubectl(g.Context(), "", "get", "secret", installation.Release+"-serving", "-n", installation.Namespace, "-o", `jsonpath={.data.tls\.crt} {.data.ca\.crt}`)
			if fields := strings.Fields(out); err == nil && len(fields) == 2 {
				serving[fields[0]], authorities[fields[1]] = true, true
			}
		}
	}()
	return func() (int, int) {
		close(stop)
		<-stopped
		return len(serving), len(authorities)
	}
}
