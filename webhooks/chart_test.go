package webhooks

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/golden"
	"github.com/virtwright/virtwright/validation/protection"
)

// The chart registers what the code describes, with the names that only an installation knows put
// in.
func TestChart(t *testing.T) {
	for mode, addon := range map[string]bool{"standalone": false, "addon": true} {
		r := Registration{
			Service:   &admissionregistrationv1.ServiceReference{Namespace: "@NAMESPACE@", Name: "@SERVICE@"},
			Namespace: "@NAMESPACE@",
			Guard: protection.Guard{Addon: addon, Manager: "@MANAGER@", HostDisk: "@HOSTDISK@", Controllers: []string{"@CONTROLLERS@"}, Trusted: []string{
				"@MANAGER@", "system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller",
			}},
		}
		var all []map[string]any
		for _, object := range r.Objects() {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			delete(fields, "status")
			unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
			all = append(all, fields)
		}
		text, err := yaml.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, "../charts/virtwright/files/admission/"+mode+".yaml", "# Written by make generate from package webhooks.\n"+string(text))
	}
}
