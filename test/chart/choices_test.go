package chart

import (
	"slices"
	"strings"
	"testing"
)

// The CRD is kept, so its conversion is disabled before its webhook goes, even if the release did
// not install it.
func TestRetires(t *testing.T) {
	objects, err := render(t, `apiVersions.v1alpha2=true`, `crds.enabled=false`)
	if err != nil {
		t.Fatal(err)
	}
	if len(rendered{t, objects}.of("Job")) != 1 {
		t.Error("no Job disables the conversion")
	}
}

// Only labels add roles to those of Kubernetes, so without them all roles are there to be bound.
func TestRolesThatAreNotAggregated(t *testing.T) {
	roles := func(values ...string) (names []string, aggregated int) {
		objects, err := render(t, values...)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range (rendered{t, objects}).of("ClusterRole") {
			names = append(names, o.GetName())
			for label := range o.GetLabels() {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/") {
					aggregated++
				}
			}
		}
		return names, aggregated
	}
	all, some := roles()
	if bare, none := roles(`aggregateRoles=false`); !slices.Equal(all, bare) || some == 0 || none > 0 {
		t.Errorf("want the roles %q, %d labels and none without, got %q with %d", all, some, bare, none)
	}
}

// The alert on the expiry of a certificate is silent until its renewal is overdue.
func TestOverdueCertificate(t *testing.T) {
	for values, want := range map[string]string{
		`certs.mode="cert-manager"`:                                      "< 604800",
		`certs.renewBefore="10h"`:                                        "< 18000",
		`certs={"mode":"self-signed","duration":"168h"}`:                 "< 100800",
		`certs={"mode":"provided","duration":"24h","secretName":"mine"}`: "< 14400",
	} {
		objects, err := render(t, values, `metrics.prometheusRule.enabled=true`, `metrics.prometheusRule.labels={"app.kubernetes.io/name":"mine"}`)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(alertsOf(t, rendered{t, objects}), func(a alert) bool {
			return a.Alert == "VirtwrightCertificateExpires" && strings.HasSuffix(a.Expr, want)
		})
		if i < 0 {
			t.Errorf("%s: no alert at %s", values, want)
		}
	}
}
