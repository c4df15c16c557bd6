package soak

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/installation"
)

// A preset that is Ready acts wherever a machine is made whole, also when a replica was late: it
// says whose.
func TestReadyIsEverywhere(t *testing.T) {
	g := &ground{Installation: installation.New(t)}
	g.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,shutdownDelay=1s,replicas=3")
	g.add()
	g.ready()
	for i := range 20 {
		name := fmt.Sprintf("turn-%d", i)
		g.Must(preset(name), "create", "-f", "-")
		g.Must("", "wait", "vmpreset/"+name, "-n", home, "--for=condition=Ready", "--timeout=30s")
		var creators sync.WaitGroup
		for j := range 6 { // by as many replicas as there are
			creators.Go(func() {
				vm := fmt.Sprintf(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"generateName": "%s-", "namespace": "soak", "labels": {"turn": %q}}, "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}}`, name, name)
				out, stderr, err := g.Kubectl(t.Context(), vm, "create", "-f", "-", "-o", "jsonpath={.metadata.labels.acted}")
				if err != nil || out != "yes" {
					t.Errorf("%s, machine %d: the preset is Ready and has not acted: %q %v %s", name, j, out, err, stderr)
				}
			})
		}
		creators.Wait()
	}

	late := g.follower()
	g.pause(late)
	g.Must(preset("slow"), "create", "-f", "-")
	g.Eventually("its status says who is late", func() error {
		return g.is("slow", "False Pending not in use yet by "+late.Name())
	})
	late.Resume()
	g.Eventually("it is ready", func() error { return g.is("slow", "True Compiled in use") })

	g.allServe()
	g.pause(late)
	g.Must(preset("gone"), "create", "-f", "-")
	began := time.Now()
	g.Eventually("a replica that does not answer is not waited for forever", func() error { return g.is("gone", "True Compiled in use") })
	if waited := time.Since(began); waited < 5*time.Second {
		t.Errorf("it should be waited for while it may live, not for %s", waited)
	}
	late.Resume()
}

// preset labels the machines that have its name.
func preset(name string) string {
	return fmt.Sprintf(`{apiVersion: virtwright.dev/v1alpha1, kind: VirtualMachinePreset, metadata: {name: %s, namespace: soak},
  spec: {match: {labels: {matchLabels: {turn: %s}}}, defaults: {metadata: {labels: {acted: "yes"}}}}}`, name, name)
}

// is reports how a preset's Ready differs from what it should be.
func (g *ground) is(name, want string) error {
	condition := `{range .status.conditions[?(@.type=="Ready")]}{.status} {.reason} {.message}{end}`
	if got := g.Must("", "get", "vmpreset", name, "-n", home, "-o", "jsonpath="+condition); got != want {
		return fmt.Errorf("Ready is %q, want %q", got, want)
	}
	return nil
}

// pause stops a replica, and returns when it gets no more requests.
func (g *ground) pause(r *installation.Replica) {
	g.Helper()
	r.Pause()
	g.Eventually("no request goes to "+r.Name(), func() error {
		if r.Serves() == nil {
			return errors.New("it is an endpoint still")
		}
		return nil
	})
}

// follower is a replica that does not lead.
func (g *ground) follower() *installation.Replica {
	g.Helper()
	for _, r := range g.replicas {
		if !strings.Contains(r.Log.String(), `"controller":"virtual-machine"`) {
			return r
		}
	}
	g.Fatal("every replica leads")
	return nil
}
