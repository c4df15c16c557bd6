package chart

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/virtwright/virtwright/certs"
	"github.com/virtwright/virtwright/test/installation"
)

// A certificate from outside is awaited, served, reported before it expires, and replaced without a
// restart.
func TestProvided(t *testing.T) {
	i := &installed{Installation: installation.New(t)}
	i.MustHelm("install", release, folder, "--set", "certs.mode=provided,certs.secretName=mine,apiVersions.v1alpha2=true")
	i.replica = i.Start(pod)
	i.tells("CertificateNotReady", "Secret "+namespace+"/mine with the serving certificate not found")

	const life = 25 * time.Second
	i.provide(time.Now().Add(life - 24*time.Hour)) // one that lives for a day
	i.Eventually("it serves with the first", i.replica.Serves)
	i.Must(small, "apply", "-f", "-")
	i.Eventually("the preset acts", i.whole)
	i.isConfined(true)

	i.tells("CertificateNotReady", "expired at")
	i.Eventually("it is not ready", func() error {
		if err := i.replica.Ready(); err == nil || !strings.Contains(err.Error(), "[-]certificate failed") {
			return fmt.Errorf("readiness: %w", err)
		}
		return nil
	})
	if err := i.whole(); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a machine should be rejected rather than stay as it is: %v", err)
	}

	i.provide(time.Now())
	i.Eventually("it serves with the second", i.replica.Serves)
	i.Eventually("the preset acts again", i.whole)
}

// whole is nil when a machine would come back whole.
func (i *installed) whole() error {
	out, stderr, err := i.Kubectl(i.Context(), fmt.Sprintf(sparse, "probe"), "create", "--dry-run=server", "-o", "jsonpath={.spec.template.spec.domain.memory.guest}", "-f", "-")
	if err != nil || out != "1Gi" {
		return fmt.Errorf("memory is %q: %w %s", out, err, stderr)
	}
	return nil
}

// provide writes the Secret, with a certificate that was issued at a time and lives for a day.
func (i *installed) provide(issued time.Time) {
	i.Helper()
	var names []string
	for _, service := range []string{"webhooks", "subresources"} {
		names = append(names, release+"-"+service+"."+namespace+".svc")
	}
	store := &certs.Memory{}
	a := &certs.Authority{
		Store: store, Names: names, Now: func() time.Time { return issued },
		Lifetimes: certs.Lifetimes{CA: 365 * 24 * time.Hour, Serving: 24 * time.Hour},
	}
	if err := a.Refresh(i.Context()); err != nil {
		i.Fatal(err)
	}
	data, _, err := store.Load(i.Context())
	if err != nil {
		i.Fatal(err)
	}
	var lines strings.Builder
	for _, key := range []string{"ca.crt", "tls.crt", "tls.key"} {
		fmt.Fprintf(&lines, "\n  %s: %s", key, base64.StdEncoding.EncodeToString(data[key]))
	}
	i.Must("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: mine, namespace: "+namespace+"}\ndata:"+lines.String(), "apply", "-f", "-")
}
