package soak

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/installation"
)

// A replica without a successor gives the leader's lease back at once and keeps serving, until its
// Deployment wants no replica.
func TestDrain(t *testing.T) {
	g := &ground{Installation: installation.New(t)}
	g.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,shutdownDelay=1s")
	g.add()
	g.allServe()
	only := g.replicas[0]
	leads := func(want bool) func() error {
		return func() error {
			if holder := g.Must("", append([]string{"get", "-o", "jsonpath={.spec.holderIdentity}"}, lease...)...); (holder != "") != want {
				return fmt.Errorf("the leader is %q", holder)
			}
			return nil
		}
	}
	g.Eventually("there is a leader", leads(true))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		only.Delete()
	}()
	logs := func(text string) func() error {
		return func() error {
			if !strings.Contains(only.Log.String(), text) {
				return fmt.Errorf("the replica does not log %q", text)
			}
			return nil
		}
	}
	g.Eventually("it waits for a successor", logs("Serving until another replica"))
	g.Eventually("it gives the lease back", leads(false))
	if err := errors.Join(only.Ready(), only.Serves()); err != nil {
		t.Errorf("the replica must serve while there is no other: %v", err)
	}
	select {
	case <-ended:
		t.Error("the replica has ended without a successor")
	default:
	}
	g.Must("", "scale", "deployment", installation.Release, "-n", installation.Namespace, "--replicas=0")
	g.Eventually("it stops", logs("the Deployment is deleted or scaled to 0"))
	<-ended
}
