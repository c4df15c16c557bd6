package soak

import (
	"fmt"
	"strings"
	"time"
)

// An event is something that happens to an installation while people work.
type event struct {
	name string
	run  func()
}

// quiet is while nothing happens.
const quiet = "nothing happens"

// soak has one event after another happen, each once the one before is over.
func soak(l *load, settle func(), events []event) {
	settle()
	for _, e := range events {
		l.enter(e.name)
		e.run()
		settle()
	}
}

// kubectl runs what must succeed and returns what it printed.
type kubectl func(stdin string, args ...string) string

// prepare makes the namespace and the policies, and returns when they act.
func prepare(k kubectl) {
	k("", "create", "namespace", home)
	k(policies, "apply", "-f", "-")
	k("", "wait", "vmpreset/small", "-n", home, "--for=condition=Ready", "--timeout=60s")
	k("", "wait", "cvmpreset/soak-everybody", "--for=condition=Ready", "--timeout=60s")
	k("", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
	time.Sleep(3 * time.Second) // the leader has reported Ready by then
}

// rewrite writes the presets again, and many that match nothing.
func rewrite(k kubectl) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "---\n{apiVersion: virtwright.dev/v1alpha1, kind: VirtualMachinePreset, metadata: {name: idle-%d, namespace: soak, labels: {idle: \"\"}}, spec: {match: {labels: {matchLabels: {size: none}}}, defaults: {spec: {running: true}}}}\n", i)
	}
	k(many.String(), "apply", "-f", "-")
	k("", "annotate", "vmpreset/small", "-n", home, "soak/written=again")
	k("", "annotate", "cvmpreset/soak-everybody", "soak/written=again")
	k("", "delete", "vmpreset", "-n", home, "-l", "idle")
}

// lease is what the leader holds.
var lease = []string{"lease", "virtwright-controllers", "-n", "virtwright-system"}

// depose gives the lease to a holder that does not exist. The function reports whether a replica
// has it again.
func depose(k kubectl) func() error {
	k("", append([]string{"patch", "--type=merge", "-p", `{"spec": {"holderIdentity": "missing"}}`}, lease...)...)
	return func() error {
		if holder := k("", append([]string{"get", "-o", "jsonpath={.spec.holderIdentity}"}, lease...)...); holder == "missing" || holder == "" {
			return fmt.Errorf("the leader is %q", holder)
		}
		return nil
	}
}

// renew has cert-manager renew a certificate as people do who cannot wait; the function says
// whether it has.
func renew(k kubectl, certificate string) func() error {
	const namespace = "virtwright-system"
	revision := func() string {
		return k("", "get", "certificate", certificate, "-n", namespace, "-o", "jsonpath={.status.revision} {.status.conditions[?(@.type==\"Ready\")].status}")
	}
	before := revision()
	k("", "patch", "certificate", certificate, "-n", namespace, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}, {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "", "lastTransitionTime": %q}]}}`,
		time.Now().UTC().Format(time.RFC3339)))
	return func() error {
		if is := revision(); is == before || !strings.HasSuffix(is, " True") {
			return fmt.Errorf("certificate %s is at revision %s, as before", certificate, is)
		}
		return nil
	}
}
