package chart

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/test/installation"
)

// matrix are values over which everything must hold.
func matrix() map[string][]string {
	out := map[string][]string{
		"trusted":   {`trustedUsers=["system:serviceaccount:pools:controller","ada@example.org"]`},
		"one":       {`replicas=1`, `podDisruptionBudget.enabled=false`, `networkPolicy.enabled=false`},
		"observed":  {`metrics.serviceMonitor.enabled=true`, `metrics.prometheusRule.enabled=true`, `metrics.dashboard.enabled=true`},
		"issuer":    {`certs.issuerRef={"name":"corporate","kind":"ClusterIssuer"}`},
		"defaults":  {`defaults={"architecture":"arm64","networkInterface":"masquerade","evictionStrategy":"None","cpuModel":"host-passthrough"}`, `featureGates=["HostDisk","HostDevices=true"]`},
		"elsewhere": {`serviceAccount.name="other"`, `image={"repository":"example/manager","digest":"sha256:` + strings.Repeat("0", 64) + `"}`, `imagePullSecrets=[{"name":"pull"}]`},
		"placed":    {`nodeSelector={"a":"b"}`, `tolerations=[{"operator":"Exists"}]`, `priorityClassName=""`, `podLabels={"team":"x"}`, `resources={}`},
		"bare":      {`crds.enabled=false`, `subresources.enabled=false`, `aggregateRoles=false`},
	}
	for _, mode := range []string{"standalone", "addon"} {
		for _, certs := range []string{`"cert-manager"`, `"self-signed"`, `"provided"`} {
			values := []string{`mode="` + mode + `"`, `certs.mode=` + certs}
			if certs == `"provided"` {
				values = append(values, `certs.secretName="mine"`)
			}
			out[mode+"-"+strings.Trim(certs, `"`)] = values
		}
	}
	return out
}

func TestRender(t *testing.T) {
	flags := managerFlags(t)
	for name, values := range matrix() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := render(t, values...)
			if err != nil {
				t.Fatal(err)
			}
			r := rendered{t, objects}
			r.areNamedOnce()
			r.areLabelled()
			r.reachServices()
			r.knowFlags(flags)
			r.arePlacedSafely()
			for _, o := range objects {
				if text := fmt.Sprint(o.Object); strings.Contains(text, "@NAMESPACE@") || strings.Contains(text, "@TRUSTED@") || strings.Contains(text, "@SERVICE@") {
					t.Errorf("%s %s: a name was not put in", o.GetKind(), o.GetName())
				}
			}
		})
	}
}

// rendered are the objects of one set of values.
type rendered struct {
	*testing.T

	objects []*unstructured.Unstructured
}

func (r rendered) of(kind string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range r.objects {
		if o.GetKind() == kind {
			out = append(out, o)
		}
	}
	return out
}

func (r rendered) areNamedOnce() {
	seen := map[string]bool{}
	for _, o := range r.objects {
		key := o.GetAPIVersion() + " " + o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if seen[key] || o.GetName() == "" {
			r.Errorf("%s: twice, or without a name", key)
		}
		seen[key] = true
	}
}

func (r rendered) areLabelled() {
	for _, o := range r.objects {
		for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
			if o.GetLabels()[label] == "" {
				r.Errorf("%s %s has no label %s", o.GetKind(), o.GetName(), label)
			}
		}
	}
}

// reachServices: what API servers are told to call is there, under a name that
// certificates are for.
func (r rendered) reachServices() {
	services := map[string]bool{}
	for _, s := range r.of("Service") {
		services[s.GetName()] = true
	}
	var called []string
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		for _, o := range r.of(kind) {
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			if len(hooks) == 0 {
				r.Errorf("%s has no webhooks", kind)
			}
			for _, h := range hooks {
				name, _, _ := unstructured.NestedString(h.(map[string]any), "clientConfig", "service", "name")
				called = append(called, name)
			}
		}
	}
	for _, o := range r.of("APIService") {
		name, _, _ := unstructured.NestedString(o.Object, "spec", "service", "name")
		called = append(called, name)
	}
	for _, o := range r.of("CustomResourceDefinition") {
		if name, found, _ := unstructured.NestedString(o.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name"); found {
			called = append(called, name)
		}
	}
	slices.Sort(called)
	for _, name := range slices.Compact(called) {
		if !services[name] {
			r.Errorf("service %q is called, and is not there", name)
		}
		for _, c := range r.of("Certificate") {
			if names, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames"); len(names) > 0 && !slices.Contains(names, name+"."+namespace+".svc") {
				r.Errorf("certificate %s is not for %s", c.GetName(), name)
			}
		}
	}
	if len(called) == 0 {
		r.Error("nothing is called")
	}
}

// knowFlags: the manager knows every flag that it is given.
func (r rendered) knowFlags(flags string) {
	deployments := r.of("Deployment")
	if len(deployments) != 1 {
		r.Fatalf("%d deployments", len(deployments))
	}
	containers, _, _ := unstructured.NestedSlice(deployments[0].Object, "spec", "template", "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if len(args) < 5 {
		r.Errorf("too few arguments: %q", args)
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.Contains(flags, "\n  -"+name+"\n") && !strings.Contains(flags, "\n  -"+name+" ") {
			r.Errorf("the manager has no flag %s", name)
		}
	}
}

func managerFlags(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), installation.Program(t, installation.Manager), "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return "\n" + string(out)
}

// arePlacedSafely: pods run as nobody, may write nothing, and go one by one.
func (r rendered) arePlacedSafely() {
	d := r.of("Deployment")[0]
	for path, want := range map[string]any{
		"spec.strategy.rollingUpdate.maxUnavailable":             int64(0),
		"spec.template.spec.securityContext.runAsNonRoot":        true,
		"spec.template.spec.securityContext.seccompProfile.type": "RuntimeDefault",
	} {
		if got, _, _ := unstructured.NestedFieldNoCopy(d.Object, strings.Split(path, ".")...); fmt.Sprint(got) != fmt.Sprint(want) {
			r.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	if read, _, _ := unstructured.NestedBool(containers[0].(map[string]any), "securityContext", "readOnlyRootFilesystem"); !read {
		r.Error("the root file system can be written")
	}
}

// What is nonsense is refused in words that name the value and what would be right.
func TestNonsense(t *testing.T) {
	for values, want := range map[string]string{
		`mode="both"`:                   "at '/mode': value must be one of 'standalone', 'addon'",
		`replica=3`:                     "additional properties 'replica' not allowed",
		`replicas=0`:                    "at '/replicas': minimum: got 0, want 1",
		`certs.mode="none"`:             "'cert-manager', 'self-signed', 'provided'",
		`certs.mode="provided"`:         "certs.secretName: name the Secret",
		`certs.duration="90 days"`:      "at '/certs/duration'",
		`trustedUsers=["o'brien"]`:      "at '/trustedUsers/0'",
		`featureGates=["HostDisk=on"]`:  "at '/featureGates/0'",
		`image.digest="sha256:12"`:      "at '/image/digest'",
		`extraArgs=["-v"]`:              "at '/extraArgs/0'",
		`subresources.allowGet="yes"`:   "at '/subresources/allowGet': got string, want boolean",
		`defaults.networkInterface="x"`: "at '/defaults/networkInterface'",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", values, want, err)
		}
	}
}
