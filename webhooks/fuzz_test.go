package webhooks

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// FuzzHandler sends any bytes as object, stored object and body. Every answer must be well-formed,
// and every patch must apply to the object.
func FuzzHandler(f *testing.F) {
	seed(f)
	server := &Server{
		Engine:     &presets.Engine{Platform: &presets.Platform{}},
		Snapshots:  fixed{presettest.Snapshot(f, presettest.RealisticPresets()...)},
		Namespaces: namespaces{"lab": {Name: "lab", Labels: map[string]string{"tier": "prod"}}},
		Owners:     owners{"u1": `{metadata: {name: web, uid: u1}, spec: {template: {spec: {domain: {}}}}}`},
		Profiles:   profiles{&domain.Profiles{}},
	}
	handlers := server.Handlers()
	delete(handlers, PathConvertVirtualMachine) // which has other reviews, see FuzzConversion
	f.Fuzz(func(t *testing.T, object, old []byte) {
		for path, handler := range handlers {
			for _, req := range requests(object, old) {
				body, err := json.Marshal(admissionv1.AdmissionReview{
					TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
				})
				if err != nil {
					continue // no JSON, so it cannot be in a review
				}
				code, answer := send(t, handler, "application/json", body)
				if code != http.StatusOK {
					t.Fatalf("%s: want 200, got %d: %s", path, code, answer)
				}
				checkAnswer(t, path, req, answered(t, answer, "u"))
			}
			code, answer := send(t, handler, "application/json", object)
			if code != http.StatusOK {
				var status metav1.Status
				if err := json.Unmarshal(answer, &status); err != nil || status.Message == "" || int(status.Code) != code {
					t.Fatalf("%s: want a Status, got %d: %s", path, code, answer)
				}
			}
		}
	})
}

// FuzzConversion sends anything as an object to convert, and as the whole body.
func FuzzConversion(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1alpha2","spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","volumeName":"b"}]}}}}}}`), "kubevirt.io/v1")
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1","status":5}`), "kubevirt.io/v1alpha2")
	f.Add([]byte(`[]`), "")
	f.Fuzz(func(t *testing.T, object []byte, version string) {
		body, err := json.Marshal(apiextensionsv1.ConversionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"},
			Request:  &apiextensionsv1.ConversionRequest{UID: "u", DesiredAPIVersion: version, Objects: []runtime.RawExtension{{Raw: object}}},
		})
		if err == nil {
			code, answer := send(t, conversions{}, "application/json", body)
			var review apiextensionsv1.ConversionReview
			if err := json.Unmarshal(answer, &review); code != http.StatusOK || err != nil || review.Response == nil || review.Response.UID != "u" {
				t.Fatalf("want a review with a response, got %d: %s", code, answer)
			}
			failed := review.Response.Result.Status != metav1.StatusSuccess
			if failed != (review.Response.Result.Message != "") || !failed && len(review.Response.ConvertedObjects) != 1 || strings.Contains(review.Response.Result.Message, "defect") {
				t.Fatalf("got %s", answer)
			}
		}
		if code, answer := send(t, conversions{}, "application/json", object); code != http.StatusOK {
			var status metav1.Status
			if err := json.Unmarshal(answer, &status); err != nil || status.Message == "" || int(status.Code) != code {
				t.Fatalf("want a Status, got %d: %s", code, answer)
			}
		}
	})
}

func requests(object, old []byte) []*admissionv1.AdmissionRequest {
	created := &admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Namespace: "lab", Object: runtime.RawExtension{Raw: object},
	}
	updated := *created
	updated.Operation, updated.OldObject.Raw = admissionv1.Update, old
	return []*admissionv1.AdmissionRequest{created, &updated}
}

func checkAnswer(t *testing.T, path string, req *admissionv1.AdmissionRequest, got *admissionv1.AdmissionResponse) {
	t.Helper()
	if !got.Allowed && got.Result.Code >= http.StatusInternalServerError {
		t.Fatalf("%s: %s", path, got.Result.Message)
	}
	if len(got.Patch) == 0 {
		return
	}
	patch, err := jsonpatch.DecodePatch(got.Patch)
	if err != nil {
		t.Fatalf("%s: cannot decode %s: %v", path, got.Patch, err)
	}
	if _, err := patch.Apply(req.Object.Raw); err != nil {
		t.Fatalf("%s: cannot apply %s: %v", path, got.Patch, err)
	}
}

// seed adds the examples and a few shapes that have been trouble elsewhere.
func seed(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"../examples/vms/*.yaml", "../examples/rejected/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			object, err := yaml.YAMLToJSON(text)
			if err != nil {
				f.Fatalf("%s: %v", file, err)
			}
			f.Add(object, []byte(`{"metadata":{"name":"a"},"spec":{"template":{"spec":{"domain":{}}}}}`))
		}
	}
	f.Add(presettest.RealisticVM(), presettest.RealisticVM())
	f.Add([]byte(`{"metadata":{"annotations":{"virtwright.dev/generate-template":"x","virtwright.dev/template-requester":"{"}},"spec":{}}`), []byte(`{"metadata":{"uid":5}}`))
	f.Add([]byte(`{"spec":{"vmName":"a","source":{"vmName":"b"},"target":{"configMap":5},"requester":{"groups":{}}}}`), []byte(`{"spec":{"requester":[]}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"virtwright.dev/provenance":"{","virtwright.dev/reapply":"1"}},"spec":{"template":"x"}}`), []byte(`null`))
	f.Add([]byte(`{"metadata":{"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":"web","uid":"u1","controller":true}]},"spec":{}}`), []byte(`[]`))
	f.Add([]byte(`{"spec":{"defaults":null,"match":{"conditions":[{"name":"a","expression":"object.spec["}]}}}`), []byte(`{}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"lab","object":{}}}`), []byte(``))
}
