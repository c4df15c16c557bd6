package chart

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/test/installation"
)

// matrix are values over which everything must hold.
func matrix() map[string][]string {
	out := map[string][]string{
		"trusted":   {`trustedUsers=["system:serviceaccount:pools:controller","ada@example.org"]`},
		"one":       {`replicas=1`, `podDisruptionBudget.enabled=false`, `networkPolicy.enabled=false`},
		"observed":  {`metrics.serviceMonitor.enabled=true`, `metrics.podMonitor.enabled=true`, `metrics.prometheusRule.enabled=true`, `metrics.dashboard.enabled=true`},
		"issuer":    {`certs.issuerRef={"name":"corporate","kind":"ClusterIssuer"}`},
		"defaults":  {`exceptions.maxDuration="2160h"`, `defaults={"architecture":"arm64","networkInterface":"masquerade","evictionStrategy":"None","cpuModel":"host-passthrough"}`, `featureGates=["HostDisk","HostDevices=true"]`},
		"elsewhere": {`serviceAccount.name="other"`, `image={"repository":"example/manager","digest":"sha256:` + strings.Repeat("0", 64) + `"}`, `imagePullSecrets=[{"name":"pull"}]`},
		"placed":    {`nodeSelector={"a":"b"}`, `tolerations=[{"operator":"Exists"}]`, `priorityClassName=""`, `podLabels={"team":"x"}`, `resources={}`},
		"launchers": {`launcher={"image":{"repository":"example/launcher","tag":"2"},"imagePullSecrets":["pull"],"imageVolumes":true}`, `kvm.resource=""`},
		"versions":  {`apiVersions.v1alpha2=true`},
		"theirs":    {`mode="addon"`, `apiVersions.v1alpha2=true`},
		"emptied":   {`apiVersions.v1alpha2=true`, `affinity=null`, `resources=null`, `podLabels=null`, `nodeSelector=null`, `certs.renewBefore=null`, `certs.duration=null`, `certs.selfSigned=null`, `metrics.dashboard={"enabled":true,"labels":null}`},
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
			r.stayAvailable()
			r.knowFlags(flags)
			r.arePlacedSafely()
			for _, o := range slices.Concat(r.of("Job"), r.of("Pod")) {
				r.isPlacedAs(o, r.of("Deployment")[0])
			}
			r.retireTheirCRD()
			for _, o := range objects {
				if text := fmt.Sprint(o.Object); strings.Contains(text, "@NAMESPACE@") || strings.Contains(text, "@CONTROLLERS@") || strings.Contains(text, "@SERVICE@") || strings.Contains(text, "@NODEAGENT@") {
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

// reachServices: webhooks and APIServices name a Service of the chart, which the certificate
// covers.
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

// knowFlags: the manager knows every flag that it is given, by whomever.
func (r rendered) knowFlags(flags string) {
	if n := len(r.of("Deployment")); n != 1 {
		r.Fatalf("%d deployments", n)
	}
	for _, o := range r.pods() {
		args, _, _ := unstructured.NestedStringSlice(containerOf(o), "args")
		if len(args) < 2 || o.GetKind() == "Deployment" && len(args) < 5 {
			r.Errorf("%s %s: too few arguments: %q", o.GetKind(), o.GetName(), args)
		}
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if !strings.Contains(flags, "\n  -"+name+"\n") && !strings.Contains(flags, "\n  -"+name+" ") {
				r.Errorf("the manager has no flag %s", name)
			}
		}
	}
}

// pods are what runs.
func (r rendered) pods() []*unstructured.Unstructured {
	return slices.Concat(r.of("Deployment"), r.of("Job"), r.of("Pod"))
}

// podOf is the spec of the pods of what runs.
func podOf(o *unstructured.Unstructured) map[string]any {
	path := []string{"spec", "template", "spec"}
	if o.GetKind() == "Pod" {
		path = path[:1]
	}
	spec, _, _ := unstructured.NestedMap(o.Object, path...)
	return spec
}

// containerOf is the one container of what runs.
func containerOf(o *unstructured.Unstructured) map[string]any {
	containers, _, _ := unstructured.NestedSlice(podOf(o), "containers")
	return containers[0].(map[string]any)
}

func managerFlags(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), installation.Program(t, installation.Manager), "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return "\n" + string(out)
}

// arePlacedSafely: pods run as user 65532 without writable file systems, and are evicted one by
// one.
func (r rendered) arePlacedSafely() {
	if got, _, _ := unstructured.NestedFieldNoCopy(r.of("Deployment")[0].Object, "spec", "strategy", "rollingUpdate", "maxUnavailable"); fmt.Sprint(got) != "0" {
		r.Errorf("%v pods may be away", got)
	}
	for _, o := range r.pods() {
		for path, want := range map[string]any{
			"runAsNonRoot":        true,
			"seccompProfile.type": "RuntimeDefault",
		} {
			if got, _, _ := unstructured.NestedFieldNoCopy(podOf(o), append([]string{"securityContext"}, strings.Split(path, ".")...)...); got != want {
				r.Errorf("%s %s: %s is %v, want %v", o.GetKind(), o.GetName(), path, got, want)
			}
		}
		if read, _, _ := unstructured.NestedBool(containerOf(o), "securityContext", "readOnlyRootFilesystem"); !read {
			r.Errorf("%s %s: the root file system can be written", o.GetKind(), o.GetName())
		}
	}
}

// retireTheirCRD: before the webhook is deleted, a hook disables the conversion of kept CRDs. Its
// service account has only this permission, and its pod is scheduled like the manager's.
func (r rendered) retireTheirCRD() {
	converts := slices.ContainsFunc(r.of("CustomResourceDefinition"), func(o *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook")
		return found
	})
	var hooks []string
	for _, o := range r.objects {
		if o.GetAnnotations()["helm.sh/hook"] == "pre-delete" {
			hooks = append(hooks, o.GetKind())
			if first := o.GetAnnotations()["helm.sh/hook-weight"] == "-1"; first == (o.GetKind() == "Job") {
				r.Errorf("%s must have its rights before it runs", o.GetName())
			}
		}
	}
	slices.Sort(hooks)
	if !converts && len(hooks) == 0 {
		return
	}
	if diff := cmp.Diff([]string{"ClusterRole", "ClusterRoleBinding", "Job", "ServiceAccount"}, hooks); diff != "" || !converts {
		r.Fatalf("conversion by a webhook: %t; hooks (-want +got):\n%s", converts, diff)
	}
	job := r.of("Job")[0]
	for _, field := range []string{"backoffLimit", "activeDeadlineSeconds"} {
		if _, found, _ := unstructured.NestedFieldNoCopy(job.Object, "spec", field); !found {
			r.Errorf("%s has no %s: who uninstalls would wait for long", job.GetName(), field)
		}
	}
	r.mayOnly(job, map[string]any{
		"apiGroups": []any{"apiextensions.k8s.io"}, "resources": []any{"customresourcedefinitions"},
		"resourceNames": []any{"virtualmachines.kubevirt.io"}, "verbs": []any{"get", "patch"},
	})
}

// isPlacedAs: a pod is placed and secured as the manager is, and not taken for it.
func (r rendered) isPlacedAs(o, manager *unstructured.Unstructured) {
	for _, field := range []string{"nodeSelector", "tolerations", "imagePullSecrets", "priorityClassName", "securityContext"} {
		if diff := cmp.Diff(podOf(manager)[field], podOf(o)[field]); diff != "" {
			r.Errorf("the pods of %s have another %s (-manager +got):\n%s", o.GetName(), field, diff)
		}
	}
	for _, field := range []string{"image", "imagePullPolicy", "resources", "securityContext"} {
		if diff := cmp.Diff(containerOf(manager)[field], containerOf(o)[field]); diff != "" {
			r.Errorf("the container of %s has another %s (-manager +got):\n%s", o.GetName(), field, diff)
		}
	}
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	if o.GetKind() == "Pod" {
		labels = o.GetLabels()
	}
	selected, _, _ := unstructured.NestedStringMap(manager.Object, "spec", "selector", "matchLabels")
	if name := "app.kubernetes.io/name"; labels[name] == selected[name] {
		r.Errorf("%s would be taken for a replica", o.GetName())
	}
}

// stayAvailable: the aggregated API has an endpoint that is ready while all pods terminate.
func (r rendered) stayAvailable() {
	for _, api := range r.of("APIService") {
		name, _, _ := unstructured.NestedString(api.Object, "spec", "service", "name")
		if !slices.ContainsFunc(r.of("EndpointSlice"), func(slice *unstructured.Unstructured) bool {
			return slice.GetLabels()["kubernetes.io/service-name"] == name && slice.Object["addressType"] == "FQDN"
		}) {
			r.Errorf("%s is unavailable while all pods terminate", api.GetName())
		}
	}
}

// mayOnly: who runs has a rule in the cluster, and no other.
func (r rendered) mayOnly(o *unstructured.Unstructured, rule map[string]any) {
	account := podOf(o)["serviceAccountName"]
	var rules []any
	for _, binding := range slices.Concat(r.of("ClusterRoleBinding"), r.of("RoleBinding")) {
		subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
		if subjects[0].(map[string]any)["name"] != account {
			continue
		}
		to, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		for _, role := range r.of("ClusterRole") {
			if role.GetName() == to {
				more, _, _ := unstructured.NestedSlice(role.Object, "rules")
				rules = append(rules, more...)
			}
		}
	}
	if diff := cmp.Diff([]any{rule}, rules); diff != "" {
		r.Errorf("%s has other rights (-want +got):\n%s", o.GetName(), diff)
	}
}

// A mirror serves all images: imageRegistry precedes each repository.
func TestImageRegistry(t *testing.T) {
	const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, test := range map[string]struct {
		values            []string
		manager, launcher string
	}{
		"default": {nil, "virtwright/virtwright-manager:1", "virtwright/virtwright-launcher:1"},
		"mirror": {
			[]string{`imageRegistry="mirror.example:5000/kube"`},
			"mirror.example:5000/kube/virtwright/virtwright-manager:1", "mirror.example:5000/kube/virtwright/virtwright-launcher:1",
		},
		"mirror, by digest": {
			[]string{`imageRegistry="mirror.example"`, `image.digest="` + digest + `"`, `launcher.image={"repository":"other/launcher","digest":"` + digest + `"}`},
			"mirror.example/virtwright/virtwright-manager@" + digest, "mirror.example/other/launcher@" + digest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, append([]string{`image.tag="1"`, `launcher.image.tag="1"`}, test.values...)...)
			if err != nil {
				t.Fatal(err)
			}
			r := rendered{t, objects}
			for _, o := range r.pods() {
				if got := containerOf(o)["image"]; got != test.manager {
					t.Errorf("%s %s runs %v, want %s", o.GetKind(), o.GetName(), got, test.manager)
				}
			}
			args, _, _ := unstructured.NestedStringSlice(containerOf(r.of("Deployment")[0]), "args")
			if want := "--launcher-image=" + test.launcher; !slices.Contains(args, want) {
				t.Errorf("no %s in %q", want, args)
			}
		})
	}
}

// Invalid values are rejected, with the name of the value and the valid ones.
func TestNonsense(t *testing.T) {
	for values, want := range map[string]string{
		`mode="both"`:              "at '/mode': value must be one of 'standalone', 'addon'",
		`replica=3`:                "additional properties 'replica' not allowed",
		`replicas=0`:               "at '/replicas': minimum: got 0, want 1",
		`certs.mode="none"`:        "'cert-manager', 'self-signed', 'provided'",
		`certs.mode="provided"`:    "certs.secretName: Required value",
		`certs.duration="90 days"`: "at '/certs/duration'",
		`certs.issuerRef={"kind":"ClusterIssuer"}`:        "missing property 'name'",
		`certs.duration="30m"`:                            "issues certificates for at least 1h",
		`certs.renewBefore="2160h"`:                       "shorter than certs.duration, 2160h",
		`certs={"mode":"self-signed","duration":"4381h"}`: "must be at most half of certs.selfSigned.caDuration, 8760h",
		`certs={"mode":"self-signed","duration":"3h59m"}`: "certs.selfSigned.overlap: Invalid value: \"1h\": must be at least 4s, and at most a quarter",
		`image.repository="foo:1"`:                        "at '/image/repository'",
		`serviceAccount.name="a..b"`:                      "at '/serviceAccount/name'",
		`exceptions.maxDuration="90d"`:                    "at '/exceptions/maxDuration'",
		`shutdownDelay="2m"`:                              "at '/shutdownDelay'", // pods are killed after a minute
		`trustedUsers=["o'brien"]`:                        "at '/trustedUsers/0'",
		`featureGates=["HostDisk=on"]`:                    "at '/featureGates/0'",
		`featureGates=["HostDisk","HostDisk=false"]`:      "featureGates: Duplicate value",
		`image=null`:                    "missing property 'image'",
		`image.digest="sha256:12"`:      "at '/image/digest'",
		`imageRegistry="https://r"`:     "at '/imageRegistry'",
		`extraArgs=["-v"]`:              "at '/extraArgs/0'",
		`subresources.allowGet="yes"`:   "at '/subresources/allowGet': got string, want boolean",
		`defaults.networkInterface="x"`: "at '/defaults/networkInterface'",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", values, want, err)
		}
	}
}

// The manager may write every Lease of its namespace, so that must not be the system's.
func TestSystemNamespace(t *testing.T) {
	_, stderr, err := installation.Helm(t, "template", release, folder, "--namespace", "kube-system", "--kube-version", "1.37.0")
	if err == nil || !strings.Contains(stderr, "install it into a namespace of its own") {
		t.Errorf("the chart must not be installed into kube-system: %v: %s", err, stderr)
	}
}
