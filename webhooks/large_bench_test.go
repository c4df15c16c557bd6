package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// bodies are objects that fill a review as far as it may be filled, each in a way that costs most
// somewhere else.
func bodies() map[string]string {
	const room = maxBodyBytes/2 - 100_000
	fill := func(format, element string) string {
		return fmt.Sprintf(format, strings.TrimSuffix(strings.Repeat(element+",", room/(len(element)+1)), ","))
	}
	vm := func(devices string) string {
		return `{"metadata":{"name":"a"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{` + devices + `}}}}}}`
	}
	numbered := func(format string) string {
		var out strings.Builder
		for i := 0; out.Len() < room; i++ {
			fmt.Fprintf(&out, format+",", i)
		}
		return strings.TrimSuffix(out.String(), ",")
	}
	return map[string]string{
		"empty disks":       vm(fill(`"disks":[%s]`, "{}")),
		"equal disks":       vm(fill(`"disks":[%s]`, `{"name":"a"}`)),
		"500 disks":         vm(`"disks":[` + strings.Repeat(`{"name":"a","serial":"`+strings.Repeat("x", 6000)+`"},`, 500) + `{"name":"b"}]`),
		"distinct disks":    vm(`"disks":[` + numbered(`{"name":"d%d"}`) + `]`),
		"distinct volumes":  strings.Replace(vm(``), `"domain"`, `"volumes":[`+numbered(`{"name":"v%d","emptyDisk":{}}`)+`],"domain"`, 1),
		"tolerations":       strings.Replace(vm(``), `"domain"`, `"tolerations":[`+numbered(`{"key":"k%d"}`)+`],"domain"`, 1),
		"annotations":       strings.Replace(vm(``), `"name":"a"`, `"name":"a","annotations":{`+numbered(`"virtwright.dev/%d":""`)+`}`, 1),
		"template labels":   strings.Replace(vm(``), `{"spec":{"domain"`, `{"metadata":{"labels":{`+numbered(`"l%d":""`)+`}},"spec":{"domain"`, 1),
		"owner references":  strings.Replace(vm(``), `"name":"a"`, `"name":"a","ownerReferences":[`+numbered(`{"uid":"%d"}`)+`]`, 1),
		"numbers":           strings.Replace(vm(``), `"spec":{"run`, `"x":[`+numbered(`%d`)+`],"spec":{"run`, 1),
		"digits":            strings.Replace(vm(``), `"1Gi"`, `"`+strings.Repeat("1", room)+`"`, 1),
		"one string":        strings.Replace(vm(``), `"1Gi"`, `"`+strings.Repeat("x", room)+`"`, 1),
		"nested":            strings.Replace(vm(``), `"spec":{"run`, `"x":`+strings.Repeat(`[`, 9000)+strings.Repeat(`]`, 9000)+`,"spec":{"run`, 1),
		"named presets":     strings.Replace(vm(``), `"name":"a"`, `"name":"a","annotations":{"virtwright.dev/presets":"`+numbered(`p%d`)+`"}`, 1),
		"excluded presets":  strings.Replace(vm(``), `"name":"a"`, `"name":"a","annotations":{"virtwright.dev/exclude":"`+numbered(`p%d`)+`"}`, 1),
		"data volumes":      strings.Replace(vm(``), `"template"`, `"dataVolumeTemplates":[`+numbered(`{"metadata":{"name":"d%d"}}`)+`],"template"`, 1),
		"feature list":      strings.Replace(vm(``), `"memory"`, `"cpu":{"features":[`+numbered(`{"name":"f%d"}`)+`]},"memory"`, 1),
		"access credential": strings.Replace(vm(``), `"domain"`, `"accessCredentials":[`+numbered(`{"sshPublicKey":{"source":{"secret":{"secretName":"%d"}}}}`)+`],"domain"`, 1),
	}
}

// BenchmarkLargeBody answers updates of the largest bodies that are answered at all. Each should
// take less than a second; the longest answers are the ones to look at.
func BenchmarkLargeBody(b *testing.B) {
	server := &Server{
		Engine:     &presets.Engine{Platform: &presets.Platform{}},
		Snapshots:  fixed{presettest.Snapshot(b, presettest.RealisticPresets()...)},
		Namespaces: namespaces{"lab": {Name: "lab"}}, Owners: owners{}, Profiles: profiles{&domain.Profiles{}},
	}
	handlers := server.Handlers()
	for name, object := range bodies() {
		for _, path := range []string{PathMutateVirtualMachine, PathValidateVirtualMachine} {
			for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
				review := admissionv1.AdmissionReview{
					TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
					Request: &admissionv1.AdmissionRequest{
						UID: "u", Operation: operation, Namespace: "lab", Object: runtime.RawExtension{Raw: []byte(object)},
					},
				}
				if operation == admissionv1.Update {
					review.Request.OldObject.Raw = []byte(strings.Replace(object, `"Halted"`, `"Manual"`, 1))
				}
				body, err := json.Marshal(review)
				if err != nil || len(body) > maxBodyBytes {
					b.Fatalf("%s: %d bytes, %v", name, len(body), err)
				}
				b.Run(fmt.Sprintf("%s/%s%s", name, operation, path), func(b *testing.B) {
					for b.Loop() {
						send(b, handlers[path], "application/json", body)
					}
				})
			}
		}
	}
}
