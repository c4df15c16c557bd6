package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/clients"
)

// converted returns the CRD of VirtualMachines with a conversion webhook; nil means none.
func converted(by *apiextensionsv1.WebhookClientConfig, edit ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConvertedCRD},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: by}},
			Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}, {Name: "v1alpha3", Served: true}, {Name: "v1alpha2", Served: true}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	if by == nil {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	for _, e := range edit {
		e(crd)
	}
	return crd
}

func byService(namespace, name string) *apiextensionsv1.WebhookClientConfig {
	return &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: name}}
}

func TestDecideRetirement(t *testing.T) {
	const ours = `{"op":"test","path":"/spec/conversion/webhook/clientConfig/service/namespace","value":"home"},` +
		`{"op":"test","path":"/spec/conversion/webhook/clientConfig/service/name","value":"webhooks"},` +
		`{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}`
	const unserved = `,{"op":"test","path":"/spec/versions/2/name","value":"v1alpha2"},{"op":"replace","path":"/spec/versions/2/served","value":false}`
	cases := map[string]struct {
		reason            string
		in                *apiextensionsv1.CustomResourceDefinition
		patch, said, fail string
	}{
		"ours": {
			reason: "one patch removes all changes of the chart, if they are still ours",
			in:     converted(byService("home", "webhooks")),
			patch:  "[" + ours + unserved + "]", said: "v1alpha2 is no longer served",
		},
		"injected": {
			reason: "the annotation with our certificate is removed, too",
			in: converted(byService("home", "webhooks"), func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Annotations = map[string]string{injectedFrom: "home/serving"}
			}),
			patch: "[" + ours + unserved + `,{"op":"remove","path":"/metadata/annotations/cert-manager.io~1inject-ca-from"}]`, said: "no longer served",
		},
		"injected by others": {
			reason: "an annotation with another certificate stays",
			in: converted(byService("home", "webhooks"), func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Annotations = map[string]string{injectedFrom: "home-of-others/serving"}
			}),
			patch: "[" + ours + unserved + "]", said: "no longer served",
		},
		"without the version": {
			reason: "the CRD may lack the version",
			in: converted(byService("home", "webhooks"), func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Spec.Versions = crd.Spec.Versions[:2]
			}),
			patch: "[" + ours + "]", said: "no longer served",
		},
		"no webhook": {
			reason: "it was retired before, or never converted",
			in:     converted(nil), patch: "null", said: "nothing to do",
		},
		"no conversion": {
			reason: "the default is no conversion",
			in:     converted(nil, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Conversion = nil }),
			patch:  "null", said: "nothing to do",
		},
		"another Service": {
			reason: "KubeVirt, or another release, came since",
			in:     converted(byService("kubevirt", "virt-api")),
			patch:  "null", said: "Service kubevirt/virt-api converts it, not Service home/webhooks: not changed",
		},
		"a URL": {
			reason: "a webhook outside the cluster converts",
			in:     converted(&apiextensionsv1.WebhookClientConfig{URL: new("https://192.0.2.1/convert")}),
			patch:  "null", said: "https://192.0.2.1/convert converts it, not Service home/webhooks: not changed",
		},
		"stored": {
			reason: "objects that are stored in v1alpha2 cannot be read without conversion",
			in: converted(byService("home", "webhooks"), func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Status.StoredVersions = []string{"v1alpha2", "v1"}
			}),
			patch: "null", fail: "objects may be stored as v1alpha2",
		},
		"stored by others": {
			reason: "objects that another program converts are not ours",
			in: converted(byService("kubevirt", "virt-api"), func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Status.StoredVersions = []string{"v1alpha2", "v1"}
			}),
			patch: "null", said: "not changed",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decideRetirement(c.in, types.NamespacedName{Namespace: "home", Name: "webhooks"})
			if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: want an error with %q, got %v", c.reason, c.fail, err)
			}
			patch, err := json.Marshal(got.patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.patch, string(patch)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if !strings.Contains(got.message, c.said) {
				t.Errorf("%s: want it to say %q, got %q", c.reason, c.said, got.message)
			}
		})
	}
}

func TestRetireNeedsService(t *testing.T) {
	if _, err := parse([]string{"--retire"}, io.Discard); err == nil || !strings.Contains(err.Error(), "--retire requires --webhook-service") {
		t.Errorf("got %v", err)
	}
}

// runRetire runs the manager with --retire and returns its output.
func runRetire(t *testing.T, c *cluster, args ...string) (string, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--retire", "--webhook-service=home/webhooks", "--kubeconfig=" + c.Kubeconfig()}, args...)...)
	cmd.Env = append(os.Environ(), runVariable+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// says ends the test unless a retirement succeeds with a message.
func says(t *testing.T, c *cluster, want string, args ...string) {
	t.Helper()
	if out, err := runRetire(t, c, args...); err != nil || !strings.Contains(out, want) {
		t.Fatalf("want it to say %q, got %v: %s", want, err, out)
	}
}

// A real API server accepts the patch, also during other writes, and no longer serves the old
// version when the run ends.
func TestRetire(t *testing.T) {
	c := newCluster(t)
	says(t, c, "not found")
	if err := c.InstallCRDs(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	says(t, c, "nothing to do")
	crd := object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: `+webhooks.ConvertedCRD+`}}`)
	pristine := read(t, c, crd)
	convertBy(t, c, crd, "elsewhere")
	says(t, c, "Service elsewhere/webhooks converts it, not Service home/webhooks: not changed")
	convertBy(t, c, crd, "home")
	says(t, c, "not changed", "--mode=addon")
	if _, err := served(t, c); err != nil {
		t.Fatalf("v1alpha2 should be served still: %v", err)
	}

	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { // another writer
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				_ = tryPatch(t.Context(), c, crd.DeepCopy(), fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n))
			}
		}
	}()
	says(t, c, "no longer served")
	close(stop)
	<-ended
	if list, err := served(t, c); err == nil {
		t.Errorf("v1alpha2 should not be served any more: %s", list)
	}
	patch(t, c, crd, `{"metadata":{"annotations":{"n":null}}}`)
	if diff := cmp.Diff(pristine.Object["spec"], read(t, c, crd).Object["spec"]); diff != "" {
		t.Errorf("want the CRD as it was without us (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pristine.GetAnnotations(), crd.GetAnnotations()); diff != "" {
		t.Errorf("want the CRD's annotations as they were (-want +got):\n%s", diff)
	}
	for _, f := range crd.GetManagedFields() {
		if f.Manager == clients.FieldOwner {
			t.Errorf("want no conflict when the CRD is applied again, got %v", f)
		}
	}
	says(t, c, "nothing to do")
}

// read reads an object again, and returns a copy.
func read(t *testing.T, c *cluster, of *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(of), of); err != nil {
		t.Fatal(err)
	}
	return of.DeepCopy()
}

// convertBy changes a CRD as the chart does, for an installation in a namespace.
func convertBy(t *testing.T, c *cluster, crd *unstructured.Unstructured, namespace string) {
	t.Helper()
	patch(t, c, crd, `{"metadata":{"annotations":{"`+injectedFrom+`":"`+namespace+`/serving"}}}`)
	err := c.Patch(t.Context(), crd, client.RawPatch(types.JSONPatchType, []byte(`[
		{"op":"replace","path":"/spec/versions/2/served","value":true},
		{"op":"add","path":"/spec/conversion","value":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"`+namespace+`","name":"webhooks"}}}}}]`)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "v1alpha2 is served", func() error {
		_, err := served(t, c)
		return err
	})
}

// served returns the resources of the converted version.
func served(t *testing.T, c *cluster) (string, error) {
	out, stderr, err := c.Kubectl(t.Context(), "", "get", "--raw", "/apis/kubevirt.io/v1alpha2")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr)
	}
	return out, nil
}
